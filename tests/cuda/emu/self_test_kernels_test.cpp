// SPDX-License-Identifier: Apache-2.0
// Correct kernels give the right values whatever the emulator is told about orders.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "catch.hpp"
#include "self_test_clean_kernels.hpp"
#include "settings.hpp"

namespace {

using kvevict_emulation::Settings;
using kvevict_emulation::settings;
using kvevict_emulation::ThreadOrder;

// Every combination that a test may ask for; the process's own settings come back afterwards.
template <class Test>
void with_all_settings(Test test) {
  const Settings before = settings();
  for (const ThreadOrder order :
       {ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::shuffled}) {
    for (int flags = 0; flags < 8; ++flags) {
      CAPTURE(static_cast<int>(order), flags);
      settings().thread_order = order;
      settings().reverse_blocks = (flags & 1) != 0;
      settings().switch_at_atomics = (flags & 2) != 0;
      settings().lazy_streams = (flags & 4) != 0;
      test();
    }
  }
  settings() = before;
}

}  // namespace

TEST_CASE("sums of rows") {
  constexpr int count = 250;
  std::vector<double> rows(3 * count);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<double>(i % 17);
  }
  std::vector<double> sums(3, 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sums[i / count] += rows[i];
  }
  // Sums of small integers are exact in any order.
  with_all_settings([&] { CHECK(emulator_test::row_sums(rows, count) == sums); });
}

TEST_CASE("positions above a threshold") {
  std::vector<float> values(300);
  std::vector<int> above;
  for (int i = 0; i < 300; ++i) {
    values[static_cast<std::size_t>(i)] = static_cast<float>(i * 37 % 101);
    if (i * 37 % 101 > 60) {
      above.push_back(i);
    }
  }
  with_all_settings([&] {
    std::vector<int> found = emulator_test::positions_above(values, 60.0f);
    std::sort(found.begin(), found.end());
    CHECK(found == above);
  });
}

TEST_CASE("a product by tiles in dynamic shared memory") {
  constexpr int n = 19;
  std::vector<float> a(n * n);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i * 7 % 11) - 5.0f;
  }
  std::vector<float> expected(n * n, 0.0f);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) {
        expected[i * n + j] += a[i * n + k] * a[j * n + k];
      }
    }
  }
  with_all_settings([&] { CHECK(emulator_test::times_transpose(a, n) == expected); });
}

TEST_CASE("shuffles by segments") {
  with_all_settings([] {
    for (const int width : {32, 16, 8}) {
      const std::vector<long long> got = emulator_test::shuffled_lanes(width);
      for (int lane = 0; lane < 32; ++lane) {
        CAPTURE(width, lane);
        const int segment = lane / width * width;
        const auto at = [&](int row) { return got[static_cast<std::size_t>(32 * row + lane)]; };
        const auto or_own = [&](int source) {
          return source >= segment && source < segment + width ? source : lane;
        };
        CHECK(at(0) == segment + 5);
        CHECK(at(1) == or_own(lane - 3));
        CHECK(at(2) == or_own(lane + 3));
        CHECK(at(3) == or_own(lane ^ 6));
      }
    }
  });
}

TEST_CASE("barriers and warps combine values") {
  with_all_settings([] {
    const std::vector<int> got = emulator_test::collectives();
    for (int t = 0; t < 64; ++t) {
      CAPTURE(t);
      const auto at = [&](int row) { return got[static_cast<std::size_t>(64 * row + t)]; };
      const int first = t / 32 * 32;
      CHECK(at(0) == 1);
      CHECK(at(1) == 0);
      CHECK(at(2) == 32);
      CHECK(static_cast<unsigned>(at(3)) == 0x55555555u);
      std::uint32_t equal = 0;
      int sum = 0;
      int combined_xor = 0;
      for (int lane = 0; lane < 32; ++lane) {
        equal |= (first + lane) % 3 == t % 3 ? 1u << lane : 0u;
        sum += 10 - (first + lane);
        combined_xor ^= first + lane;
      }
      CHECK(static_cast<unsigned>(at(4)) == equal);
      CHECK(at(5) == sum);
      CHECK(at(6) == 10 - (first + 31));
      CHECK(at(7) == 10 - first);
      CHECK(at(8) == first);
      CHECK(at(9) == first + 31);
      CHECK(at(10) == combined_xor);
      CHECK(at(11) == 1);
      CHECK(at(12) == 0);
    }
  });
}

TEST_CASE("atomic operations") {
  with_all_settings([] {
    const std::vector<double> got = emulator_test::atomics();
    // The sum of 0 to 99 is 4950, their exclusive or 0; 100 increments modulo 10 end at 0.
    const std::vector<double> expected{4950.0, -4950.0, -49.0, 50.0,
                                       0.0,    255.0,   0.0,   4950.0,
                                       77.0,   0.0,     0.0,   100.0 * std::ldexp(1.0, 33),
                                       100.0,  100.0};
    CHECK(got == expected);
  });
}

TEST_CASE("indices of blocks and threads") {
  with_all_settings([] {
    const std::vector<unsigned> got = emulator_test::indices();
    CHECK(std::vector<unsigned>(got.begin(), got.begin() + 6) ==
          std::vector<unsigned>{2, 3, 2, 4, 2, 3});
    std::size_t place = 6;
    bool right = true;
    for (unsigned block = 0; block < 12; ++block) {
      for (unsigned thread = 0; thread < 24; ++thread) {
        const unsigned own[] = {block % 2,  block / 2 % 3,  block / 6,
                                thread % 4, thread / 4 % 2, thread / 8};
        for (const unsigned value : own) {
          right = right && got[place++] == value;
        }
      }
    }
    CHECK(right);
  });
}

TEST_CASE("threads of the host launch independently") {
  const std::vector<double> rows(100, 1.0);
  bool right[2] = {};
  const auto launch_often = [&rows](bool& all_right) {
    all_right = true;
    for (int i = 0; i < 20; ++i) {
      all_right = all_right && emulator_test::row_sums(rows, 50) == std::vector<double>{50.0, 50.0};
    }
  };
  std::thread first(launch_often, std::ref(right[0]));
  std::thread second(launch_often, std::ref(right[1]));
  first.join();
  second.join();
  CHECK(right[0]);
  CHECK(right[1]);
}

TEST_CASE("scalar device functions") {
  const std::vector<int> right = emulator_test::scalar_functions();
  for (std::size_t i = 0; i < right.size(); ++i) {
    CAPTURE(i);
    CHECK(right[i] == 1);
  }
}

TEST_CASE("dynamic shared memory above the default limit") {
  CHECK(emulator_test::runs_with_dynamic_shared(std::size_t{100} << 10));
  CHECK_THROWS(
      emulator_test::runs_with_dynamic_shared(settings().limits.shared_per_block_optin + 4));
}
