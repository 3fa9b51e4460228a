// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvevict/compact.hpp"
#include "kvevict/core/budget.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/evict.hpp"

namespace kvevict {

namespace detail {

/// Counts that are given for each head.
struct GivenCounts {
  const std::int64_t* counts;

  template <class R>
  void allocate(R&, const AllocationInput<R::space>& input, std::int64_t* out) const {
    std::copy_n(counts, input.scores.layout.heads(), out);
  }
};

}  // namespace detail

/// Evicts in `steps` steps of as equal a size as can be, each head's budget its share, and scores
/// what is left anew before each: a score tells what a row is worth beside all others, and most
/// leave together with it. With as many steps as rows leave, one at a time, DropLoss takes the row
/// whose loss changes the outputs least each time, outputs and weights brought up to date; fewer
/// steps are blocks of that. Heads with less to evict than steps skip some.
///
/// Evidence must not belong to rows: policies that need attention mass or keys before RoPE are
/// refused as unsupported. The cache is only read; a copy of its remaining rows is taken from the
/// heap. Cost: each step a scoring of what is left. Throws as evict_into does, with `kept`
/// untouched. On the CPU.
template <class R, class P, class T>
void evict_in_steps(R& res, typename R::selection_type& kept, const P& policy,
                    const KvView<T, R::space>& cache, const Evidence<R::space>& evidence,
                    const Budget& budget, std::int64_t steps, const Protect& protect = {}) {
  using Element = std::remove_const_t<T>;
  using Rows = RowsView<Element, R::space>;
  require(steps >= 1 && steps <= max_rows_per_head, "steps", steps, "in [1, rows of a head]");
  for (const EvidenceKind kind : {EvidenceKind::attention_mass, EvidenceKind::keys_before_rope}) {
    require(!policy.needs().contains(kind), "policy", policy.name(),
            "one without evidence that belongs to rows", ErrorKind::unsupported);
  }
  const RowLayout<R::space>& rows = cache.layout();
  const auto heads = static_cast<std::size_t>(cache.heads());
  std::vector<std::int64_t> targets(heads);
  std::vector<std::int64_t> counts(heads);
  budget.shares(rows, cache.row_bytes(), targets.data());
  typename R::selection_type left;
  typename R::selection_type step;
  typename R::selection_type chosen;
  std::vector<Element> keys;
  std::vector<Element> values;
  std::vector<float> key_scales;
  std::vector<float> value_scales;
  std::vector<std::int32_t> positions;
  for (std::int64_t s = 1; s <= steps; ++s) {
    bool smaller = false;
    for (std::size_t h = 0; h < heads; ++h) {
      const auto head = static_cast<std::int64_t>(h);
      const std::int64_t before = s == 1 ? rows.rows(head) : left.count(head);
      counts[h] = rows.rows(head) - (rows.rows(head) - targets[h]) * s / steps;
      smaller = smaller || counts[h] < before;
    }
    const detail::GivenCounts given{counts.data()};
    if (s == 1) {
      evict_into(res, left, policy, cache, evidence, Budget::rows(0), protect, given);
      continue;
    }
    if (!smaller) continue;
    const RowLayout<R::space> layout = left.layout();
    const KvView<const Element, R::space> all(cache);
    positions.resize(static_cast<std::size_t>(layout.total()));
    const auto copies = [&](const auto& of, std::vector<Element>& to, std::vector<float>& scales) {
      to.resize(static_cast<std::size_t>(layout.total() * of.dim() / channels_of<T>));
      scales.resize(of.scaled_by_row() ? static_cast<std::size_t>(layout.total()) : 0);
      return of.packed_copies(to.data(), scales.data(), layout);
    };
    const Rows of_keys = copies(cache.keys(), keys, key_scales);
    const Rows of_values = copies(cache.values(), values, value_scales);
    const KvView<Element, R::space> remaining(of_keys, of_values,
                                              MutablePositions<R::space>::packed(positions.data()));
    compact_into(res, left, all, remaining);
    evict_into(res, step, policy, remaining, evidence.without_known_keys(), Budget::rows(0),
               protect, given);
    chosen.reshape(counts);
    for (std::int64_t h = 0; h < cache.heads(); ++h) {
      std::int32_t* out = chosen.indices_data() + chosen.layout().offset(h);
      for (const std::int32_t i : step.head(h)) {
        *out++ = left.head(h)[static_cast<std::size_t>(i)];
      }
    }
    chosen.set_report(step.report());
    std::swap(left, chosen);
  }
  kept = left;
}

}  // namespace kvevict
