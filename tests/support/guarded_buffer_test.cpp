// SPDX-License-Identifier: Apache-2.0
#include "support/guarded_buffer.hpp"

#include <cmath>
#include <numeric>

#include "catch.hpp"

using namespace kvevict_test;

TEST_CASE("elements keep their values and guards stay intact in both layouts") {
  for (const StridedLayout& layout :
       {StridedLayout::hnd(2, 3, 4, 1), StridedLayout::nhd(2, 3, 4, 3)}) {
    GuardedBuffer<float> buffer(layout);
    std::vector<float> values(24);
    std::iota(values.begin(), values.end(), 0.0F);
    buffer.assign(values);
    CHECK(buffer.values() == values);
    CHECK(buffer.at(1, 2, 3) == 23.0F);
    CHECK(buffer.data() + layout.offset(1, 0, 0) == &buffer.at(1, 0, 0));
    CHECK_FALSE(buffer.first_broken_guard());
  }
}

TEST_CASE("strides are those of the layout's name") {
  CHECK(StridedLayout::hnd(2, 3, 4, 1).row_stride == 5);
  CHECK(StridedLayout::hnd(2, 3, 4, 1).head_stride == 16);
  CHECK(StridedLayout::nhd(2, 3, 4, 1).head_stride == 5);
  CHECK(StridedLayout::nhd(2, 3, 4, 1).row_stride == 11);
}

TEST_CASE("a stray write is found between rows, before and behind") {
  for (const std::int64_t where : {-1, 4, 15, 31}) {
    GuardedBuffer<float> buffer(StridedLayout::hnd(2, 3, 4, 1));
    buffer.assign(std::vector<float>(24, 1.0F));
    buffer.data()[where] = 0.0F;
    INFO(where);
    CHECK(buffer.first_broken_guard() == where);
  }
}

TEST_CASE("a stray read poisons a result") {
  const GuardedBuffer<float> buffer(StridedLayout::hnd(1, 1, 2, 1));
  CHECK(std::isnan(buffer.data()[2]));
}

TEST_CASE("empty buffers and overlapping elements") {
  CHECK_FALSE(GuardedBuffer<double>(StridedLayout::nhd(0, 5, 4, 1)).first_broken_guard());
  CHECK_THROWS_AS(GuardedBuffer<float>(StridedLayout{1, 2, 4, 8, 3}), std::invalid_argument);
  GuardedBuffer<float> buffer(StridedLayout::hnd(1, 1, 2, 0));
  CHECK_THROWS_AS(buffer.assign(std::vector<float>(3)), std::invalid_argument);
}
