// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/ops/score_combination.hpp"
#include "kvevict/ops/score_order.hpp"

namespace kvevict {

/// What is blended of several policies.
enum class BlendOf {
  ranks,  ///< (rows - rank) / rows in (0, 1]: policies whose scores have different scales
  values  ///< the scores themselves
};

inline std::span<const EnumName<BlendOf>> enum_names(BlendOf) {
  static constexpr EnumName<BlendOf> names[] = {{BlendOf::ranks, "ranks"},
                                                {BlendOf::values, "values"}};
  return names;
}

/// Several policies as one: score_i = weighted sum, largest or smallest (`Combination`) of
/// weight_p * x_pi, x_p the ranks or the scores of policy p. The union of two policies is
/// {ranks, max}: rows rank as their better rank. Cost: that of all policies; with ranks a sort of
/// each head for each of them.
template <class... Ps>
requires(sizeof...(Ps) >= 1) struct Blend {
  std::tuple<Ps...> policies = {};
  std::array<double, sizeof...(Ps)> weights = ones(std::index_sequence_for<Ps...>{});
  BlendOf of = BlendOf::ranks;
  Combination combination = Combination::sum;

  std::string_view name() const { return "Blend"; }
  constexpr EvidenceSet needs() const {
    EvidenceSet all;
    for_each([&](const auto& policy, std::size_t) { all |= policy.needs(); });
    return all;
  }
  /// Ranks say nothing about other heads.
  bool comparable_across_heads() const {
    bool all = of == BlendOf::values;
    for_each([&](const auto& policy, std::size_t) { all &= policy.comparable_across_heads(); });
    return all;
  }

  void validate() const {
    for (const double weight : weights) {
      require(std::isfinite(weight), "weight", weight, "finite");
    }
    for_each([](const auto& policy, std::size_t) { detail::validate_inner(policy); });
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    WorkspaceScope scope(res.workspace());
    const std::int64_t more = sizeof...(Ps) > 1 ? cache.layout().total() : 0;
    const ScoreView<R::space> others{scope.template carve<float>("Blend.scores", more),
                                     cache.layout()};
    for_each([&](const auto& policy, std::size_t p) {
      const ScoreView<R::space>& out = p == 0 ? scores : others;
      policy.score(res, cache, evidence, out);
      if (of == BlendOf::ranks) rank_scores(res, out, out);
      const auto weight = static_cast<float>(weights[p]);
      if (p == 0) {
        scale_scores(res, weight, scores);
      } else {
        combine_scores(res, others, weight, combination, scores);
      }
    });
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("of", self.of, "what is blended");
    visit("combination", self.combination, "how the policies' scores become one");
    for_each_of(self.policies, [&](auto& policy, std::size_t p) {
      const std::string number = detail::text_of(p);
      visit(std::string_view(detail::joined("weight.", number)), self.weights[p],
            "of the policy with this number");
      detail::visit_inner(policy, number + ".", visit);
    });
  }

  friend bool operator==(const Blend&, const Blend&) = default;

 private:
  template <std::size_t... I>
  static constexpr std::array<double, sizeof...(Ps)> ones(std::index_sequence<I...>) {
    return {((void)I, 1.0)...};
  }

  template <class Tuple, class Use>
  static constexpr void for_each_of(Tuple& tuple, Use&& use) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (use(std::get<I>(tuple), I), ...); }
    (std::index_sequence_for<Ps...>{});
  }
  template <class Use>
  constexpr void for_each(Use&& use) const {
    for_each_of(policies, use);
  }
};

template <class... Ps>
Blend(std::tuple<Ps...>) -> Blend<Ps...>;

}  // namespace kvevict
