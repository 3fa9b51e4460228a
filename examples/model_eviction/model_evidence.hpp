// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace demo
