// SPDX-License-Identifier: Apache-2.0
// Policies over rows of half and the like, for libraries that have the policies for float alone.
// The rows become floats on the host: every number of these types is one, and a device computes
// with nothing else.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/mirror/mirror_policies.hpp"

namespace kvevict_test {

namespace {

class FloatRows {
 public:
  template <class T>
  explicit FloatRows(const kvevict::RowsView<const T>& rows)
      : layout_(rows.layout()), dim_(rows.dim()) {
    // A view needs an address even where there are no rows.
    values_.reserve(static_cast<std::size_t>(std::max<std::int64_t>(layout_.total() * dim_, 1)));
    for (std::int64_t h = 0; h < layout_.heads(); ++h) {
      const auto head = rows.head(h);
      for (std::int64_t i = 0; i < head.rows; ++i) {
        for (std::int64_t c = 0; c < dim_; ++c) values_.push_back(head.value(i, c));
      }
    }
  }

  kvevict::RowsView<const float> view() const {
    return kvevict::RowsView<const float>::packed(values_.data(), layout_, dim_, dim_);
  }

 private:
  kvevict::RowLayout<> layout_;
  std::int64_t dim_;
  std::vector<float> values_;
};

/// Calls use(cache of floats).
template <class T, class Use>
void with_floats(const kvevict::KvView<const T>& cache, const Use& use) {
  const FloatRows keys(cache.keys());
  const FloatRows values(cache.values());
  use(kvevict::KvView<const float>(keys.view(), values.view(), cache.positions()));
}

}  // namespace

}  // namespace kvevict_test

#define KVEVICT_MIRROR_SCORES(T)                                                                \
  template <>                                                                                   \
  void kvevict::score_rows(kvevict_test::MirrorResources& res,                                  \
                           const kvevict_test::TestPolicy& policy,                              \
                           const kvevict::KvView<const T>& cache,                               \
                           const kvevict::Evidence<>& evidence, kvevict::ScoreView<> scores) {  \
    kvevict_test::with_floats(                                                                  \
        cache, [&](const auto& floats) { score_rows(res, policy, floats, evidence, scores); }); \
  }

#define KVEVICT_MIRROR_EVICTIONS(T, Allocator)                                                     \
  template <>                                                                                      \
  void kvevict::evict_into(kvevict_test::MirrorResources& res, kvevict::Selection& kept,           \
                           const kvevict_test::TestPolicy& policy,                                 \
                           const kvevict::KvView<const T>& cache,                                  \
                           const kvevict::Evidence<>& evidence, const kvevict::Budget& budget,     \
                           const kvevict::Protect& protect, const kvevict::Allocator& allocator) { \
    kvevict_test::with_floats(cache, [&](const auto& floats) {                                     \
      evict_into(res, kept, policy, floats, evidence, budget, protect, allocator);                 \
    });                                                                                            \
  }

#define KVEVICT_MIRROR_POLICIES(T)           \
  KVEVICT_MIRROR_SCORES(T)                   \
  KVEVICT_MIRROR_EVICTIONS(T, UniformBudget) \
  KVEVICT_MIRROR_EVICTIONS(T, GlobalBudget)

KVEVICT_MIRROR_POLICIES(kvevict::half)
KVEVICT_MIRROR_POLICIES(kvevict::bfloat16)
KVEVICT_MIRROR_SCORES(kvevict::q8_0)
KVEVICT_MIRROR_SCORES(kvevict::float8_e4m3)
