// SPDX-License-Identifier: Apache-2.0
//
// Time of each operation on a GPU against the work that no implementation avoids, and the device's
// rates that this is reckoned with. See README.md for names and counters.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cuda_row_ops.cuh"
#include "cuda_runner.cuh"
#include "cuda_score_ops.cuh"

namespace {

using namespace bench;

/// Sizes at which operations on scores are measured.
constexpr Shape score_shapes[] = {
    {cuda_smoke_shape.heads, cuda_smoke_shape.rows, 0, cuda_smoke_shape.group},
    {8, 32768, 0, 4},
    {256, 32768, 0, 4},
    {8, 1 << 20, 0, 4},
};

bool is_quick(const Shape& shape) { return shape.rows == cuda_smoke_shape.rows; }

std::string op_name(std::string_view op, const char* type, const Shape& shape) {
  return "op/" + std::string(op) + "/cuda/" + type + "/" + cuda_shape_name(shape);
}

template <class T>
void add_row_ops(CudaSession& session, const std::shared_ptr<CudaInputStore>& store,
                 const Shape& shape) {
  for (const CudaRowOp<T>& op : cuda_row_ops<T>) {
    session.add(op_name(op.name, type_name<T>(), shape),
                [&res = session.res(), &op, store, shape](benchmark::State& state) {
                  const CudaRowScene<T> scene(res, store->get<T>(shape));
                  measure(state, res, op.work(scene.load()), scene.traffic(), is_quick(shape),
                          [&] { op.run(res, scene); });
                });
  }
}

void add_score_ops(CudaSession& session, const Shape& shape) {
  for (const CudaScoreOp& op : cuda_score_ops) {
    session.add(op_name(op.name, "float", shape),
                [&res = session.res(), &op, shape](benchmark::State& state) {
                  CudaScoreScene scene(res, shape, op.kind);
                  measure(state, res, op.work(shape), scene.traffic(op.per_query_head),
                          is_quick(shape), [&] { op.run(res, scene); });
                });
  }
}

/// A rate of the device: `time` returns the seconds that `amount` of work (bytes, operations)
/// takes.
template <class Time>
void add_rate(CudaSession& session, const std::string& name, const Shape& shape, const char* unit,
              double amount, Time&& time) {
  session.add("bound/" + name + "/cuda/" + cuda_shape_name(shape),
              [=, &res = session.res()](benchmark::State& state) {
                CudaRates rates(res, is_quick(shape));
                double seconds = 0.0;
                for (auto _ : state) {
                  const double once = time(rates, amount);
                  state.SetIterationTime(once);
                  seconds += once;
                }
                state.counters[unit] = amount * static_cast<double>(state.iterations()) / seconds;
              });
}

void add_rates(CudaSession& session, const std::shared_ptr<CudaInputStore>& store, const Shape& s) {
  using kvevict::bfloat16;
  const double bytes = 2.0 * static_cast<double>(s.elements());
  add_rate(session, "read", s, "bytes_per_second", bytes, [=](CudaRates& rates, double) {
    const CudaBuffer<bfloat16>& keys = store->get<bfloat16>(s).keys();
    return rates.read(keys.data(), keys.bytes());
  });
  add_rate(session, "write", s, "bytes_per_second", bytes, [=](CudaRates& rates, double) {
    const CudaBuffer<bfloat16>& keys = store->get<bfloat16>(s).keys();
    return rates.write(keys.data(), keys.bytes());
  });
  add_rate(session, "copy", s, "bytes_per_second", 2.0 * bytes, [=](CudaRates& rates, double) {
    const CudaInputs<bfloat16>& inputs = store->get<bfloat16>(s);
    return rates.copy(inputs.values().data(), inputs.keys().data(), inputs.keys().bytes());
  });
  add_rate(session, "fp32", s, "flops_per_second", 1e12,
           [](CudaRates& rates, double flops) { return rates.flops<float>(flops); });
  add_rate(session, "fp64", s, "flops_per_second", 1e12,
           [](CudaRates& rates, double flops) { return rates.flops<double>(flops); });
  add_rate(session, "exponentials", s, "per_second", 1e11,
           [](CudaRates& rates, double count) { return rates.exponentials(count); });
  add_rate(session, "launches", s, "per_second", 1e3,
           [](CudaRates& rates, double count) { return count * rates.launch_nothing(); });
}

}  // namespace

int main(int argc, char** argv) {
  return run_cuda_benchmarks(argc, argv, [](CudaSession& session) {
    const auto store = std::make_shared<CudaInputStore>(session.res());
    for (const Shape& shape : cuda_shapes) {
      // The rates come last: `write` leaves no random keys behind.
      add_row_ops<float>(session, store, shape);
      add_row_ops<kvevict::half>(session, store, shape);
      add_row_ops<kvevict::bfloat16>(session, store, shape);
      add_rates(session, store, shape);
    }
    for (const Shape& shape : score_shapes) add_score_ops(session, shape);
  });
}
