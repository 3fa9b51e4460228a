// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/selection.hpp"

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/selections.hpp"

namespace selection_test {

using kvevict::RowLayout;
using kvevict::Selection;
using kvevict_test::refused;
using kvevict_test::selection_of;

namespace {

std::string problem(const std::vector<std::vector<std::int32_t>>& heads,
                    const RowLayout<>& layout) {
  return refused([&] { require_valid(selection_of(heads).view(), layout); });
}

}  // namespace

TEST_CASE("a selection holds ragged heads one after another", "[core][selection]") {
  const Selection selection = selection_of({{0, 3, 4}, {}, {7}});
  REQUIRE(selection.heads() == 3);
  REQUIRE(selection.total() == 4);
  REQUIRE(selection.count(0) == 3);
  REQUIRE(selection.count(1) == 0);
  REQUIRE(selection.head(1).empty());
  REQUIRE(selection.head(2)[0] == 7);
  REQUIRE(selection.offsets().size() == 4);
  REQUIRE(selection.offsets()[2] == 3);
  REQUIRE(selection.layout().rows(2) == 1);
  REQUIRE(selection.layout().total() == 4);
  const auto view = selection.view();
  REQUIRE(view.heads() == 3);
  REQUIRE(view.count(0) == 3);
  REQUIRE(view.head(0)[2] == 4);
}

TEST_CASE("a new selection is that of no heads", "[core][selection]") {
  const Selection selection;
  REQUIRE(selection.heads() == 0);
  REQUIRE(selection.total() == 0);
  REQUIRE_NOTHROW(require_valid(selection.view(), RowLayout<>()));
}

TEST_CASE("selections are equal by their rows, not by their report", "[core][selection]") {
  Selection a = selection_of({{0, 3}, {1}});
  Selection b = selection_of({{0, 3}, {1}});
  b.set_report({.nan_scores = 2});
  REQUIRE(a == b);
  REQUIRE(b.report().nan_scores == 2);
  REQUIRE_FALSE(a == selection_of({{0}, {1, 3}}));
  REQUIRE_FALSE(a == selection_of({{0, 2}, {1}}));
}

TEST_CASE("reserved selections are reshaped without moving", "[core][selection]") {
  Selection selection;
  selection.reserve(4, 100);
  const std::vector<std::int64_t> few = {1};
  const std::vector<std::int64_t> many = {25, 25, 25, 25};
  const std::int32_t* first = selection.reshape(few);
  REQUIRE(selection.reshape(many) == first);
  REQUIRE(selection.total() == 100);
  REQUIRE(selection.reshape(few) == first);
  REQUIRE(selection.heads() == 1);
}

TEST_CASE("the invariant check catches each kind of violation", "[core][selection]") {
  const std::vector<std::int64_t> offsets = {0, 5, 5, 8};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  const std::string fine = "nothing was thrown";
  REQUIRE(problem({{0, 1, 4}, {}, {2}}, layout) == fine);
  REQUIRE(problem({{0, 1, 2, 3, 4}, {}, {0, 1, 2}}, layout) == fine);
  REQUIRE(problem({{}, {}, {}}, layout) == fine);
  // another number of heads
  REQUIRE(problem({{0}, {}}, layout) == "selection.heads is 2, must be equal to 3");
  // not ascending, twice the same, negative
  REQUIRE(problem({{1, 0}, {}, {}}, layout) ==
          "selection.index of head 0 is 0, must be above the index before it, 1");
  REQUIRE(problem({{0, 1}, {}, {2, 2}}, layout) ==
          "selection.index of head 2 is 2, must be above the index before it, 2");
  REQUIRE(problem({{-1, 1}, {}, {}}, layout) ==
          "selection.index of head 0 is -1, must be above the index before it, -1");
  // beyond the rows of its head, though not of the longest
  REQUIRE(problem({{0, 5}, {}, {}}, layout) ==
          "selection.index of head 0 is 5, must be below the head's rows, 5");
  REQUIRE(problem({{0}, {}, {3}}, layout) ==
          "selection.index of head 2 is 3, must be below the head's rows, 3");
  REQUIRE(problem({{0}, {0}, {}}, layout) ==
          "selection.count of head 1 is 1, must be at most the head's rows, 0");
}

TEST_CASE("counts that do not fit a cache are named with their head", "[core][selection]") {
  const std::vector<std::int64_t> offsets = {0, 5, 5, 8};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  const auto problem_of_counts = [&](const std::vector<std::vector<std::int32_t>>& heads) {
    return refused([&] { require_counts_fit(selection_of(heads).view(), layout); });
  };
  REQUIRE(problem_of_counts({{0, 1, 2, 3, 4}, {}, {0, 1, 2}}) == "nothing was thrown");
  // Counts alone: the indices are not read.
  REQUIRE(problem_of_counts({{9, 9}, {}, {-1}}) == "nothing was thrown");
  REQUIRE(problem_of_counts({{0}, {}}) == "selection.heads is 2, must be equal to 3");
  REQUIRE(problem_of_counts({{}, {0}, {}}) ==
          "selection.count of head 1 is 1, must be at most the head's rows, 0");
  REQUIRE(problem_of_counts({{}, {}, {0, 1, 2, 3}}) ==
          "selection.count of head 2 is 4, must be at most the head's rows, 3");
}

TEST_CASE("counts in device memory are checked by what the host knows of them",
          "[core][selection]") {
  using Device = RowLayout<kvevict::MemorySpace::device>;
  const std::vector<std::int64_t> offsets = {0, 2, 6};
  const std::int64_t unreadable = 0;
  const kvevict::SelectionView<kvevict::MemorySpace::device> kept{
      Device::ragged(&unreadable, offsets.data(), 2), nullptr};
  REQUIRE_NOTHROW(require_counts_fit(kept, Device::uniform(2, 4)));
  REQUIRE(refused([&] { require_counts_fit(kept, Device::uniform(2, 3)); }) ==
          "selection.count of head 1 is 4, must be at most the head's rows, 3");
}

}  // namespace selection_test
