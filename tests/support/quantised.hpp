// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kvevict/core/row_layout.hpp"
#include "kvevict/core/storage.hpp"

namespace kvevict_test {

// The nearest of a format's numbers, block by block.
inline float largest_of(const float* values) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

inline void quantise(const float* values, kvevict::q8_0& block) {
  block.scale = kvevict::half(largest_of(values) / 127);
  const float scale = block.scale;
  for (int i = 0; i < 32; ++i) {
    const float n = scale == 0 ? 0 : std::round(values[i] / scale);
    block.values[i] = static_cast<std::int8_t>(std::clamp(n, -127.0f, 127.0f));
  }
}

inline void quantise(const float* values, kvevict::q4_0& block) {
  block.scale = kvevict::half(largest_of(values) / -8);
  const float scale = block.scale;
  for (int i = 0; i < 32; ++i) {
    const float n = scale == 0 ? 8 : std::round(values[i] / scale) + 8;
    const auto code = static_cast<unsigned>(std::clamp(n, 0.0f, 15.0f));
    auto& pair = block.pairs[i % 16];
    pair = static_cast<std::uint8_t>(i < 16 ? code : (pair | code << 4));
  }
}

template <kvevict::ScaledElement T>
T nearest(float value) {
  T best{};
  for (int bits = 0; bits < 256; ++bits) {
    const T candidate{static_cast<std::uint8_t>(bits)};
    const auto error = [&](T number) { return std::abs(static_cast<float>(number) - value); };
    if (error(candidate) < error(best)) best = candidate;
  }
  return best;
}

enum class Scaling { by_head, by_row };

// Rows of all heads in a quantised format, packed, and the floats that the format makes of them.
template <class T>
struct QuantisedRows {
  std::int64_t dim = 0;
  Scaling scaling = Scaling::by_head;
  std::vector<T> stored;
  std::vector<float> scales;  // of the heads, or of all rows; none for blocks, which have their own

  // Of floats [sum of rows][dim].
  QuantisedRows(const std::vector<float>& values, const kvevict::RowLayout<>& layout,
                std::int64_t channels, Scaling by = Scaling::by_head)
      : dim(channels), scaling(by) {
    if constexpr (kvevict::BlockStorage<T>) {
      stored.resize(values.size() / 32);
      for (std::size_t b = 0; b < stored.size(); ++b) quantise(&values[32 * b], stored[b]);
    } else {
      for (std::int64_t h = 0; h < layout.heads(); ++h) {
        if (by == Scaling::by_head) scales.push_back(0.25f / static_cast<float>(3 * h + 1));
        for (std::int64_t i = 0; i < layout.rows(h); ++i) {
          const auto at = values.begin() + (layout.offset(h) + i) * dim;
          if (by == Scaling::by_row) {
            // The largest channel becomes 192, which both formats have room for.
            float largest = 0.0f;
            for (std::int64_t c = 0; c < dim; ++c) largest = std::max(largest, std::abs(at[c]));
            scales.push_back(largest > 0.0f ? largest / 192.0f : 1.0f);
          }
          for (std::int64_t c = 0; c < dim; ++c)
            stored.push_back(nearest<T>(at[c] / scales.back()));
        }
      }
    }
  }

  std::int64_t units() const { return dim / kvevict::channels_of<T>; }

  std::vector<T> head(const kvevict::RowLayout<>& layout, std::int64_t h) const {
    const auto first = stored.begin() + layout.offset(h) * units();
    return {first, first + layout.rows(h) * units()};
  }

  // What is stored, as floats [sum of rows][dim].
  std::vector<float> numbers(const kvevict::RowLayout<>& layout) const {
    std::vector<float> out;
    for (std::int64_t h = 0; h < layout.heads(); ++h) {
      const std::vector<T> of_head = head(layout, h);
      for (std::size_t u = 0; u < of_head.size(); ++u) {
        const float scale = scale_of(layout, h, static_cast<std::int64_t>(u) / units());
        for (std::int64_t c = 0; c < kvevict::channels_of<T>; ++c) {
          out.push_back(scale * kvevict::channel_of(&of_head[u], c, 1));
        }
      }
    }
    return out;
  }

  float scale_of(const kvevict::RowLayout<>& layout, std::int64_t h, std::int64_t i) const {
    if (scales.empty()) return 1.0f;
    return scales[static_cast<std::size_t>(scaling == Scaling::by_row ? layout.offset(h) + i : h)];
  }
  // Of the rows of a head, if each has its own.
  std::vector<float> scales_of(const kvevict::RowLayout<>& layout, std::int64_t h) const {
    const auto first = scales.begin() + layout.offset(h);
    return {first, first + layout.rows(h)};
  }

  // A view of these rows, with the scales of the heads.
  template <class View>
  View scaled(const View& view) const {
    if constexpr (kvevict::ScaledElement<T>) return view.with_scales(scales.data());
    return view;
  }
};

}  // namespace kvevict_test
