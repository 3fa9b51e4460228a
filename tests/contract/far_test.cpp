// SPDX-License-Identifier: Apache-2.0
// Caches of more than 2^34 elements: tens of gigabytes of which only a few pages exist. A policy
// that computes one offset in 32 bits reads elsewhere.
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "core/far_memory.hpp"

namespace far_test {

using namespace kvevict_test;
using kvevict::half;
using kvevict::RowLayout;
using kvevict::RowsView;

namespace {

constexpr std::int64_t heads = 3;
constexpr std::int64_t rows = 70;

// Far apart are the heads and the rows, or the channels, or the pages.
enum class FarForm { by_row, by_channel, by_page };

// Rows of three heads, copied to memory where they lie far apart.
class FarRows {
 public:
  FarRows(FarForm form, const RowsView<const half>& near)
      : memory_(std::int64_t{1} << 36), far_(view_of(form, near.dim())) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t c = 0; c < near.dim(); ++c) far_.head(h)(i, c) = near.head(h)(i, c);
      }
    }
  }
  RowsView<const half> view() const { return RowsView<const half>(far_); }

 private:
  RowsView<half> view_of(FarForm form, std::int64_t dim) {
    constexpr std::int64_t head_stride = (std::int64_t{1} << 34) + 640;
    if (form == FarForm::by_row) {
      constexpr std::int64_t row_stride = (std::int64_t{1} << 27) + 64;
      return RowsView<half>::strided(memory_.data(), heads, rows, dim, head_stride, row_stride);
    }
    if (form == FarForm::by_channel) {
      constexpr std::int64_t channel_stride = (std::int64_t{1} << 29) + 4096;
      return RowsView<half>::strided(memory_.data(), heads, rows, dim, head_stride, 1,
                                     channel_stride);
    }
    // 32 rows a page: three pages in no order.
    static constexpr std::int32_t ids[] = {3, 0, 2};
    return RowsView<half>::paged(memory_.data(), {32, heads, head_stride, 4096, 64, 1},
                                 {ids, 1, 3, heads, 4}, RowLayout<>::uniform(heads, rows), dim);
  }

  FarMemory<half> memory_;
  RowsView<half> far_;
};

}  // namespace

TEST_CASE("contract: rows beyond 2^34 elements", "[contract][far]") {
  ContractCase given(uniform_contract_inputs());
  const PackedCache<half> near(given.inputs);
  for (const FarForm form : {FarForm::by_row, FarForm::by_channel, FarForm::by_page}) {
    const FarRows keys(form, near.view().keys());
    const FarRows values(form, near.view().values());
    const kvevict::KvView<const half> far(keys.view(), values.view());
    TestResources res({.threads = 2});
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name << ", form " << static_cast<int>(form));
      const kvevict::Evidence<> evidence = given.evidence_for(policy);
      CHECK(same_bits(scores_of(res, policy, far, evidence),
                      scores_of(res, policy, near.view(), evidence)));
    }
  }
}

}  // namespace far_test
