// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kvevict/query_stats.hpp"
#include "policies/test_policies.hpp"
#include "support/backend.hpp"
#include "support/golden.hpp"

namespace kvevict_test {

// One case of the reference data as an engine would hand it to the library: caches of float and of
// half, queries before and after RoPE, the output projection. Evidence is made with the library.
class GoldenCase {
 public:
  static constexpr std::int64_t kv_heads = 3;
  static constexpr std::int64_t query_heads = 9;
  static constexpr std::int64_t rows = 256;
  static constexpr std::int64_t dim = 64;

  explicit GoldenCase(const std::string& name);
  GoldenCase(const GoldenCase&) = delete;
  GoldenCase& operator=(const GoldenCase&) = delete;

  kvevict::KvView<const float> cache() const {
    return kvevict::KvView<const float>::hnd(keys_.data(), values_.data(), kv_heads, rows, dim);
  }
  // The numbers are stored as binary16: the same cache, bit for bit.
  kvevict::KvView<const kvevict::half> half_cache() const {
    return kvevict::KvView<const kvevict::half>::hnd(half_keys_.data(), half_values_.data(),
                                                     kv_heads, rows, dim);
  }
  kvevict::QueriesView<> queries_before_rope() const { return view(queries_before_rope_); }
  kvevict::QueriesView<> queries_after_rope() const { return view(queries_after_rope_); }
  kvevict::RowsView<const kvevict::half> keys_before_rope() const {
    return kvevict::RowsView<const kvevict::half>::strided(keys_before_rope_.data(), kv_heads, rows,
                                                           dim, rows * dim, dim);
  }
  kvevict::ProbeQueries<> probes() const;

  // The evidence that the line of an entry names, made from the queries. Lives as long as the case.
  kvevict::Evidence<> evidence(const GoldenEntry& entry);

  // The statistics that the evidence of an entry names.
  kvevict::QueryStats& stats(const Pairs& evidence, kvevict::Covariance covariance);

 private:
  static kvevict::QueriesView<> view(const std::vector<float>& queries) {
    return kvevict::QueriesView<>::packed(queries.data(), query_heads, rows, dim);
  }
  kvevict::AttentionMass<> mass(const Pairs& parameters);

  TestResources res_{{.threads = 1}};
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<kvevict::half> half_keys_;
  std::vector<kvevict::half> half_values_;
  std::vector<float> queries_before_rope_;
  std::vector<float> queries_after_rope_;
  std::vector<float> probes_;
  std::vector<float> query_filter_;
  std::vector<kvevict::half> keys_before_rope_;
  std::vector<std::int32_t> probe_positions_;
  std::vector<float> factors_;
  std::map<std::pair<Pairs, kvevict::Covariance>, kvevict::QueryStats> stats_;
  std::map<Pairs, std::vector<float>> masses_;
};

// The case of an entry; every case is read once.
GoldenCase& golden_case(const GoldenEntry& entry);

// The rotation that an entry's evidence names.
kvevict::Rope golden_rope(const Pairs& evidence);

// The policy of an entry with its parameters.
TestPolicy golden_policy(const GoldenEntry& entry);

}  // namespace kvevict_test
