// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "kvevict/compact.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/ops/copy_rows.hpp"
#include "kvevict/ops/refit.hpp"

namespace kvevict {

/// Adjusts the kept rows so that the attention output of the probes over them is that over the
/// whole cache, as far as it can be. Runs between selection and compaction; the cache is only read.
/// For one KV head, the n probes i of all query heads of its group and the kept rows j in C:
///
///   o_i = sum over the whole cache of softmax(q_i . k / sqrt(d)) v          the target
///   a_ij = exp(q_i . k_j / sqrt(d)) / sum over the whole cache of exp(q_i . k / sqrt(d))
///   mass:   w >= 0 minimising sum_i (sum_j a_ij w_j - 1)^2 + mass_ridge |w - 1|^2, then at least
///           weight_floor; its logarithm is a bias on the logit of row j, or
///           k'_j = k_j + sqrt(d) log(w_j) u with u the direction in which every probe projects on
///           1 as nearly as can be
///   values: V' = V_C + P^T (P P^T + lambda I)^-1 (O - P V_C), P the softmax over the kept rows as
///           they are by then, lambda = ridge |P|_F^2 / n
///
/// One set of keys and values serves the query heads of a group. A head is written as it was where
/// nothing was evicted, where the direction's spread is too large for absorbing (values alone are
/// then fitted), and where no candidate lowers the error of the held-out probes, or of all probes
/// in the cache's own type; `accounts` tell. Related: Attention Matching (arXiv 2602.16284), with
/// an explicit bias.
///
/// `u` is good for the positions of its probes: `direction_probes` should cover those for which the
/// cache will serve (the largest number of new tokens), not only the near future that `probes`
/// stand for. Refitted keys are no longer rotations of the model's, so they must not be rotated to
/// other positions; a later eviction works on the refitted rows.
///
/// Writes `out`: keys and values with the selection's counts, apart from the cache (positions of
/// `out` are not written; `compact_refitted` moves them), `accounts` [heads], and `bias` [kept
/// rows], empty unless the mass becomes a bias. Throws invalid_argument for options and shapes and
/// unsupported for quantised rows; nothing is written then. For n probes, N rows and B kept ones: 4
/// n N d flops for the target and up to three fits of 2 n B min(n, B) flops; fp32 products,
/// factorisation in double. Memory for each thread: n (128 + 2 B + 5 d) + 2 min(n, B)^2 numbers,
/// never n x N; beyond that Eigen allocates packing buffers for products of more than about 128
/// probes or rows.
template <class R, class T>
void refit(R& res, const typename R::selection_type& kept,
           const std::type_identity_t<KvView<const T, R::space>>& cache,
           const ProbeQueries<R::space>& probes, const ProbeQueries<R::space>& direction_probes,
           const RefitOptions& options, const KvView<T, R::space>& out,
           std::span<RefitHead> accounts, std::span<float> bias = {}) {
  require(static_cast<std::int64_t>(accounts.size()) == cache.heads(), "accounts.size",
          accounts.size(), "one for each head,", cache.heads());
  const std::int64_t biased = options.mass == RefitMass::bias ? kept.layout().total() : 0;
  require(static_cast<std::int64_t>(bias.size()) == biased, "bias.size", bias.size(),
          "one for each kept row where the mass becomes a bias, else none,", biased);
  refit_rows(res, kept.view(), cache.keys(), cache.values(), cache.positions(), probes,
             direction_probes, options,
             RefitOutput<T, R::space>{out.keys(), out.values(),
                                      options.mass == RefitMass::bias ? bias.data() : nullptr,
                                      accounts.data()});
}

/// The same with one set of probes for all.
template <class R, class T>
void refit(R& res, const typename R::selection_type& kept,
           const std::type_identity_t<KvView<const T, R::space>>& cache,
           const ProbeQueries<R::space>& probes, const RefitOptions& options,
           const KvView<T, R::space>& out, std::span<RefitHead> accounts,
           std::span<float> bias = {}) {
  refit(res, kept, cache, probes, probes, options, out, accounts, bias);
}

/// Compaction in place that ends with the refitted rows: `compact`, then keys and values are those
/// of `refitted`, which has the selection's counts. Throws as `compact` does, but since all rows
/// are written, for any page of two heads, and unsupported for quantised rows, with cache and
/// positions untouched.
template <class R, class T>
requires(!std::is_const_v<T>) void compact_refitted(
    R& res, const typename R::selection_type& kept, const KvView<T, R::space>& cache,
    const std::type_identity_t<KvView<const T, R::space>>& refitted) {
  detail::require_elements<T>("cache");
  detail::require_compactable(kept.view(), cache.layout());
  require(same_rows(refitted.layout(), kept.layout()), "refitted.rows", "different",
          "the selection's count in every head");
  detail::require_dim(refitted.keys().dim(), cache.keys().dim(), "refitted.keys.dim");
  detail::require_dim(refitted.values().dim(), cache.values().dim(), "refitted.values.dim");
  detail::require_writable(res, kept.layout(), cache.keys());
  detail::require_writable(res, kept.layout(), cache.values());
  compact(res, kept, cache);
  copy_rows(res, refitted.keys(), cache.keys());
  copy_rows(res, refitted.values(), cache.values());
}

namespace detail {

inline void require_no_bias(const RefitOptions& options) {
  require(options.mass != RefitMass::bias, "refit.mass", "bias",
          "none or absorbed: a bias has nowhere to go", ErrorKind::unsupported);
}

}  // namespace detail

/// `refit` into memory of its own, for keys that take no bias, then `compact_refitted`. Returns how
/// the refit of each head went. Throws as these do, and unsupported for RefitMass::bias, with cache
/// and positions untouched. Takes memory for the kept rows from the heap; on the CPU, as refit.
template <class R, class T>
requires(!std::is_const_v<T>)  // compaction writes to the cache
    std::vector<RefitHead> refit_and_compact(R& res, const typename R::selection_type& kept,
                                             const KvView<T, R::space>& cache,
                                             const ProbeQueries<R::space>& probes,
                                             const RefitOptions& options) {
  detail::require_no_bias(options);
  detail::require_elements<T>("cache");
  using Rows = RowsView<T, R::space>;
  const RowLayout<R::space> layout = kept.layout();
  const std::int64_t key_dim = cache.keys().dim();
  const std::int64_t value_dim = cache.values().dim();
  std::vector<T> keys(static_cast<std::size_t>(layout.total() * key_dim));
  std::vector<T> values(static_cast<std::size_t>(layout.total() * value_dim));
  std::vector<RefitHead> accounts(static_cast<std::size_t>(layout.heads()));
  const KvView<T, R::space> refitted(Rows::packed(keys.data(), layout, key_dim, key_dim),
                                     Rows::packed(values.data(), layout, value_dim, value_dim));
  refit(res, kept, cache, probes, options, refitted, accounts);
  compact_refitted(res, kept, cache, refitted);
  return accounts;
}

}  // namespace kvevict
