// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "gguf.hpp"
#include "matrix.hpp"
#include "thread_pool.hpp"

namespace mini_llama {

// Takes tensors out of a file by name and expected shape, decodes them to fp32 and remembers which
// were taken.
class WeightLoader {
 public:
  WeightLoader(const GgufFile& file, ThreadPool& pool) : file_(file), pool_(pool) {}

  bool contains(std::string_view name) const {
    return file_.tensors().find(name) != file_.tensors().end();
  }

  // Throw FileError if the tensor is missing or its shape is another.
  Matrix matrix(const std::string& name, Index rows, Index columns);
  Vector vector(const std::string& name, Index size);

  // Throws FileError if a tensor was not taken: the model has a part that this engine would ignore.
  void require_all_taken() const;

 private:
  const TensorInfo& take(const std::string& name, Index columns, Index rows);

  const GgufFile& file_;
  ThreadPool& pool_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace mini_llama
