// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "policies/test_policies.hpp"
#include "reference/types.hpp"
#include "support/golden.hpp"

namespace kvevict_test {

// Keys and values of the reference's inputs as the library reads them: packed, heads one after
// another, elements of type T (rounded to it; narrowing is the caller's affair).
template <class T>
struct PackedCache {
  std::vector<T> keys;
  std::vector<T> values;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> positions;  // empty: 0, 1, 2, ... in every head
  std::int64_t key_dim = 1;
  std::int64_t value_dim = 1;

  explicit PackedCache(const reference::Inputs& inputs);

  kvevict::RowLayout<> layout() const {
    return kvevict::RowLayout<>::ragged(offsets.data(),
                                        static_cast<std::int64_t>(offsets.size()) - 1);
  }
  kvevict::KvView<const T> view() const {
    const auto rows = kvevict::RowsView<const T>::packed(keys.data(), layout(), key_dim, key_dim);
    const auto value_rows =
        kvevict::RowsView<const T>::packed(values.data(), layout(), value_dim, value_dim);
    return kvevict::KvView<const T>(rows, value_rows,
                                    positions.empty()
                                        ? kvevict::Positions<>::consecutive()
                                        : kvevict::Positions<>::packed(positions.data()));
  }
};

extern template struct PackedCache<float>;
extern template struct PackedCache<kvevict::half>;
extern template struct PackedCache<kvevict::bfloat16>;

// The evidence among the reference's inputs as the library reads it. Owns what the views refer to.
class PolicyEvidence {
 public:
  explicit PolicyEvidence(const reference::Inputs& inputs);
  PolicyEvidence(const PolicyEvidence&) = delete;
  PolicyEvidence& operator=(const PolicyEvidence&) = delete;

  // Everything that the inputs hold, without attention mass.
  const kvevict::Evidence<>& view() const { return evidence_; }

  // The same with the mass that this H2O accumulates over all queries of the inputs (read as keys
  // of type float).
  kvevict::Evidence<> with_mass(const kvevict::H2O& policy, const PackedCache<float>& cache);

  // What a policy may need: with mass for those that ask for it.
  kvevict::Evidence<> for_policy(const TestPolicy& policy, const PackedCache<float>& cache);

  // Every number that the views refer to, but for the mass; and the mass of the last call.
  std::vector<float> all_values() const;
  const std::vector<float>& mass() const { return mass_; }

 private:
  std::vector<float> queries_;
  std::vector<std::int32_t> query_positions_;
  std::vector<float> mean_;
  std::vector<float> diagonal_;
  std::vector<float> covariance_;
  std::vector<float> probes_;
  std::vector<std::int32_t> probe_positions_;
  std::vector<float> factors_;
  std::vector<float> query_filter_;
  std::vector<float> keys_before_rope_;
  std::vector<std::int64_t> row_offsets_;
  std::vector<float> mass_;
  kvevict::Evidence<> evidence_;
};

// The factors of an output projection [hidden][heads * dim], [head][dim][dim].
std::vector<float> projection_factors(const std::vector<float>& w_o, std::int64_t hidden,
                                      std::int64_t heads, std::int64_t dim);

// A policy by name with parameters as text.
TestPolicy make_policy(const std::string& name, const Pairs& parameters = {});

// The library's scores of all rows, packed like the cache, with float elements and one thread.
std::vector<float> library_scores(const TestPolicy& policy, const reference::Inputs& inputs);

// Head by head, for comparison with the reference's.
std::vector<std::vector<float>> split_scores(const std::vector<float>& packed,
                                             const reference::Inputs& inputs);

}  // namespace kvevict_test
