// SPDX-License-Identifier: Apache-2.0
//
// Time of each operation against the work that no implementation avoids, and the machine's rates
// that this is reckoned with. See README.md for names, counters and results.

#include <cstdint>
#include <memory>
#include <string>

#include "row_ops.hpp"
#include "runner.hpp"
#include "score_ops.hpp"

namespace {

using namespace bench;

/// Sizes at which operations on scores are measured.
constexpr Shape score_shapes[] = {
    {smoke_shape.heads, smoke_shape.rows, 0, smoke_shape.group},
    {90, 2048, 0, 3},
    {8, 32768, 0, 4},
    {1, 1 << 20, 0, 1},
};

std::string op_name(std::string_view op, const char* type, const Shape& shape, int threads) {
  return "op/" + std::string(op) + "/cpu/" + type + "/" + shape_name(shape, threads);
}

template <class T>
void add_row_ops(const std::shared_ptr<InputStore>& store, const Shape& shape) {
  for (const RowOp<T>& op : row_ops<T>) {
    for (int threads : thread_counts()) {
      add(op_name(op.name, type_name<T>(), shape, threads), [=, &op](benchmark::State& state) {
        const RowScene<T> scene(store->get<T>(shape));
        kvevict::CpuResources res({.threads = threads});
        Bounds bounds(threads);
        measure(state, threads, op.unavoidable(bounds, scene), scene.inputs.keys().bytes(),
                [&] { op.run(res, scene); });
      });
    }
  }
}

void add_score_ops(const Shape& shape) {
  for (const ScoreOp& op : score_ops) {
    for (int threads : thread_counts()) {
      add(op_name(op.name, "float", shape, threads), [=, &op](benchmark::State& state) {
        ScoreScene scene(shape, op.kind);
        kvevict::CpuResources res({.threads = threads});
        Bounds bounds(threads);
        const std::int64_t rows =
            op.per_query_head ? shape.query_heads() * shape.rows : shape.total_rows();
        const double seconds = measure(state, threads, op.unavoidable(bounds, scene), 4 * rows,
                                       [&] { op.run(res, scene); });
        state.counters["rows_per_second"] = static_cast<double>(rows) / seconds;
      });
    }
  }
}

/// A rate of the machine: `amount` (bytes, operations) of work in the seconds that `time` returns.
template <class Time>
void add_rate(const std::string& name, const char* unit, double amount, Time&& time) {
  add("bound/" + name, [=](benchmark::State& state) {
    double seconds = 0.0;
    for (auto _ : state) seconds += time();
    state.counters[unit] = amount * static_cast<double>(state.iterations()) / seconds;
  });
}

void add_rates(const std::shared_ptr<InputStore>& store, const Shape& s) {
  for (int threads : thread_counts()) {
    const std::string at = "/" + shape_name(s, threads);
    const double bytes = 4.0 * static_cast<double>(s.elements());
    add_rate("read" + at, "bytes_per_second", bytes, [=] {
      const Buffer<float>& keys = store->get<float>(s).keys();
      return Bounds(threads).read(keys.data(), keys.bytes());
    });
    add_rate("copy" + at, "bytes_per_second", 2.0 * bytes, [=] {
      const Inputs<float>& inputs = store->get<float>(s);
      return Bounds(threads).copy(inputs.keys().data(), inputs.values().data(),
                                  inputs.keys().bytes());
    });
    const double square = static_cast<double>(s.dim * s.dim);
    add_rate("product,square" + at, "flops", 2.0 * square * product_rows,
             [=] { return Bounds(threads).product(product_rows, s.dim, s.dim, 1.0); });
    const std::int64_t window = window_queries * s.group;
    add_rate("product,window" + at, "flops",
             2.0 * static_cast<double>(window * s.dim * product_rows),
             [=] { return Bounds(threads).product(window, s.dim, product_rows, 1.0); });
    add_rate("symmetric_product,float" + at, "flops", square * gram_rows,
             [=] { return Bounds(threads).symmetric_product<float>(gram_rows, s.dim, 1.0); });
    add_rate("symmetric_product,double" + at, "flops", square * gram_rows,
             [=] { return Bounds(threads).symmetric_product<double>(gram_rows, s.dim, 1.0); });
    add_rate("exponentials" + at, "per_second", 1.0,
             [=] { return Bounds(threads).exponentials(1.0); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto store = std::make_shared<InputStore>();
  for (const Shape& shape : shapes) {
    add_rates(store, shape);
    add_row_ops<float>(store, shape);
    add_row_ops<kvevict::half>(store, shape);
    add_row_ops<kvevict::bfloat16>(store, shape);
  }
  for (const Shape& shape : score_shapes) add_score_ops(shape);
  return run_benchmarks(argc, argv);
}
