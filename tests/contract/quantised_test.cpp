// SPDX-License-Identifier: Apache-2.0
// A quantised cache scores as the float cache that holds its numbers, bit by bit.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "ops/rows_case.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"
#include "support/quantised.hpp"

namespace quantised_test {

using namespace kvevict_test;
using kvevict::float8_e4m3;
using kvevict::KvView;
using kvevict::q8_0;
using kvevict::RowsView;

namespace {

constexpr std::int64_t key_dim = 32;
constexpr std::int64_t value_dim = 64;

reference::Inputs inputs_of_whole_blocks() {
  return reference::random_inputs({.group = 2,
                                   .rows = {40, 17, 0, 135},
                                   .dim = key_dim,
                                   .value_dim = value_dim,
                                   .queries = 20,
                                   .probes = 9},
                                  7);
}

template <class T>
struct QuantisedCase {
  ContractCase given{inputs_of_whole_blocks()};
  kvevict::RowLayout<> layout = given.cache.layout();
  Scaling scaling = Scaling::by_head;
  QuantisedRows<T> keys{given.cache.keys, layout, key_dim, scaling};
  QuantisedRows<T> values{given.cache.values, layout, value_dim, scaling};

  std::vector<std::int64_t> counts() const {
    std::vector<std::int64_t> rows;
    for (std::int64_t h = 0; h < layout.heads(); ++h) rows.push_back(layout.rows(h));
    return rows;
  }
  RowsCase<T> in_form(RowsForm form, const QuantisedRows<T>& rows) const {
    return RowsCase<T>::of_stored(form, counts(), rows.units(),
                                  [&](std::int64_t h) { return rows.head(layout, h); });
  }
  RowsCase<float> scales_in_form(RowsForm form, const QuantisedRows<T>& rows) const {
    return RowsCase<float>::of_stored(form, counts(), 1,
                                      [&](std::int64_t h) { return rows.scales_of(layout, h); });
  }

  // Keys and values in two forms score as their numbers do as packed floats.
  void check(RowsForm key_form, RowsForm value_form, const std::vector<PolicyVariant>& variants) {
    const RowsCase<T> key_rows = in_form(key_form, keys);
    const RowsCase<T> value_rows = in_form(value_form, values);
    if constexpr (kvevict::ScaledElement<T>) {
      if (scaling == Scaling::by_row) {
        const RowsCase<float> key_scales = scales_in_form(value_form, keys);
        const RowsCase<float> value_scales = scales_in_form(key_form, values);
        return compare(KvView<const T>(key_rows.view(), value_rows.view())
                           .with_row_scales(key_scales.view(), value_scales.view()),
                       variants, key_rows.describe());
      }
    }
    compare(KvView<const T>(keys.scaled(key_rows.view()), values.scaled(value_rows.view())),
            variants, key_rows.describe());
  }

  void compare(const KvView<const T>& quantised, const std::vector<PolicyVariant>& variants,
               const std::string& form) {
    const std::vector<float> key_numbers = keys.numbers(layout);
    const std::vector<float> value_numbers = values.numbers(layout);
    const KvView<const float> exact(
        RowsView<const float>::packed(key_numbers.data(), layout, key_dim, key_dim),
        RowsView<const float>::packed(value_numbers.data(), layout, value_dim, value_dim));
    TestResources res({.threads = 1});
    for (const auto& [name, policy] : variants) {
      INFO(name << ", keys in " << form);
      const kvevict::Evidence<> evidence = given.evidence_for(policy);
      CHECK(same_bits(scores_of(res, policy, quantised, evidence),
                      scores_of(res, policy, exact, evidence)));
    }
  }
};

}  // namespace

TEMPLATE_TEST_CASE("contract: quantised rows score as their numbers", "[contract][quantised]", q8_0,
                   float8_e4m3) {
  QuantisedCase<TestType> quantised;
  quantised.check(RowsForm::packed, RowsForm::packed, policy_variants());
}

TEMPLATE_TEST_CASE("contract: quantised rows in pages score as their numbers",
                   "[contract][quantised]", q8_0, float8_e4m3) {
  QuantisedCase<TestType> quantised;
  quantised.check(RowsForm::paged, RowsForm::paged_by_head, default_policies());
  quantised.check(RowsForm::paged_by_head, RowsForm::paged, default_policies());
}

TEST_CASE("contract: 8-bit channels that are not adjacent", "[contract][quantised]") {
  QuantisedCase<float8_e4m3> quantised;
  quantised.check(RowsForm::per_head, RowsForm::per_head, default_policies());
}

TEST_CASE("contract: rows with scales of their own score as their numbers",
          "[contract][quantised]") {
  QuantisedCase<float8_e4m3> quantised{.scaling = Scaling::by_row};
  quantised.check(RowsForm::packed, RowsForm::packed, policy_variants());
  quantised.check(RowsForm::paged, RowsForm::per_head, default_policies());
  quantised.check(RowsForm::paged_by_head, RowsForm::paged, default_policies());
}

TEST_CASE("contract: blocks with extreme scales score as their numbers", "[contract][quantised]") {
  const float scales[] = {std::numeric_limits<float>::infinity(), std::nanf(""), 0.0f,
                          6e-8f /* the smallest half */, 65504.0f};
  for (const float scale : scales) {
    INFO("scale " << scale);
    QuantisedCase<q8_0> quantised;
    quantised.keys.stored[5].scale = kvevict::half(scale);     // of row 5 of head 0
    quantised.values.stored[85].scale = kvevict::half(scale);  // of row 2 of head 1
    quantised.check(RowsForm::packed, RowsForm::packed, default_policies());
  }
}

TEST_CASE("contract: 8-bit numbers with extreme scales score as their numbers",
          "[contract][quantised]") {
  const float scales[] = {std::numeric_limits<float>::infinity(), std::nanf(""), 0.0f, 1e-40f,
                          1e37f /* times 448 is infinite */};
  for (const float scale : scales) {
    INFO("scale " << scale);
    QuantisedCase<float8_e4m3> quantised;
    quantised.keys.stored[700] = float8_e4m3{0x7f};  // a NaN in head 0
    quantised.keys.scales[1] = scale;
    quantised.values.scales[3] = scale;
    quantised.check(RowsForm::packed, RowsForm::packed, default_policies());
    QuantisedCase<float8_e4m3> by_row{.scaling = Scaling::by_row};
    by_row.keys.scales[5] = scale;     // of row 5 of head 0
    by_row.values.scales[41] = scale;  // of row 1 of head 1
    by_row.check(RowsForm::packed, RowsForm::packed, default_policies());
  }
}

}  // namespace quantised_test
