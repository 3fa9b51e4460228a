// SPDX-License-Identifier: Apache-2.0
//
// Tensor parallel: every process holds some of the KV heads of each layer, and all of them together
// divide one budget. The processes exchange sums of integers only, and keep exactly the rows that
// one process with all heads would keep.
//
//     mpirun -n 2 mpi_budget
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "kvevict/kvevict.hpp"

namespace {

constexpr std::int64_t layers = 4;
constexpr std::int64_t layer_heads = 6;
constexpr std::int64_t rows = 500;
constexpr std::int64_t dim = 32;

// The cache of heads [first, first + count) of every layer, [layer][head][row][dim]. A head's
// numbers depend on its own number only, so that every process can make its part.
struct Cache {
  std::vector<float> keys;
  std::vector<float> values;
  std::int64_t heads;

  Cache(std::int64_t first, std::int64_t count) : heads(layers * count) {
    std::normal_distribution<float> normal;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t head = first; head < first + count; ++head) {
        std::mt19937 generator(static_cast<unsigned>(layer * layer_heads + head));
        const float scale = 1.0f + 0.2f * static_cast<float>((5 * layer + 3 * head) % 7);
        for (std::int64_t i = 0; i < rows * dim; ++i) {
          keys.push_back(scale * normal(generator));
          values.push_back(normal(generator));
        }
      }
    }
  }
  kvevict::KvView<const float> view() const {
    return kvevict::KvView<const float>::hnd(keys.data(), values.data(), heads, rows, dim);
  }
};

// [mpi_sum]
void sum_over_processes(void* communicator, std::int64_t* values, std::int64_t count) {
  MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_INT64_T, MPI_SUM,
                *static_cast<MPI_Comm*>(communicator));
}
// [/mpi_sum]

// The rows of one layer that this process and the others hold, and those of a process alone.
template <class Allocator>
bool same_as_alone(const char* name, std::int64_t first, std::int64_t count, MPI_Comm communicator,
                   Allocator allocator) {
  kvevict::CpuResources res({.threads = 1});
  const kvevict::Budget budget = kvevict::Budget::evict_ratio(0.7);
  const kvevict::Protect protect{.sinks = 4, .recent = 16};
  const Cache whole(0, layer_heads);
  const kvevict::Selection alone =
      kvevict::evict(res, kvevict::KNorm{}, whole.view(), {}, budget, protect, allocator);

  const Cache part(first, count);
  allocator.ranks = {.sum = sum_over_processes,
                     .context = &communicator,
                     .first_head = first,
                     .heads = count,
                     .layer_heads = layer_heads};
  if constexpr (requires { allocator.heads_per_layer; }) allocator.heads_per_layer = count;
  const kvevict::Selection kept =
      kvevict::evict(res, kvevict::KNorm{}, part.view(), {}, budget, protect, allocator);

  std::int64_t numbers[2] = {0, kept.total()};  // heads that differ, rows kept
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    const auto mine = kept.head(h);
    const auto same = alone.head(h / count * layer_heads + first + h % count);
    if (!std::equal(mine.begin(), mine.end(), same.begin(), same.end())) ++numbers[0];
  }
  sum_over_processes(&communicator, numbers, 2);
  if (first == 0) {
    std::printf("%-8s %lld rows in all processes, %lld in one alone, %lld of %lld heads differ\n",
                name, static_cast<long long>(numbers[1]), static_cast<long long>(alone.total()),
                static_cast<long long>(numbers[0]), static_cast<long long>(layers * layer_heads));
  }
  return numbers[0] == 0 && numbers[1] == alone.total();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm communicator = MPI_COMM_WORLD;
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &size);
  if (size > layer_heads) {
    if (rank == 0) std::fprintf(stderr, "mpi_budget: at most %d processes\n", int{layer_heads});
    MPI_Finalize();
    return 2;
  }
  const std::int64_t first = layer_heads * rank / size;
  const std::int64_t count = layer_heads * (rank + 1) / size - first;
  const bool global = same_as_alone("global", first, count, communicator,
                                    kvevict::GlobalBudget{.allow_incomparable = true});
  const bool adaptive = same_as_alone(
      "adaptive", first, count, communicator,
      kvevict::AdaptiveBudget{.heads_per_layer = layer_heads, .allow_incomparable = true});
  MPI_Finalize();
  return global && adaptive ? 0 : 1;
}
