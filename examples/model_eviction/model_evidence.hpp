// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <kvevict/cpu/resources.hpp>
#include <kvevict/math/rope.hpp>
#include <kvevict/output_projection.hpp>

#include "mini_llama/model.hpp"

namespace demo {

/// RoPE as the engine applies it. Refers to the model.
kvevict::Rope rope_of(const mini_llama::Model& model);

/// Factors of the model's output projections, all layers.
kvevict::ProjectionFactors projection_of(kvevict::CpuResources& res,
                                         const mini_llama::Model& model);

/// The output projections themselves, for sizes |W_O v|_1, all layers.
class WholeProjection {
 public:
  explicit WholeProjection(const mini_llama::Model& model);

  /// [layer * query_head][hidden][dim]; refers to this object.
  kvevict::OutputProjection<> view() const;

 private:
  std::int64_t heads_;
  std::int64_t hidden_ = 0;
  std::int64_t dim_;
  std::vector<float> numbers_;
};

}  // namespace demo
