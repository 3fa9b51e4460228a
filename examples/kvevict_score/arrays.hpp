// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/queries.hpp"
#include "npy.hpp"

namespace kvevict_score {

/// Throws FileError unless the array has as many axes as `axes` names, the last of them not empty.
inline void require_axes(const FloatArray& array, std::size_t rank, std::string_view axes) {
  if (array.shape.size() != rank || array.shape.back() < 1 || array.shape.front() < 1) {
    throw FileError(array.file,
                    "has the shape " + shape_text(array.shape) + ", must be " + std::string(axes));
  }
}

/// Throws FileError unless `found` equals `expected`, which comes from another file.
inline void require_same(const FloatArray& array, std::string_view what, std::int64_t found,
                         std::int64_t expected, const std::string& other) {
  if (found != expected) {
    throw FileError(array.file, "has " + std::to_string(found) + " " + std::string(what) +
                                    ", must be as in " + other + ", " + std::to_string(expected));
  }
}

/// Keys and values of all heads: [kv_head][row][dim] each, of one element type.
struct CacheArrays {
  FloatArray keys;
  FloatArray values;

  std::int64_t heads() const { return keys.shape[0]; }
  std::int64_t rows() const { return keys.shape[1]; }
};

inline CacheArrays read_cache(const std::string& keys, const std::string& values) {
  CacheArrays cache{read_npy(keys), read_npy(values)};
  require_axes(cache.keys, 3, "[kv_head, row, dim] with at least one head and channel");
  require_axes(cache.values, 3, "[kv_head, row, dim] with at least one head and channel");
  require_same(cache.values, "heads", cache.values.shape[0], cache.heads(), keys);
  require_same(cache.values, "rows", cache.values.shape[1], cache.rows(), keys);
  if (cache.keys.is_half() != cache.values.is_half()) {
    throw FileError(values, std::string("holds ") +
                                (cache.values.is_half() ? "float16" : "float32") +
                                ", must be of the type of " + keys);
  }
  return cache;
}

/// The library's view of the arrays, which hold elements of T.
template <class T>
kvevict::KvView<const T> view_of(const CacheArrays& cache) {
  const auto rows_of = [](const FloatArray& array) {
    const std::vector<std::int64_t>& shape = array.shape;
    return kvevict::RowsView<const T>::strided(std::get<std::vector<T>>(array.values).data(),
                                               shape[0], shape[1], shape[2], shape[1] * shape[2],
                                               shape[2]);
  };
  return {rows_of(cache.keys), rows_of(cache.values)};
}

/// Reads queries [query_head][token][dim] that fit the cache.
inline FloatArray read_queries(const std::string& file, const CacheArrays& cache) {
  FloatArray queries = read_npy(file);
  require_axes(queries, 3, "[query_head, token, dim] with at least one head and channel");
  require_same(queries, "channels", queries.shape[2], cache.keys.shape[2], cache.keys.file);
  if (queries.shape[0] % cache.heads() != 0) {
    throw FileError(file, "has " + std::to_string(queries.shape[0]) +
                              " query heads, must be a multiple of the KV heads of " +
                              cache.keys.file + ", " + std::to_string(cache.heads()));
  }
  return queries;
}

inline kvevict::QueriesView<> queries_of(const FloatArray& array) {
  return std::visit(
      [&](const auto& values) {
        return kvevict::QueriesView<>::packed(values.data(), array.shape[0], array.shape[1],
                                              array.shape[2]);
      },
      array.values);
}

}  // namespace kvevict_score
