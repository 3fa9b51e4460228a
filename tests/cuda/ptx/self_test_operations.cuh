// SPDX-License-Identifier: Apache-2.0
#pragma once

// An operation has two functions, on_device and on_host. They are applied to the same operands and
// must give the same bits, or nearly the same numbers.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "self_test.hpp"

namespace ptx_test {

inline void require(cudaError_t error) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA call failed: ") + cudaGetErrorName(error));
  }
}

/// An array in device memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    require(cudaMalloc(&data_, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    require(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    require(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// Numbers at which operations go wrong, and some others.
template <class T>
std::vector<T> samples() {
  std::vector<T> values;
  std::mt19937_64 random(7);
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_integral_v<T>) {
    for (const int small : {0, 1, 2, 3, 5, 8, 31, 32, 33, 63, 64, 100, -1, -2, -7, -32}) {
      values.push_back(static_cast<T>(small));
    }
    values.insert(values.end(), {Limits::min(), Limits::max(), static_cast<T>(Limits::max() / 2),
                                 static_cast<T>(Limits::min() + 1)});
    for (int k = 0; k < 12; ++k) values.push_back(static_cast<T>(random() >> (random() % 60)));
  } else {
    for (const double some :
         {0.0,   -0.0,   0.5,     -0.5,    1.0, 1.5, 2.5,  -2.5, 3.0,  1e-3, 0.1,
          -7.75, 100.25, 65504.0, 65520.0, 1e5, 3e9, -3e9, 1e19, 6e-8, 1e-40}) {
      values.push_back(static_cast<T>(some));
    }
    values.insert(values.end(),
                  {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::max(),
                   Limits::lowest(), Limits::min(), Limits::denorm_min()});
    std::normal_distribution<double> normal(0, 10);
    for (int k = 0; k < 12; ++k) values.push_back(static_cast<T>(normal(random)));
  }
  return values;
}

template <class Operation, class Result, class... A>
__global__ void apply(int count, Result* results, const A*... operands) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) results[i] = Operation::on_device(operands[i]...);
}

/// Every combination of samples of one, two or three operands.
template <class... A>
std::tuple<std::vector<A>...> combinations() {
  std::tuple<std::vector<A>...> operands;
  const std::tuple<std::vector<A>...> values{samples<A>()...};
  std::size_t count = 1;
  std::apply([&](const auto&... each) { ((count *= each.size()), ...); }, values);
  constexpr std::size_t most = 4096;
  std::mt19937_64 random(11);
  for (std::size_t k = 0; k < std::min(count, most); ++k) {
    std::size_t rest = count <= most ? k : random();
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      ((std::get<i>(operands).push_back(std::get<i>(values)[rest % std::get<i>(values).size()]),
        rest /= std::get<i>(values).size()),
       ...);
    }
    (std::index_sequence_for<A...>{});
  }
  return operands;
}

template <class T>
std::string text_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  char text[64];
  if constexpr (std::is_floating_point_v<T>) {
    std::snprintf(text, sizeof text, "%.9g (%llx)", static_cast<double>(value),
                  static_cast<unsigned long long>(bits));
  } else {
    std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(bits));
  }
  return text;
}

/// Equal bits; any NaN equals any other. With a tolerance: that much relative to the larger one.
template <class T>
bool agree(T device, T host, double tolerance) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(device) || std::isnan(host)) return std::isnan(device) && std::isnan(host);
    if (tolerance > 0 && std::isfinite(device) && std::isfinite(host)) {
      const double scale = std::fmax(std::fabs(device), std::fabs(host));
      return std::fabs(static_cast<double>(device) - static_cast<double>(host)) <=
             tolerance * std::fmax(scale, static_cast<double>(std::numeric_limits<T>::min()));
    }
  }
  return std::memcmp(&device, &host, sizeof(T)) == 0;
}

/// What device and host make of the same operands. Compiled once for each signature, not for each
/// operation: that is most of what the host's compiler has to do here.
template <class Result, class... A>
void compare(Report& report, const char* name, double tolerance,
             const std::tuple<std::vector<A>...>& operands,
             void (*launch)(int count, Result* results, const A*... operands),
             Result (*on_host)(A... operands)) {
  const std::size_t count = std::get<0>(operands).size();
  const DeviceArray<Result> results(count);
  const auto run = [&](const std::vector<A>&... values) {
    launch(static_cast<int>(count), results.data(), DeviceArray<A>(values).data()...);
  };
  std::apply(run, operands);
  const std::vector<Result> found = results.read();
  for (std::size_t i = 0; i < count; ++i) {
    const auto check_one = [&](const std::vector<A>&... values) {
      const Result expected = on_host(values[i]...);
      std::string what;
      const bool same = agree(found[i], expected, tolerance);
      if (!same) {
        what = std::string(name) + ": " + text_of(found[i]) + " instead of " + text_of(expected);
        what += " for";
        ((what += " " + text_of(values[i])), ...);
      }
      report.expect(same, what);
    };
    std::apply(check_one, operands);
  }
}

template <class Operation, class Result, class... A>
void launch(int count, Result* results, const A*... operands) {
  constexpr unsigned block = 128;
  const unsigned blocks = (static_cast<unsigned>(count) + block - 1) / block;
  apply<Operation, Result, A...><<<blocks, block>>>(count, results, operands...);
}

template <class Operation, class... A>
void check_on(Report& report, const char* name, double tolerance,
              const std::tuple<std::vector<A>...>& operands) {
  using Result = decltype(Operation::on_host(A{}...));
  compare(report, name, tolerance, operands, &launch<Operation, Result, A...>, &Operation::on_host);
}

template <class Operation, class... A>
void check(Report& report, const char* name, double tolerance = 0) {
  check_on<Operation, A...>(report, name, tolerance, combinations<A...>());
}

}  // namespace ptx_test
