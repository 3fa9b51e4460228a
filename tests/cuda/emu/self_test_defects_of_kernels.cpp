// SPDX-License-Identifier: Apache-2.0
#include "self_test_defect_kernels.hpp"
#include "self_test_defects.hpp"
#include "self_test_support.hpp"

namespace emulator_test {
namespace {

using kvevict::cuda::detail::launch_kernel;

constexpr const char* race = "ThreadSanitizer: data race";
// Clang before 16 does not check the alignment of vector types.
#if defined(__clang__) && __clang_major__ < 16
constexpr const char* misaligned_access = "";
#else
constexpr const char* misaligned_access = "misaligned address";
#endif
constexpr const char* overflow = "AddressSanitizer: heap-buffer-overflow";

template <Mistake mistake, int count = 128>
void sums() {
  const DeviceArray<float> x(std::vector<float>(std::size_t{count}, 1.0f));
  const DeviceArray<float> out(2);
  require(launch_kernel("block_sum", block_sum<mistake>, dim3(2), dim3(64), 0, nullptr, x.data(),
                        count, out.data()));
  judge(out.read() == std::vector<float>{64.0f, static_cast<float>(count - 64)});
}

template <bool ordered>
void exchanges() {
  std::vector<float> values(32);
  std::vector<float> exchanged(32);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    values[lane] = static_cast<float>(lane);
    exchanged[lane] = static_cast<float>(lane ^ 1);
  }
  const DeviceArray<float> x(values);
  const DeviceArray<float> out(32);
  require(launch_kernel("exchange", exchange<ordered>, dim3(1), dim3(32), 0, nullptr, x.data(),
                        out.data()));
  judge(out.read() == exchanged);
}

template <ShuffleMistake mistake>
void shuffle() {
  const DeviceArray<float> x(std::vector<float>(32, 1.0f));
  require(
      launch_kernel("shuffles", shuffles<mistake>, dim3(1), dim3(32), 0, nullptr, x.data(), 20));
}

template <void (*kernel)(float*)>
void write_race() {
  const DeviceArray<float> out(std::vector<float>(64));
  require(launch_kernel("write_race", kernel, dim3(2), dim3(64), 0, nullptr, out.data()));
}

template <bool fenced>
void last_block() {
  const DeviceArray<int> parts(std::vector<int>(8));
  const DeviceArray<unsigned> finished(std::vector<unsigned>(1));
  const DeviceArray<int> sum(std::vector<int>(1));
  require(launch_kernel("sum_by_last_block", sum_by_last_block<fenced>, dim3(8), dim3(32), 0,
                        nullptr, parts.data(), finished.data(), sum.data()));
  judge(sum.read()[0] == 8);
}

void past_end() {
  const DeviceArray<float> x(100);
  const DeviceArray<float> out(101);
  require(launch_kernel("read_past_end", read_past_end, dim3(1), dim3(128), 0, nullptr, x.data(),
                        100, out.data()));
}

template <int bytes, int shift>
void carve() {
  const DeviceArray<float> out(32);
  require(launch_kernel("carved_arrays", carved_arrays, dim3(1), dim3(32), std::size_t{bytes},
                        nullptr, out.data(), 32, shift));
}

void carve_differently() {
  const DeviceArray<float> out(32);
  require(launch_kernel("carved_differently", carved_differently, dim3(1), dim3(32),
                        std::size_t{256}, nullptr, out.data()));
}

void too_much_static() {
  const DeviceArray<float> out(32);
  require(launch_kernel("large_static_array", large_static_array, dim3(1), dim3(32), 0, nullptr,
                        out.data()));
}

void misaligned() {
  const DeviceArray<float> x(64);
  const DeviceArray<float> out(8);
  require(launch_kernel("misaligned_load", misaligned_load, dim3(1), dim3(8), 0, nullptr, x.data(),
                        out.data()));
}

void index_overflow() {
  const DeviceArray<float> x(64);
  const DeviceArray<float> out(8);
  require(launch_kernel("overflowing_index", overflowing_index, dim3(1), dim3(8), 0, nullptr,
                        x.data(), 50000, out.data()));
}

// A mistake that the emulator itself reports, whatever its users are built with.
Defect everywhere(const char* name, void (*run)(), const char* text) {
  return {name, run, {text}, {text}, {text}};
}

// A mistake that gives a wrong value in some order of the threads, and is a race.
Defect unordered(const char* name, void (*run)()) {
  return {name, run, {wrong_value, Orders::some}, {wrong_value, Orders::some}, {race}};
}

// A race that need not show in a value.
Defect racing(const char* name, void (*run)()) { return {name, run, {}, {}, {race}}; }

// A mistake that only the build with AddressSanitizer and UndefinedBehaviorSanitizer finds.
Defect with_asan(const char* name, void (*run)(), const char* text) {
  return {name, run, {}, {text}, {}};
}

}  // namespace

std::vector<Defect> kernel_defects() {
  return {
      everywhere("correct sum", &sums<Mistake::none>, right_value),
      everywhere("correct sum of a part", &sums<Mistake::none, 100>, right_value),
      everywhere("correct exchange", &exchanges<true>, right_value),
      everywhere("last block with fences", &last_block<true>, right_value),
      unordered("missing barrier", &sums<Mistake::missing_barrier>),
      unordered("warp steps without order", &sums<Mistake::missing_warp_order>),
      unordered("exchange without __syncwarp", &exchanges<false>),
      racing("race in a block", &write_race<race_in_block>),
      racing("race of the first threads of blocks", &write_race<race_of_first_threads>),
      racing("race of different threads of blocks", &write_race<race_of_other_threads>),
      racing("last block without fences", &last_block<false>),
      everywhere("conditional barrier", &sums<Mistake::conditional_barrier>, "returned"),
      everywhere("two barriers", &sums<Mistake::two_barriers>, "divergent barrier"),
      everywhere("early return", &sums<Mistake::early_return, 100>, "returned"),
      everywhere("unwritten shared element", &sums<Mistake::unwritten_element>, wrong_value),
      everywhere("shuffle with a full mask in a branch",
                 &shuffle<ShuffleMistake::divergent_full_mask>, "returned"),
      everywhere("shuffle from a lane outside the mask", &shuffle<ShuffleMistake::inactive_source>,
                 "which does not take part"),
      everywhere("shuffles at two places", &shuffle<ShuffleMistake::two_places>,
                 "meet in different operations"),
      everywhere("shuffle by a lane outside the mask", &shuffle<ShuffleMistake::foreign_mask>,
                 "does not name it"),
      {"static shared array overrun",
       &sums<Mistake::shared_overrun>,
       {wrong_value},
       {"index 64 out of bounds"},
       {wrong_value}},
      with_asan("carved array overrun", &carve<256, 1>, overflow),
      everywhere("too little dynamic shared memory", &carve<200, 0>, "its launch gives 200"),
      everywhere("threads carve differently", &carve_differently, "threads disagree"),
      everywhere("too much static shared memory", &too_much_static, "exceed the limit"),
      with_asan("global memory overrun", &past_end, overflow),
      with_asan("misaligned vector load", &misaligned, misaligned_access),
      with_asan("overflow in an index", &index_overflow, "signed integer overflow"),
  };
}

}  // namespace emulator_test
