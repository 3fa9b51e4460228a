// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/row_pieces.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "kvevict/cpu/copy_rows.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "ops/rows_case.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;
using kvevict::RowLayout;
using kvevict::ScoreView;
using kvevict::cpu::piece_rows;

namespace {

// An empty head, a short one, one of exactly two pieces and one of a few pieces and a rest.
const std::vector<std::int64_t> lengths = {0, 30, 2 * piece_rows, 0, 5 * piece_rows + 17, 1};

std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t count : rows) offsets.push_back(offsets.back() + count);
  return offsets;
}

struct Joined {
  std::vector<std::int64_t> begins;
  std::int64_t rows = 0;
};

}  // namespace

TEST_CASE("pieces cover every row of every head once", "[cpu][pieces]") {
  const std::vector<std::int64_t> offsets = offsets_of(lengths);
  const RowLayout<> layout =
      RowLayout<>::ragged(offsets.data(), static_cast<std::int64_t>(lengths.size()));
  for (const int threads : {1, 2, 5}) {
    CpuResources res({.threads = threads});
    std::vector<int> visits(static_cast<std::size_t>(layout.total()));
    std::atomic<bool> fits = true;
    for_each_piece(res, layout,
                   [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker) {
                     fits = fits && begin % piece_rows == 0 && begin < end &&
                            end - begin <= piece_rows && worker >= 0 && worker < threads;
                     for (std::int64_t i = begin; i < end; ++i) {
                       ++visits[static_cast<std::size_t>(layout.offset(h) + i)];
                     }
                   });
    REQUIRE(fits);
    REQUIRE(std::all_of(visits.begin(), visits.end(), [](int count) { return count == 1; }));
  }
}

TEST_CASE("sums of pieces are joined once each and in order", "[cpu][pieces]") {
  const std::vector<std::int64_t> offsets = offsets_of(lengths);
  const auto heads = static_cast<std::int64_t>(lengths.size());
  const RowLayout<> layout = RowLayout<>::ragged(offsets.data(), heads);
  // More threads than heads share heads; of fewer each takes whole ones.
  for (const int threads : {1, 2, 6, 7, 16}) {
    CpuResources res({.threads = threads});
    std::vector<std::pair<std::int64_t, std::int64_t>> slots(static_cast<std::size_t>(threads));
    std::vector<Joined> joined(static_cast<std::size_t>(heads));
    sum_pieces(
        res, layout,
        [&](std::int64_t, std::int64_t begin, std::int64_t end, int, std::int64_t slot) {
          slots[static_cast<std::size_t>(slot)] = {begin, end};
        },
        [&](std::int64_t h, std::int64_t begin, std::int64_t slot) {
          const auto [first, last] = slots[static_cast<std::size_t>(slot)];
          Joined& head = joined[static_cast<std::size_t>(h)];
          head.begins.push_back(begin);
          if (first == begin) head.rows += last - first;
        });
    for (std::int64_t h = 0; h < heads; ++h) {
      const Joined& head = joined[static_cast<std::size_t>(h)];
      INFO(threads << " threads, head " << h);
      REQUIRE(head.rows == layout.rows(h));
      REQUIRE(std::is_sorted(head.begins.begin(), head.begins.end()));
      REQUIRE(static_cast<std::int64_t>(head.begins.size()) ==
              (layout.rows(h) + piece_rows - 1) / piece_rows);
    }
  }
}

TEST_CASE("sums over several pieces agree with a double loop", "[cpu][pieces]") {
  constexpr std::int64_t dim = 3;
  const RowsCase<float> rows(RowsForm::packed, {2 * piece_rows + 100, 50}, dim, 1);
  const auto total = static_cast<std::size_t>(rows.layout().total());
  const std::vector<float> roots = random_values(Shape::uniform, rows.layout().total(), 2);
  std::vector<double> gram_want;
  std::vector<double> mean_want;
  for (std::int64_t h = 0; h < 2; ++h) {
    const reference::Matrix& exact = rows.exact()[static_cast<std::size_t>(h)];
    const float* weight = roots.data() + rows.layout().offset(h);
    double gram[dim][dim] = {};
    double mean[dim] = {};
    for (std::size_t i = 0; i < exact.rows; ++i) {
      double squared = 0.0;
      for (std::size_t c = 0; c < dim; ++c) squared += exact(i, c) * exact(i, c);
      const double w = static_cast<double>(weight[i]) * static_cast<double>(weight[i]);
      for (std::size_t a = 0; a < dim; ++a) {
        mean[a] += exact(i, a) / std::sqrt(squared) / static_cast<double>(exact.rows);
        for (std::size_t b = 0; b < dim; ++b) gram[a][b] += w * exact(i, a) * exact(i, b);
      }
    }
    for (const auto& row : gram) gram_want.insert(gram_want.end(), row, row + dim);
    mean_want.insert(mean_want.end(), mean, mean + dim);
  }
  for (const int threads : {1, 3}) {
    CpuResources res({.threads = threads});
    std::vector<double> grams(2 * dim * dim);
    weighted_gram(res, rows.view(), ScoreView<>{const_cast<float*>(roots.data()), rows.layout()},
                  MatrixBatchView<double>::packed(grams.data(), 2, dim, dim));
    std::vector<float> means(2 * dim);
    mean_direction(res, rows.view(), MatrixView<float>::packed(means.data(), 2, dim));
    INFO(threads << " threads, " << total << " rows");
    REQUIRE(compare(grams, gram_want, tolerance::float64_sum).within());
    REQUIRE(compare(means, mean_want, tolerance::float32_sum).within());
  }
}

TEST_CASE("threads that share a head copy every row to its place", "[cpu][pieces]") {
  constexpr std::int64_t dim = 3;
  const RowsCase<float> rows(RowsForm::packed, {2 * piece_rows + 100, 50}, dim, 1);
  const RowLayout<> layout = rows.layout();
  kvevict::Selection kept;
  const std::vector<std::int64_t> counts = {piece_rows + 70, 25};
  std::int32_t* index = kept.reshape(counts);
  for (const std::int64_t count : counts) {
    for (std::int32_t j = 0; j < count; ++j) *index++ = j + j % 2;
  }
  for (const int threads : {1, 3}) {
    CpuResources res({.threads = threads});
    std::vector<float> gathered(static_cast<std::size_t>(kept.total() * dim), -1.0f);
    gather_rows(res, kept.view(), rows.view(),
                kvevict::RowsView<float>::packed(gathered.data(), kept.layout(), dim, dim));
    std::vector<float> copied(static_cast<std::size_t>(layout.total() * dim), -1.0f);
    copy_rows(res, rows.view(), kvevict::RowsView<float>::packed(copied.data(), layout, dim, dim));
    for (std::int64_t h = 0; h < 2; ++h) {
      const auto head = rows.view().head(h);
      bool same = true;
      for (std::int64_t j = 0; j < kept.count(h); ++j) {
        const float* to = gathered.data() + (kept.layout().offset(h) + j) * dim;
        same = same && std::memcmp(to, head.row(j + j % 2), dim * sizeof(float)) == 0;
      }
      for (std::int64_t i = 0; i < layout.rows(h); ++i) {
        const float* to = copied.data() + (layout.offset(h) + i) * dim;
        same = same && std::memcmp(to, head.row(i), dim * sizeof(float)) == 0;
      }
      INFO(threads << " threads, head " << h);
      REQUIRE(same);
    }
  }
}
