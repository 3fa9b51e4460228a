// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

constexpr unsigned full = 0xffffffffu;

enum class Mode { up, down, exchange, indexed };

__global__ void shuffle(Mode mode, int by, int width, const double* in, double* out) {
  const unsigned t = threadIdx.x;
  const double value = in[t];
  switch (mode) {
    case Mode::up:
      out[t] = __shfl_up_sync(full, value, static_cast<unsigned>(by), width);
      break;
    case Mode::down:
      out[t] = __shfl_down_sync(full, value, static_cast<unsigned>(by), width);
      break;
    case Mode::exchange:
      out[t] = __shfl_xor_sync(full, value, by, width);
      break;
    case Mode::indexed:
      out[t] = __shfl_sync(full, value, by + static_cast<int>(t), width);
      break;
  }
}
int source_of(Mode mode, int lane, int by, int width) {
  const int first = lane / width * width;
  const int last = first + width - 1;
  int from = lane;
  if (mode == Mode::up) from = lane - by < first ? lane : lane - by;
  if (mode == Mode::down) from = lane + by > last ? lane : lane + by;
  if (mode == Mode::exchange) from = (lane ^ by) > last ? lane : lane ^ by;
  if (mode == Mode::indexed) from = first + (by + lane) % width;
  return from;
}
void check_shuffles(Report& report) {
  std::vector<double> values(96);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = 1.5 * static_cast<double>(k * k);
  const DeviceArray<double> in(values);
  const DeviceArray<double> out(values.size());
  for (const Mode mode : {Mode::up, Mode::down, Mode::exchange, Mode::indexed}) {
    for (const int width : {32, 16, 8, 2}) {
      for (const int by : {0, 1, 3, 7, 16, 31}) {
        shuffle<<<1, 96>>>(mode, by, width, in.data(), out.data());
        const std::vector<double> found = out.read();
        bool right = true;
        for (int t = 0; t < 96; ++t) {
          const int from = t / 32 * 32 + source_of(mode, t % 32, by, width);
          right &= found[static_cast<std::size_t>(t)] == values[static_cast<std::size_t>(from)];
        }
        report.expect(right, "shfl mode " + std::to_string(static_cast<int>(mode)) + " by " +
                                 std::to_string(by) + " in " + std::to_string(width));
      }
    }
  }
}

struct Votes {
  unsigned ballot, active, equal, equal64, all_equal;
  int any, all, uniform, rank;
};
__global__ void vote(const int* in, Votes* out) {
  const unsigned t = threadIdx.x;
  const int value = in[t];
  Votes votes{};
  votes.ballot = __ballot_sync(full, value > 3);
  votes.any = __any_sync(full, value > 8);
  votes.all = __all_sync(full, value < 10);
  votes.uniform = __uni_sync(full, value > 100);
  votes.equal = __match_any_sync(full, value);
  votes.equal64 = __match_any_sync(full, static_cast<long long>(value) << 40);
  int agree = 0;
  votes.all_equal = __match_all_sync(full, value / 100, &agree);
  votes.active = static_cast<unsigned>(agree);
  const unsigned odd = __ballot_sync(full, value % 2 != 0);
  if (value % 2 != 0) {
    // A part of the warp, with a mask that says which.
    votes.rank = __popc(__ballot_sync(odd, value > 4)) + 100 * __popc(odd & ((1u << t % 32) - 1));
  }
  out[t] = votes;
}
void check_votes(Report& report) {
  std::vector<int> values(64);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<int>(k * 7 % 10);
  const DeviceArray<int> in(values);
  const DeviceArray<Votes> out(values.size());
  vote<<<1, 64>>>(in.data(), out.data());
  const std::vector<Votes> found = out.read();
  for (std::size_t t = 0; t < 64; ++t) {
    Votes expected{};
    int odd_above = 0;
    int odd_before = 0;
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const int other = values[t / 32 * 32 + lane];
      expected.ballot |= static_cast<unsigned>(other > 3) << lane;
      expected.equal |= static_cast<unsigned>(other == values[t]) << lane;
      expected.any |= other > 8;
      odd_above += other % 2 != 0 && other > 4;
      odd_before += other % 2 != 0 && lane < t % 32;
    }
    report.expect(found[t].ballot == expected.ballot, "vote.ballot");
    report.expect(found[t].any == expected.any, "vote.any");
    report.expect(found[t].all == 1, "vote.all");
    report.expect(found[t].uniform == 1, "vote.uni");
    report.expect(found[t].equal == expected.equal, "match.any.b32");
    report.expect(found[t].equal64 == expected.equal, "match.any.b64");
    report.expect(found[t].all_equal == full && found[t].active == 1, "match.all");
    const int rank = values[t] % 2 != 0 ? odd_above + 100 * odd_before : 0;
    report.expect(found[t].rank == rank, "vote of a part of the warp");
  }
}

