// SPDX-License-Identifier: Apache-2.0
#include "weight_loader.hpp"

#include <algorithm>

#include "dequantize.hpp"
#include "error.hpp"

namespace mini_llama {
namespace {

constexpr Index rows_per_task = 64;

}  // namespace

Matrix WeightLoader::matrix(const std::string& name, Index rows, Index columns) {
  const TensorInfo& tensor = take(name, columns, rows);
  Matrix weights(rows, columns);
  const std::size_t row_bytes = tensor.data.size() / to_size(rows);
  pool_.parallel_for((rows + rows_per_task - 1) / rows_per_task, [&](std::int64_t task, int) {
    const Index begin = task * rows_per_task;
    const auto count = to_size(std::min(rows_per_task, rows - begin));
    dequantize(tensor.type, tensor.data.subspan(to_size(begin) * row_bytes, count * row_bytes),
               {weights.row(begin).data(), count * to_size(columns)});
  });
  return weights;
}

Vector WeightLoader::vector(const std::string& name, Index size) {
  const TensorInfo& tensor = take(name, size, 1);
  Vector weights(size);
  dequantize(tensor.type, tensor.data, {weights.data(), to_size(size)});
  return weights;
}

void WeightLoader::require_all_taken() const {
  for (const auto& [name, tensor] : file_.tensors()) {
    if (!taken_.contains(name)) {
      throw FileError(concat(file_.name(), ": tensor '", name,
                             "' belongs to no part of the llama architecture that is supported"));
    }
  }
}

const TensorInfo& WeightLoader::take(const std::string& name, Index columns, Index rows) {
  const TensorInfo& tensor = file_.tensor(name);
  const auto& shape = tensor.shape;
  if (shape[0] != to_size(columns) || shape[1] != to_size(rows) || shape[2] != 1 || shape[3] != 1) {
    throw FileError(concat(file_.name(), ": tensor '", name, "' has shape [", shape[0], ", ",
                           shape[1], ", ", shape[2], ", ", shape[3], "], expected [", columns, ", ",
                           rows, ", 1, 1]"));
  }
  taken_.insert(name);
  return tensor;
}

}  // namespace mini_llama
