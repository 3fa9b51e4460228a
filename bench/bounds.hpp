// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "clock.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/exponential.hpp"

namespace bench {

/// What this machine needs at least for a piece of work, measured now and with the given number of
/// threads: sustained bandwidths on the very bytes that a benchmark works on, and Eigen's rates on
/// operands that stay in a core's own cache. All results are seconds, medians of a few runs. They
/// are taken beside every repetition and not once, since they drift on a machine that others use.
class Bounds {
 public:
  explicit Bounds(int threads) : res_({.threads = threads}) {}

  /// Reads `bytes` (a multiple of 64) once.
  double read(const void* data, std::int64_t bytes) {
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(pieces(bytes)));
    return median_seconds([&] {
      for_pieces(bytes, [&](std::int64_t piece, std::int64_t begin, std::int64_t end) {
        sums[static_cast<std::size_t>(piece)] =
            sum_words(static_cast<const char*>(data) + begin, end - begin);
      });
      keep(sums.data());
    });
  }

  /// Writes `bytes` once.
  double write(void* data, std::int64_t bytes) {
    return median_seconds([&] {
      for_pieces(bytes, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        std::memset(static_cast<char*>(data) + begin, 0, static_cast<std::size_t>(end - begin));
      });
      keep(data);
    });
  }

  /// Reads `bytes` and writes them elsewhere.
  double copy(const void* from, void* to, std::int64_t bytes) {
    return median_seconds([&] {
      for_pieces(bytes, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                    static_cast<std::size_t>(end - begin));
      });
      keep(to);
    });
  }

  /// `count` products [m x k] [k x n], row-major.
  template <class T = float>
  double product(std::int64_t m, std::int64_t k, std::int64_t n, double count) {
    using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Matrix a = Matrix::Constant(m, k, T(0.5));
    const Matrix b = Matrix::Constant(k, n, T(0.5));
    return on_every_thread(2.0 * static_cast<double>(m * k * n), count, [&] {
      Matrix c(m, n);
      return [&a, &b, c]() mutable {
        c.noalias() = a * b;
        keep(c.data());
      };
    });
  }

  /// `count` symmetric products A^T A of [m x n] matrices, lower triangle.
  template <class T>
  double symmetric_product(std::int64_t m, std::int64_t n, double count) {
    using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Matrix a = Matrix::Constant(m, n, T(0.5));
    return on_every_thread(static_cast<double>(m * n * n), count, [&] {
      Matrix c = Matrix::Zero(n, n);
      return [&a, c]() mutable {
        c.template selfadjointView<Eigen::Lower>().rankUpdate(a.transpose(), T(1e-6));
        keep(c.data());
      };
    });
  }

  /// `count` exponentials of non-positive floats, by Eigen's function or the library's, whichever
  /// is faster for this instruction set.
  double exponentials(double count) {
    static constexpr std::int64_t block = 4096;
    const Eigen::ArrayXf in = Eigen::ArrayXf::LinSpaced(block, -20.0f, 0.0f);
    const double flops = 16.0 * block;  // only sizes the run
    const double by_eigen = on_every_thread(flops, count / block, [&] {
      Eigen::ArrayXf out(block);
      return [&in, out]() mutable {
        out = in.exp();
        keep(out.data());
      };
    });
    const double by_library = on_every_thread(flops, count / block, [&] {
      Eigen::ArrayXf out(block);
      return [&in, out]() mutable {
        for (std::int64_t i = 0; i < block; ++i) out[i] = kvevict::exp_nonpositive(in[i]);
        keep(out.data());
      };
    });
    return std::min(by_eigen, by_library);
  }

 private:
  static constexpr std::int64_t piece_bytes = 128 * 1024;

  static void keep(const void* data) { asm volatile("" : : "r"(data) : "memory"); }

  static std::int64_t pieces(std::int64_t bytes) { return (bytes + piece_bytes - 1) / piece_bytes; }

  template <class Body>
  void for_pieces(std::int64_t bytes, Body&& body) {
    res_.parallel_for(pieces(bytes), [&](std::int64_t piece, int) {
      const std::int64_t begin = piece * piece_bytes;
      body(piece, begin, std::min(bytes, begin + piece_bytes));
    });
  }

  /// Independent sums, so that loads and not additions limit the speed.
  static std::uint64_t sum_words(const char* data, std::int64_t bytes) {
    constexpr std::int64_t lanes = 32;
    std::uint64_t sums[lanes] = {};
    constexpr auto step = static_cast<std::int64_t>(sizeof sums);
    std::int64_t i = 0;
    for (; i + step <= bytes; i += step) {
      std::uint64_t words[lanes];
      std::memcpy(words, data + i, sizeof words);
      for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += words[lane];
    }
    for (; i + 8 <= bytes; i += 8) {
      std::uint64_t word;
      std::memcpy(&word, data + i, sizeof word);
      sums[0] += word;
    }
    std::uint64_t sum = 0;
    for (std::uint64_t lane : sums) sum += lane;
    return sum;
  }

  /// Seconds for `count` calls of a kernel of `flops` operations, divided among the threads, all of
  /// which are busy with it during the measurement. `make` gives each thread a kernel of its own.
  template <class Make>
  double on_every_thread(double flops, double count, Make&& make) {
    // A millisecond at least: waking the threads must not count.
    const auto calls = static_cast<std::int64_t>(1.0 + 2e8 / flops);
    std::vector<decltype(make())> kernels;
    for (int t = 0; t < res_.threads(); ++t) kernels.push_back(make());
    const double seconds = median_seconds([&] {
      res_.parallel_for(res_.threads(), [&](std::int64_t t, int) {
        for (std::int64_t i = 0; i < calls; ++i) kernels[static_cast<std::size_t>(t)]();
      });
    });
    return seconds * count / static_cast<double>(calls * res_.threads());
  }

  template <class Run>
  double median_seconds(Run&& run) {
    run();
    std::vector<double> seconds;
    double sum = 0.0;
    while (seconds.size() < 5 || (sum < 2e-3 && seconds.size() < 101)) {
      const double start = now(res_.threads());
      run();
      seconds.push_back(now(res_.threads()) - start);
      sum += seconds.back();
    }
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  kvevict::CpuResources res_;
};

}  // namespace bench
