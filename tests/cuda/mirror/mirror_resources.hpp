// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kvevict/core/memory_space.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/cpu/resources.hpp"

namespace kvevict_test {

class MirrorDevice;

/// Resources of host memory whose ops run on a device: every op copies what its views refer to into
/// device memory, calls the CUDA backend's op, and copies back what that may have written. Tests
/// that are written for the CPU's resources test the CUDA backend by it. No CUDA header is needed
/// to use it: the ops are compiled into a library, once for each way to run device code.
///
/// The workspace is host memory, since it is what policies carve scores from. An op carves as many
/// bytes of it as the device's op carves of its own, so that sizes are those of the device.
class MirrorResources {
 public:
  static constexpr kvevict::MemorySpace space = kvevict::MemorySpace::host;
  using selection_type = kvevict::Selection;
  /// Threads and parallel-for have no meaning here.
  using Options = kvevict::cpu::ResourcesOptions;

  explicit MirrorResources(const Options& options = {});
  MirrorResources(MirrorResources&&) noexcept;
  MirrorResources& operator=(MirrorResources&&) noexcept;
  ~MirrorResources();

  static MirrorResources counting(const MirrorResources& like);

  int threads() const { return options_.threads; }
  const Options& options() const { return options_; }
  kvevict::Workspace& workspace() { return workspace_; }
  kvevict::Workspace& host_workspace() { return workspace_; }

  kvevict::Report& report() { return report_; }
  void reset_report() { report_ = {}; }
  void reset_nan_scores() { report_.nan_scores = 0; }
  void deliver_report(kvevict::Selection& kept) const { kept.set_report(report_); }
  void make_room(kvevict::Selection& kept, std::span<const std::int64_t> counts) const {
    kept.reshape(counts);
  }

  MirrorDevice& device() { return *device_; }

 private:
  Options options_;
  kvevict::Workspace workspace_;
  kvevict::Report report_;
  std::unique_ptr<MirrorDevice> device_;
};

}  // namespace kvevict_test
