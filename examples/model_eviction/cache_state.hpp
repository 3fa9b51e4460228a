// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <kvevict/core/state_blob.hpp>

#include "mini_llama/ragged_cache.hpp"

namespace demo {

/// fp32 rows, row by row.
void write_matrix(kvevict::StateWriter& to, const mini_llama::ConstMatrixView& rows);

/// The same back. Throws kvevict::Error, which calls their number `name`, for another shape.
mini_llama::Matrix read_matrix(kvevict::StateReader& from, std::string_view name,
                               mini_llama::Index rows, mini_llama::Index dim);

/// Shape, positions, keys and values of a cache, the next position not.
void write_cache(kvevict::StateWriter& to, const mini_llama::RaggedCache& cache);

/// A cache of what was written, which ends at position 0 still. Throws kvevict::Error unless it was
/// of this shape.
mini_llama::RaggedCache read_cache(kvevict::StateReader& from, const mini_llama::CacheShape& shape);

}  // namespace demo
