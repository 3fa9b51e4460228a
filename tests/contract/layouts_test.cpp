// SPDX-License-Identifier: Apache-2.0
// Wherever the engine keeps its rows: same scores, nothing else read or written.
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"
#include "support/guarded_buffer.hpp"

namespace layouts_test {

using namespace kvevict_test;
using kvevict::KvView;
using kvevict::RowsView;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t rows = 70;
constexpr std::int64_t key_dim = 16;
constexpr std::int64_t value_dim = 12;

template <class T>
RowsView<const T> strided(const GuardedBuffer<T>& buffer) {
  const StridedLayout& layout = buffer.layout();
  return RowsView<const T>::strided(buffer.data(), layout.heads, layout.rows, layout.dim,
                                    layout.head_stride, layout.row_stride);
}

// Every variant scores `view` as it scores the packed cache.
template <class T>
void check_same_scores(ContractCase& given, const char* layout, const KvView<const T>& view,
                       const std::vector<PolicyVariant>& variants) {
  const PackedCache<T> packed(given.inputs);
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : variants) {
    INFO(name << ", " << layout);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    CHECK(same_bits(scores_of(res, policy, view, evidence),
                    scores_of(res, policy, packed.view(), evidence)));
  }
}

template <class T>
GuardedBuffer<T> guarded(const StridedLayout& layout, const std::vector<T>& values) {
  GuardedBuffer<T> buffer(layout);
  buffer.assign(values);
  return buffer;
}

template <class T>
void check_strided_layouts(const std::vector<PolicyVariant>& variants) {
  ContractCase given(uniform_contract_inputs());
  const PackedCache<T> packed(given.inputs);
  struct Layout {
    const char* name;
    StridedLayout keys;
    StridedLayout values;
  };
  const Layout layouts[] = {
      {"[head][row][dim]", StridedLayout::hnd(heads, rows, key_dim, 0),
       StridedLayout::hnd(heads, rows, value_dim, 0)},
      {"[row][head][dim]", StridedLayout::nhd(heads, rows, key_dim, 0),
       StridedLayout::nhd(heads, rows, value_dim, 0)},
      {"padded [head][row][dim]", StridedLayout::hnd(heads, rows, key_dim, 3),
       StridedLayout::hnd(heads, rows, value_dim, 5)},
      {"padded [row][head][dim]", StridedLayout::nhd(heads, rows, key_dim, 5),
       StridedLayout::nhd(heads, rows, value_dim, 1)},
      {"keys by head, values by row", StridedLayout::hnd(heads, rows, key_dim, 1),
       StridedLayout::nhd(heads, rows, value_dim, 2)},
  };
  for (const Layout& layout : layouts) {
    const GuardedBuffer<T> keys = guarded(layout.keys, packed.keys);
    const GuardedBuffer<T> values = guarded(layout.values, packed.values);
    check_same_scores<T>(given, layout.name, KvView<const T>(strided(keys), strided(values)),
                         variants);
    INFO(layout.name);
    CHECK_FALSE(keys.first_broken_guard());
    CHECK_FALSE(values.first_broken_guard());
    const std::vector<T> after = keys.values();
    CHECK(std::memcmp(after.data(), packed.keys.data(), after.size() * sizeof(T)) == 0);
  }
}

}  // namespace

TEST_CASE("contract: strided caches score as packed ones", "[contract][layout]") {
  check_strided_layouts<float>(policy_variants());
  check_strided_layouts<kvevict::half>(variants_for_backend());
  check_strided_layouts<kvevict::bfloat16>(default_policies());
}

TEST_CASE("contract: the named layouts are the strided ones", "[contract][layout]") {
  reference::Inputs inputs = uniform_contract_inputs();
  for (reference::Matrix& head : inputs.values) {  // the named layouts know one dimension
    head.cols = key_dim;
    head.data.resize(static_cast<std::size_t>(rows * key_dim), 0.5);
  }
  inputs.output_projection = reference::Matrix(8, 6 * key_dim);
  for (std::size_t i = 0; i < inputs.output_projection.data.size(); ++i) {
    inputs.output_projection.data[i] = static_cast<double>(i * i % 17) - 8;
  }
  ContractCase given(inputs);
  const auto by_row = StridedLayout::nhd(heads, rows, key_dim, 0);
  const GuardedBuffer<float> keys = guarded(by_row, given.cache.keys);
  const GuardedBuffer<float> values = guarded(by_row, given.cache.values);
  check_same_scores<float>(
      given, "nhd", KvView<const float>::nhd(keys.data(), values.data(), heads, rows, key_dim),
      default_policies());
  check_same_scores<float>(
      given, "hnd",
      KvView<const float>::hnd(given.cache.keys.data(), given.cache.values.data(), heads, rows,
                               key_dim),
      default_policies());
}

