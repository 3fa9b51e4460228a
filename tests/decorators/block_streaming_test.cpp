// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/block_streaming.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"
#include "policies/edit_inputs.hpp"
#include "reference/selection.hpp"

using kvevict::BlockStreaming;
using kvevict::KeyDiff;
using kvevict::KNorm;
using namespace kvevict_test;

namespace {

double dot(const reference::Matrix& keys, std::size_t row, const std::vector<double>& vector) {
  double sum = 0.0;
  for (std::size_t c = 0; c < keys.cols; ++c) sum += keys(row, c) * vector[c];
  return sum;
}

// Minus the cosine with the mean direction of these rows.
std::vector<double> keydiff(const reference::Matrix& keys, const reference::Rows& rows) {
  std::vector<double> anchor(keys.cols, 0.0);
  std::vector<double> norms;
  for (const std::size_t row : rows) {
    double sum = 0.0;
    for (std::size_t c = 0; c < keys.cols; ++c) sum += keys(row, c) * keys(row, c);
    norms.push_back(std::sqrt(sum));
    for (std::size_t c = 0; c < keys.cols; ++c) anchor[c] += keys(row, c) / norms.back();
  }
  double size = 0.0;
  for (const double a : anchor) size += a * a;
  std::vector<double> scores;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    scores.push_back(-dot(keys, rows[i], anchor) / (norms[i] * std::sqrt(size)));
  }
  return scores;
}

struct Streamed {
  reference::Rows kept;            // ascending
  reference::Rows by_rank;         // the kept rows, best first
  std::vector<std::size_t> stage;  // in which each row was dropped
};

Streamed stream(const reference::Matrix& keys, std::size_t keep, std::size_t block) {
  Streamed out;
  out.stage.assign(keys.rows, 1000);
  reference::Rows candidates;
  std::size_t next = 0;
  for (std::size_t stage = 0; next < keys.rows; ++stage) {
    const std::size_t arrive = stage == 0 ? keep + block : block;
    for (std::size_t i = 0; i < arrive && next < keys.rows; ++i) candidates.push_back(next++);
    const reference::Rows order = reference::selection_order(keydiff(keys, candidates));
    out.by_rank.clear();
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (k < keep) {
        out.by_rank.push_back(candidates[order[k]]);
      } else {
        out.stage[candidates[order[k]]] = stage;
      }
    }
    candidates = out.by_rank;
    std::sort(candidates.begin(), candidates.end());
  }
  out.kept = candidates;
  return out;
}

}  // namespace

TEST_CASE("rows that arrive in blocks are scored among those that are left", "[decorators]") {
  DecoratedCase given;
  // Of two rows alone the cosines with their mean are equal: at least three are kept.
  for (const std::size_t keep : {3u, 10u, 40u}) {
    for (const std::size_t block : {1u, 7u, 64u}) {
      const auto got = given.scores(BlockStreaming<KeyDiff>{
          .keep = static_cast<std::int64_t>(keep), .block = static_cast<std::int64_t>(block)});
      for (std::size_t h = 0; h < got.size(); ++h) {
        INFO("keep " << keep << ", block " << block << ", head " << h);
        const Streamed want = stream(given.inputs.keys[h], keep, block);
        reference::Rows kept;
        for (std::size_t i = 0; i < got[h].size(); ++i) {
          if (got[h][i] > 0.0f) {
            kept.push_back(i);
          } else {
            REQUIRE(got[h][i] == -1.0f / static_cast<float>(want.stage[i] + 1));
          }
        }
        REQUIRE(kept == want.kept);
        const reference::Rows order = reference::selection_order({got[h].begin(), got[h].end()});
        REQUIRE(std::equal(want.by_rank.begin(), want.by_rank.end(), order.begin()));
      }
    }
  }
}

TEST_CASE("scores that do not depend on other rows survive as in one go", "[decorators]") {
  DecoratedCase given;
  const auto whole = given.scores(KNorm{});
  const auto got = given.scores(BlockStreaming<KNorm>{.keep = 12, .block = 5});
  for (std::size_t h = 0; h < got.size(); ++h) {
    const std::size_t keep = std::min<std::size_t>(12, got[h].size());
    REQUIRE(reference::select_top({got[h].begin(), got[h].end()}, keep, {}) ==
            reference::select_top({whole[h].begin(), whole[h].end()}, keep, {}));
  }
}

TEST_CASE("a head streams alone as in a batch", "[decorators]") {
  DecoratedCase given;
  const BlockStreaming<KeyDiff> policy{.keep = 10, .block = 7};
  const auto together = given.scores(policy);
  for (std::size_t h = 0; h < together.size(); ++h) {
    const reference::Inputs inputs = one_head(given.inputs, h);
    const PackedCache<float> cache(inputs);
    TestResources res({.threads = 1});
    std::vector<float> scores(inputs.keys[0].rows);
    kvevict::score_rows(res, policy, cache.view(), {},
                        kvevict::ScoreView<>{scores.data(), cache.layout()});
    REQUIRE(scores == together[h]);
  }
}

TEST_CASE("policies that stream are policies", "[decorators]") {
  REQUIRE_FALSE(BlockStreaming<KNorm>{.keep = 5} == BlockStreaming<KNorm>{});
  REQUIRE(BlockStreaming<KNorm>{}.needs().empty());
  REQUIRE(refused([] { BlockStreaming<KNorm>{.keep = 0}.validate(); }) ==
          "keep is 0, must be >= 1");
  REQUIRE(refused([] { BlockStreaming<KNorm>{.block = 0}.validate(); }) ==
          "block is 0, must be >= 1");
  REQUIRE(
      refused([] { BlockStreaming<kvevict::H2O>{}.validate(); }, kvevict::ErrorKind::unsupported) ==
      "inner is H2O, must be a policy without attention mass, which belongs to all rows");
}
