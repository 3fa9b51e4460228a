// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/gather.hpp"

namespace kvevict {

/// What a refit does about the attention mass that went with the evicted rows.
enum class RefitMass {
  none,     ///< nothing: the kept rows share all of the attention
  bias,     ///< a bias on the logit of each kept row, for engines that can add one
  absorbed  ///< the same bias, moved into the keys: no engine has to change
};

inline std::span<const EnumName<RefitMass>> enum_names(RefitMass) {
  static constexpr EnumName<RefitMass> names[] = {
      {RefitMass::none, "none"}, {RefitMass::bias, "bias"}, {RefitMass::absorbed, "absorbed"}};
  return names;
}

/// How kept rows are adjusted, see `refit`. Strengths are relative, so that they do not depend on
/// the scale of keys, values or probes.
struct RefitOptions {
  RefitMass mass = RefitMass::absorbed;
  bool values = true;        ///< fit the values
  double ridge = 1e-2;       ///< of the values, times the mean squared length of a probe's weights
  double mass_ridge = 1e-2;  ///< pull of the mass weights towards 1
  double weight_floor = 1e-4;     ///< smallest mass weight: bounds the bias from below
  double direction_ridge = 1e-3;  ///< of the absorbing direction, times the mean squared channel
  /// Largest standard deviation over the probes of their projection on the absorbing direction,
  /// whose mean is 1: above it the bias is not absorbed in that head.
  double largest_spread = 0.25;
  /// Every so many probes one is held out of the first fits, which choose among mass and values,
  /// values only and nothing by the error there; 0 takes what is asked for.
  std::int64_t check_every = 2;
  Protect pinned = {};  ///< kept rows that stay as they are
};

/// What was changed in a head.
enum class RefitKind : std::uint8_t { none, values, mass, mass_and_values };

/// How the refit of one head went. Errors are those of the attention outputs of the probes, |over
/// the kept rows - over the whole cache| / |over the whole cache|, Frobenius norms.
struct RefitHead {
  RefitKind applied = RefitKind::none;
  float evict_error = 0.0f;   ///< of the kept rows as they were
  float error = 0.0f;         ///< of the rows as written; never above evict_error
  float spread = 0.0f;        ///< standard deviation of the probes' projection, see RefitOptions
  float key_change = 0.0f;    ///< largest |new - old| / |old| of a key
  float value_change = 0.0f;  ///< the same of a value
};

namespace detail {

/// Strengths that are finite and above zero keep every system of the refit definite.
inline void require_valid(const RefitOptions& options) {
  const auto positive = [](double value, std::string_view name) {
    require(value > 0.0 && std::isfinite(value), name, value, "finite and > 0");
  };
  require(options.values || options.mass != RefitMass::none, "refit.values", false,
          "true where mass is none: nothing would be fitted");
  positive(options.ridge, "refit.ridge");
  positive(options.mass_ridge, "refit.mass_ridge");
  positive(options.direction_ridge, "refit.direction_ridge");
  require(options.weight_floor > 0.0 && options.weight_floor <= 1.0, "refit.weight_floor",
          options.weight_floor, "in (0, 1]");
  require(options.largest_spread >= 0.0, "refit.largest_spread", options.largest_spread, ">=", 0);
  require(options.check_every == 0 || options.check_every >= 2, "refit.check_every",
          options.check_every, "0 or >= 2");
  kvevict::require_valid(options.pinned);
}

/// What messages call one set of probes. Literals, so that a check that holds builds no text.
struct ProbeNames {
  std::string_view heads;
  std::string_view count;
  std::string_view dim;
  std::string_view positions;
};
inline constexpr ProbeNames probe_names = {"probes.heads", "probes.count", "probes.dim",
                                           "probes.positions"};
inline constexpr ProbeNames direction_probe_names = {
    "direction_probes.heads", "direction_probes.count", "direction_probes.dim",
    "direction_probes.positions"};

/// Throws unless `probes` can be used with keys of this shape.
template <class T, MemorySpace S>
void require_probes(const ProbeQueries<S>& probes, const RowsView<T, S>& keys,
                    const ProbeNames& names) {
  require_dim(probes.queries.dim(), keys.dim(), names.dim);
  require_group(probes.queries.heads(), keys.heads(), names.heads);
  require(probes.queries.count() >= 1, names.count, probes.queries.count(), ">=", 1);
  require(probes.mask == ProbeMask::none || probes.positions.given(), names.positions, "missing",
          "given for a mask by position");
}

}  // namespace detail

/// Where a refit writes: rows of the selection's counts, which do not overlap the cache, one bias
/// for each kept row (packed like the selection's indices; null unless the mass is a bias), and one
/// account for each head.
template <class T, MemorySpace S = MemorySpace::host>
struct RefitOutput {
  RowsView<T, S> keys = {};
  RowsView<T, S> values = {};
  float* bias = nullptr;
  RefitHead* heads = nullptr;
};

/// The op behind `refit`: one KV head after another, all query heads of its group together. Throws
/// invalid_argument for shapes that do not fit, unsupported for quantised rows; nothing is written
/// then.
template <class R, class T>
void refit_rows(R& res, SelectionView<R::space> kept,
                const std::type_identity_t<RowsView<const T, R::space>>& keys,
                const std::type_identity_t<RowsView<const T, R::space>>& values,
                const Positions<R::space>& positions, const ProbeQueries<R::space>& probes,
                const ProbeQueries<R::space>& direction_probes, const RefitOptions& options,
                const RefitOutput<T, R::space>& out) {
  detail::require_elements<T>("keys");
  detail::require_valid(options);
  detail::require_probes(probes, keys, detail::probe_names);
  detail::require_probes(direction_probes, keys, detail::direction_probe_names);
  require(direction_probes.queries.heads() == probes.queries.heads(), "direction_probes.heads",
          direction_probes.queries.heads(), "equal to probes.heads,", probes.queries.heads());
  require(same_rows(keys.layout(), values.layout()), "values.rows", "different",
          "equal to keys.rows for every head");
  if (!res.workspace().counting()) detail::require_compactable(kept, keys.layout());
  require(same_rows(out.keys.layout(), kept.layout), "out.keys.rows", "different",
          "the selection's count in every head");
  require(same_rows(out.values.layout(), kept.layout), "out.values.rows", "different",
          "the selection's count in every head");
  detail::require_dim(out.keys.dim(), keys.dim(), "out.keys.dim");
  detail::require_dim(out.values.dim(), values.dim(), "out.values.dim");
  require((out.bias != nullptr) == (options.mass == RefitMass::bias) || kept.layout.total() == 0,
          "out.bias", out.bias != nullptr ? "given" : "null",
          "given where, and only where, the mass becomes a bias");
  require(out.heads != nullptr || kept.heads() == 0, "out.heads", "null",
          "one account for each head");
  if constexpr (Element<T>) {
    refit_rows_impl(res, kept, keys, values, positions, probes, direction_probes, options, out);
  }
}

}  // namespace kvevict
