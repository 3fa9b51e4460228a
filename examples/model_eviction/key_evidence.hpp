// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <kvevict/core/evidence.hpp>
#include <kvevict/core/kv_view.hpp>
#include <kvevict/cpu/resources.hpp>
#include <kvevict/math/rope.hpp>

namespace demo {

/// Cached keys turned back by their positions.
class UnrotatedKeys {
 public:
  template <class T>
  UnrotatedKeys(const kvevict::KvView<T>& cache, const kvevict::Rope& rope)
      : dim_(cache.keys().dim()), offsets_{0} {
    for (std::int64_t h = 0; h < cache.heads(); ++h) {
      const auto head = cache.keys().head(h);
      const auto positions = cache.positions().row(h, cache.layout());
      offsets_.push_back(offsets_.back() + head.rows);
      for (std::int64_t i = 0; i < head.rows; ++i) {
        const std::size_t start = keys_.size();
        for (std::int64_t c = 0; c < dim_; ++c) keys_.push_back(static_cast<float>(head(i, c)));
        turn_back(rope, positions[i], keys_.data() + start);
      }
    }
  }

  /// Refers to this object.
  kvevict::KeysBeforeRope<> view() const {
    const auto heads = static_cast<std::int64_t>(offsets_.size()) - 1;
    return {kvevict::RowsView<const float>::packed(
        keys_.data(), kvevict::RowLayout<>::ragged(offsets_.data(), heads), dim_, dim_)};
  }

 private:
  void turn_back(const kvevict::Rope& rope, std::int32_t position, float* key) const;

  std::int64_t dim_;
  std::vector<float> keys_;
  std::vector<std::int64_t> offsets_;
};

/// Query filters found from these queries instead of a calibration set, [kv_head][dim]: the main
/// direction of each query head's queries, towards their mean, averaged over the group and negated,
/// so that keys along it are attended to least.
std::vector<float> query_filters(kvevict::CpuResources& res, const kvevict::QueriesView<>& queries,
                                 std::int64_t kv_heads);

}  // namespace demo
