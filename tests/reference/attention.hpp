// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

// k_i . q / (temperature sqrt(d)) for every row i of keys.
std::vector<double> logits(const double* query, const Matrix& keys, double temperature);

// Softmax weights [query, row] over all rows.
Matrix attention(const Matrix& queries, const Matrix& keys, double temperature = 1);

// Softmax weights [query, row] over the rows at the query's position and below; a query that sees
// no row has weights 0.
Matrix causal_attention(const Matrix& queries, const Positions& query_positions, const Matrix& keys,
                        const Positions& row_positions, double temperature = 1);

enum class Pooling { average, max };

// Centred pooling along rows with stride 1 and an odd kernel. The average divides by the kernel's
// full width (rows beyond the ends count as zeros), or by the rows it really covers; the maximum is
// over the rows it covers. Throws std::invalid_argument on an even kernel.
std::vector<double> pool(const std::vector<double>& values, std::size_t kernel, Pooling pooling,
                         bool count_padding);

enum class ProbeStatistic { mean, rms, max };

// Attention weights of the probes of one query head: masked when probe positions are given.
Matrix probe_weights(const Inputs& inputs, std::size_t query_head, double temperature = 1);

}  // namespace kvevict_test::reference
