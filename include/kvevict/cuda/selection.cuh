// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvevict/core/selection.hpp"
#include "kvevict/cuda/memory.cuh"

namespace kvevict::cuda {

/// Which rows survive, on a device: as kvevict::Selection, with the indices in device memory and
/// the offsets both there and on the host, where they are known without waiting. Belongs to the
/// stream of the resources that filled it.
class Selection {
 public:
  std::int64_t heads() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t count(std::int64_t head) const {
    const auto h = static_cast<std::size_t>(head);
    return offsets_[h + 1] - offsets_[h];
  }
  /// Kept rows of all heads together.
  std::int64_t total() const { return offsets_.back(); }
  /// [heads + 1], host memory.
  std::span<const std::int64_t> offsets() const { return offsets_; }
  /// [total()], device memory: ascending within each head.
  const std::int32_t* indices() const { return indices_.data(); }
  std::int32_t* indices_data() { return indices_.data(); }

  /// Row counts after compaction; refers to this object's offsets. Uniform when all heads keep the
  /// same number of rows.
  RowLayout<MemorySpace::device> layout() const {
    if (uniform_) {
      return RowLayout<MemorySpace::device>::uniform(heads(), heads() == 0 ? 0 : count(0));
    }
    return RowLayout<MemorySpace::device>::ragged(device_offsets_.data(), offsets_.data(), heads());
  }
  SelectionView<MemorySpace::device> view() const { return {layout(), indices_.data()}; }

  /// Makes room for `counts[head]` indices of each head. Capacity is kept between calls, so that
  /// the same shapes a second time allocate nothing. `upload(offsets, count, to)` copies host
  /// integers to the device.
  template <class Upload>
  void reshape(cudaStream_t stream, std::span<const std::int64_t> counts, Upload&& upload) {
    offsets_.resize(counts.size() + 1);
    offsets_[0] = 0;
    uniform_ = true;
    for (std::size_t h = 0; h < counts.size(); ++h) {
      offsets_[h + 1] = offsets_[h] + counts[h];
      uniform_ = uniform_ && counts[h] == counts[0];
    }
    indices_.resize(stream, total());
    if (uniform_) return;
    device_offsets_.resize(stream, heads() + 1);
    upload(offsets_.data(), heads() + 1, device_offsets_.data());
  }

  /// Copies to host memory. Waits for the stream.
  kvevict::Selection download(cudaStream_t stream) const {
    std::vector<std::int64_t> counts;
    for (std::int64_t h = 0; h < heads(); ++h) counts.push_back(count(h));
    kvevict::Selection copy;
    copy.reserve(heads(), total());
    std::int32_t* to = copy.reshape(counts);
    if (total() > 0) {
      require_success(
          cudaMemcpyAsync(to, indices_.data(), static_cast<std::size_t>(total()) * sizeof *to,
                          cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
    }
    require_success(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return copy;
  }

 private:
  std::vector<std::int64_t> offsets_ = {0};
  DeviceArray<std::int64_t> device_offsets_;
  DeviceArray<std::int32_t> indices_;
  bool uniform_ = true;
};

}  // namespace kvevict::cuda
