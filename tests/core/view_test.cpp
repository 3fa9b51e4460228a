// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/view.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "core/far_memory.hpp"

using kvevict::MemorySpace;
using kvevict::StridedView;
template <class T>
using DeviceMatrix = kvevict::MatrixView<T, MemorySpace::device>;
using kvevict::MatrixView;

TEST_CASE("a packed view is row-major", "[core][view]") {
  std::vector<int> data(2 * 3 * 4);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int>(i);
  const auto view = StridedView<int, 3>::packed(data.data(), 2, 3, 4);
  REQUIRE(view.size() == 24);
  REQUIRE_FALSE(view.empty());
  REQUIRE(view.stride[0] == 12);
  REQUIRE(view.stride[1] == 4);
  REQUIRE(view.stride[2] == 1);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) REQUIRE(view(i, j, k) == (i * 3 + j) * 4 + k);
    }
  }
  view(1, 2, 3) = -1;
  REQUIRE(data[23] == -1);
}

TEST_CASE("strides address any axis order", "[core][view]") {
  std::vector<int> data = {0, 1, 2, 3, 4, 5};
  MatrixView<int> transposed;
  transposed.data = data.data();
  transposed.shape[0] = 3;
  transposed.shape[1] = 2;
  transposed.stride[0] = 1;
  transposed.stride[1] = 3;
  REQUIRE(transposed(2, 0) == 2);
  REQUIRE(transposed(0, 1) == 3);
  REQUIRE(transposed(2, 1) == 5);
}

TEST_CASE("an empty view has no memory and no elements", "[core][view]") {
  const MatrixView<float> none;
  REQUIRE(none.empty());
  REQUIRE(none.size() == 0);
  float one = 1;
  const auto no_rows = MatrixView<float>::packed(&one, 0, 8);
  REQUIRE(no_rows.size() == 0);
}

TEST_CASE("views convert to const, never away from it or to another space", "[core][view]") {
  std::vector<float> data(6);
  const auto view = MatrixView<float>::packed(data.data(), 2, 3);
  const MatrixView<const float> read_only = view;
  REQUIRE(&read_only(1, 2) == &view(1, 2));
  REQUIRE(read_only.shape[1] == 3);

  STATIC_REQUIRE(std::is_convertible_v<MatrixView<float>, MatrixView<const float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<MatrixView<const float>, MatrixView<float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<DeviceMatrix<float>, MatrixView<float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<MatrixView<float>, DeviceMatrix<float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<DeviceMatrix<float>, MatrixView<const float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<MatrixView<float>, kvevict::MatrixBatchView<float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<MatrixView<float>, MatrixView<double>>);
  STATIC_REQUIRE(std::is_convertible_v<DeviceMatrix<float>, DeviceMatrix<const float>>);
  STATIC_REQUIRE(MatrixView<float>::space == MemorySpace::host);
  STATIC_REQUIRE(DeviceMatrix<float>::space == MemorySpace::device);
}

TEST_CASE("the number of indices is part of the type", "[core][view]") {
  STATIC_REQUIRE(std::is_invocable_v<MatrixView<float>, int, int>);
  STATIC_REQUIRE_FALSE(std::is_invocable_v<MatrixView<float>, int>);
  STATIC_REQUIRE_FALSE(std::is_invocable_v<MatrixView<float>, int, int, int>);
}

TEST_CASE("kernels can take views by value", "[core][view]") {
  STATIC_REQUIRE(std::is_trivially_copyable_v<MatrixView<float>>);
  STATIC_REQUIRE(std::is_trivially_copyable_v<DeviceMatrix<const float>>);
}

TEST_CASE("offsets are 64-bit", "[core][view]") {
  // Beyond 2^31 and 2^33 elements; only addresses are formed.
  constexpr std::int64_t far_row = (std::int64_t{1} << 33) + 7;
  constexpr std::int64_t far_column = (std::int64_t{1} << 31) + 3;
  kvevict_test::FarMemory<char> far(4 * far_row);
  MatrixView<char> view = MatrixView<char>::packed(far.data(), 3, 5);
  view.stride[0] = far_row;
  view.stride[1] = far_column;
  REQUIRE(far.offset(&view(0, 1)) == far_column);
  REQUIRE(far.offset(&view(2, 4)) == 2 * far_row + 4 * far_column);
  REQUIRE(MatrixView<char>::packed(far.data(), 1 << 20, 1 << 20).size() == std::int64_t{1} << 40);
}