TEST_CASE("contract: heads at addresses of their own, of their own lengths", "[contract][layout]") {
  for (const reference::Inputs& inputs : {contract_inputs(), contract_inputs_with_holes()}) {
    ContractCase given(inputs);
    std::vector<GuardedBuffer<float>> keys;
    std::vector<GuardedBuffer<float>> values;
    std::vector<const float*> key_heads;
    std::vector<const float*> value_heads;
    for (std::size_t h = 0; h < inputs.keys.size(); ++h) {
      const auto n = static_cast<std::int64_t>(inputs.keys[h].rows);
      keys.push_back(
          guarded(StridedLayout::hnd(1, n, key_dim, 2), reference::packed_float({inputs.keys[h]})));
      values.push_back(guarded(StridedLayout::hnd(1, n, value_dim, 4),
                               reference::packed_float({inputs.values[h]})));
    }
    for (std::size_t h = 0; h < keys.size(); ++h) {
      key_heads.push_back(keys[h].data());
      value_heads.push_back(values[h].data());
    }
    const KvView<const float> view(
        RowsView<const float>::per_head(key_heads.data(), given.cache.layout(), key_dim,
                                        key_dim + 2),
        RowsView<const float>::per_head(value_heads.data(), given.cache.layout(), value_dim,
                                        value_dim + 4),
        given.view().positions());
    check_same_scores<float>(given, "per head", view, policy_variants());
    for (std::size_t h = 0; h < keys.size(); ++h) {
      CHECK_FALSE(keys[h].first_broken_guard());
      CHECK_FALSE(values[h].first_broken_guard());
    }
  }
}

namespace {

template <class T>
RowsCase<T> in_form(RowsForm form, const reference::Heads& numbers) {
  std::vector<std::int64_t> counts;
  for (const reference::Matrix& head : numbers) {
    counts.push_back(static_cast<std::int64_t>(head.rows));
  }
  RowsCase<T> in_rows(form, counts, static_cast<std::int64_t>(numbers[0].cols), 1);
  in_rows.fill([&](std::int64_t h) {
    return reference::packed_float({numbers[static_cast<std::size_t>(h)]});
  });
  return in_rows;
}

template <class T>
void check_paged_layouts(const std::vector<PolicyVariant>& variants) {
  for (const reference::Inputs& inputs :
       {contract_inputs(), contract_inputs_with_holes(), uniform_contract_inputs()}) {
    ContractCase given(inputs);
    // Keys and values in pages of different sizes.
    for (const RowsForm form : {RowsForm::paged, RowsForm::paged_by_head}) {
      const RowsForm other = form == RowsForm::paged ? RowsForm::paged_by_head : RowsForm::paged;
      const RowsCase<T> keys = in_form<T>(form, inputs.keys);
      const RowsCase<T> values = in_form<T>(other, inputs.values);
      check_same_scores<T>(given, keys.describe().c_str(),
                           KvView<const T>(keys.view(), values.view(), given.view().positions()),
                           variants);
    }
  }
}

}  // namespace

TEST_CASE("contract: rows in pages score as rows together", "[contract][layout]") {
  check_paged_layouts<float>(policy_variants());
  check_paged_layouts<kvevict::half>(variants_for_backend());
  check_paged_layouts<kvevict::bfloat16>(default_policies());
}

TEST_CASE("contract: channel-major values", "[contract][layout]") {
  // [head][dim][row], beside keys of either kind.
  ContractCase given(uniform_contract_inputs());
  const auto values = in_form<kvevict::half>(RowsForm::channels_strided, given.inputs.values);
  for (const RowsForm form : {RowsForm::head_first, RowsForm::channels_strided}) {
    const auto keys = in_form<kvevict::half>(form, given.inputs.keys);
    check_same_scores<kvevict::half>(given, keys.describe().c_str(),
                                     KvView<const kvevict::half>(keys.view(), values.view()),
                                     policy_variants());
  }
}

TEST_CASE("contract: channels that are not adjacent", "[contract][layout]") {
  ContractCase given(uniform_contract_inputs());
  const auto spread = [](const std::vector<float>& dense) {
    std::vector<float> memory(2 * dense.size(), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t i = 0; i < dense.size(); ++i) memory[2 * i] = dense[i];
    return memory;
  };
  const std::vector<float> keys = spread(given.cache.keys);
  const std::vector<float> values = spread(given.cache.values);
  const KvView<const float> view(
      RowsView<const float>::strided(keys.data(), heads, rows, key_dim, 2 * rows * key_dim,
                                     2 * key_dim, 2),
      RowsView<const float>::strided(values.data(), heads, rows, value_dim, 2 * rows * value_dim,
                                     2 * value_dim, 2));
  check_same_scores<float>(given, "every second channel", view, policy_variants());
}

TEST_CASE("contract: cache and evidence are only read", "[contract][layout]") {
  ContractCase given(contract_inputs_with_holes());
  const PackedCache<float> cache = given.cache;
  const std::vector<float> evidence = given.evidence.all_values();
  TestResources res({.threads = 2});
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const kvevict::Evidence<> given_evidence = given.evidence_for(policy);
    const std::vector<float> mass = given.evidence.mass();
    kvevict::evict(res, policy, given.view(), given_evidence, kvevict::Budget::evict_ratio(0.5));
    CHECK(same_bits(given.cache.keys, cache.keys));
    CHECK(same_bits(given.cache.values, cache.values));
    CHECK(given.cache.positions == cache.positions);
    CHECK(same_bits(given.evidence.all_values(), evidence));
    CHECK(same_bits(given.evidence.mass(), mass));
  }
}

}  // namespace layouts_test
