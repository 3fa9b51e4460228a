// SPDX-License-Identifier: Apache-2.0
#pragma once

// Correct kernels behind an interface of host data, so that their tests know nothing of CUDA.
#include <cstddef>
#include <vector>

namespace emulator_test {

/// The sum of each row of `count` values: static shared memory, barriers and shuffles.
std::vector<double> row_sums(const std::vector<double>& rows, int count);

/// The positions of the values above the threshold, in no order: ballots and atomics.
std::vector<int> positions_above(const std::vector<float>& values, float threshold);

/// a [n x n] times its transpose, by tiles in two arrays of dynamic shared memory of tile_bytes
/// each.
std::vector<float> times_transpose(const std::vector<float>& a, int n);
std::size_t tile_bytes();

/// What each of 32 lanes gets from the shuffles of its lane number, by segments of `width`:
/// [operation: source lane 5, up 3, down 3, xor 6][lane].
std::vector<long long> shuffled_lanes(int width);

/// [operation: any, all, count of threads with an even number; ballot, match of number % 3, add,
/// min, max of 10 - number, and, or, xor of the number; any, all of the lane][thread] of a block of
/// 64 threads.
std::vector<int> collectives();

/// What two threads of each of 50 blocks make of the initial values with each atomic operation on
/// int, and the sums on unsigned long long, float and double.
std::vector<double> atomics();

/// gridDim, blockDim and for every thread its block and thread indices; the shape of the grid is
/// 2 x 3 x 2 blocks of 4 x 2 x 3 threads.
std::vector<unsigned> indices();

/// Whether the scalar device functions give what they should, one entry each.
std::vector<int> scalar_functions();

/// A kernel that uses `bytes` of dynamic shared memory after asking for them.
bool runs_with_dynamic_shared(std::size_t bytes);

}  // namespace emulator_test