__global__ void reduce(const int* in, int* out) {
#if __CUDA_ARCH__ >= 800
  const int value = in[threadIdx.x];
  const auto bits = static_cast<unsigned>(value);
  int* results = out + 7 * threadIdx.x;
  results[0] = __reduce_add_sync(full, value);
  results[1] = __reduce_min_sync(full, value);
  results[2] = __reduce_max_sync(full, value);
  results[3] = static_cast<int>(__reduce_max_sync(full, bits));
  results[4] = static_cast<int>(__reduce_and_sync(full, bits | 1));
  results[5] = static_cast<int>(__reduce_or_sync(full, bits));
  results[6] = static_cast<int>(__reduce_xor_sync(full, bits));
#endif
}
void check_reductions(Report& report) {
  std::vector<int> values(32);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<int>(k * k * 31) - 9000;
  const DeviceArray<int> in(values);
  const DeviceArray<int> out(7 * 32);
  reduce<<<1, 32>>>(in.data(), out.data());
  const std::vector<int> found = out.read();
  if (found[0] == -1) return;  // compiled for a device without these
  int sum = 0;
  int low = values[0];
  int high = values[0];
  unsigned top = 0;
  unsigned ones = full;
  unsigned any = 0;
  unsigned odd = 0;
  for (const int value : values) {
    const auto bits = static_cast<unsigned>(value);
    sum += value;
    low = value < low ? value : low;
    high = value > high ? value : high;
    top = bits > top ? bits : top;
    ones &= bits | 1;
    any |= bits;
    odd ^= bits;
  }
  const int expected[] = {sum,
                          low,
                          high,
                          static_cast<int>(top),
                          static_cast<int>(ones),
                          static_cast<int>(any),
                          static_cast<int>(odd)};
  for (std::size_t k = 0; k < found.size(); ++k) {
    report.expect(found[k] == expected[k % 7], "redux " + std::to_string(k % 7));
  }
}

/// Lanes leave the loop one after the other and come together behind it.
__global__ void diverge(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  int steps = 0;
  for (int x = t + 1; x != 1; x = x % 2 == 0 ? x / 2 : 3 * x + 1) {
    if (steps % 5 == 4 && t % 3 == 0) ++steps;
    ++steps;
  }
  __syncwarp();
  out[t] = __shfl_xor_sync(full, steps, 1) + 1000 * static_cast<int>(__activemask() == full);
}

/// Tiles of 8 lanes exchange through shared memory and meet with masks of their own, some of them
/// in divergent code.
__global__ void tiles(const int* in, int* out) {
  __shared__ int exchange[64];
  const int t = static_cast<int>(threadIdx.x);
  const unsigned mask = 0xffu << (t % 32 / 8 * 8);
  int value = in[t];
  const int rounds = 1 + t / 8 % 3;
  for (int round = 0; round < rounds; ++round) {
    exchange[t] = value;
    __syncwarp(mask);
    value += exchange[t ^ (1 << round)];
    __syncwarp(mask);
  }
  out[t] = value;
}

/// A thread that waits for another one, of its own warp or not: each makes progress.
__global__ void hand_over(int waiting, int going, int* out) {
  __shared__ volatile int turn;
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) turn = 0;
  __syncthreads();
  if (t == waiting) {
    while (turn == 0) {
    }
    out[waiting] = turn;
  } else if (t == going) {
    turn = going;
  }
}

}  // namespace

void check_warps(Report& report) {
  check_shuffles(report);
  check_votes(report);
  check_reductions(report);

  const DeviceArray<int> out(64);
  diverge<<<1, 64>>>(out.data());
  std::vector<int> found = out.read();
  for (int t = 0; t < 64; ++t) {
    const int partner = t ^ 1;
    int steps = 0;
    for (int x = partner + 1; x != 1; x = x % 2 == 0 ? x / 2 : 3 * x + 1) {
      if (steps % 5 == 4 && partner % 3 == 0) ++steps;
      ++steps;
    }
    report.expect(found[static_cast<std::size_t>(t)] == steps + 1000, "divergent loop");
  }

  std::vector<int> values(64);
  std::iota(values.begin(), values.end(), 1);
  const DeviceArray<int> in(values);
  tiles<<<1, 64>>>(in.data(), out.data());
  found = out.read();
  for (std::size_t t = 0; t < 64; ++t) {
    int expected = 0;
    const std::size_t group = std::size_t{2} << (t / 8 % 3);
    for (std::size_t k = 0; k < group; ++k) expected += values[t / group * group + k];
    report.expect(found[t] == expected, "tiles of a warp");
  }

  for (const int going : {33, 50, 7}) {
    hand_over<<<1, 64>>>(40, going, out.data());
    report.expect(out.read()[40] == going, "waiting for thread " + std::to_string(going));
  }
}

}  // namespace ptx_test
