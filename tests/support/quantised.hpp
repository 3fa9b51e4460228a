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

// Rows of all heads in a quantised format, packed, and the floats that the format makes of them.
template <class T>
struct QuantisedRows {
  std::int64_t dim = 0;
  std::vector<T> stored;
  std::vector<float> scales;  // of the heads; none for blocks, which have their own

  // Of floats [sum of rows][dim].
  QuantisedRows(const std::vector<float>& values, const kvevict::RowLayout<>& layout,
                std::int64_t channels)
      : dim(channels) {
    if constexpr (kvevict::BlockStorage<T>) {
      stored.resize(values.size() / 32);
      for (std::size_t b = 0; b < stored.size(); ++b) quantise(&values[32 * b], stored[b]);
    } else {
      for (std::int64_t h = 0; h < layout.heads(); ++h) {
        scales.push_back(0.25f / static_cast<float>(3 * h + 1));
        for (std::int64_t i = 0; i < layout.rows(h) * dim; ++i) {
          const auto at = static_cast<std::size_t>(layout.offset(h) * dim + i);
          stored.push_back(nearest<T>(values[at] / scales.back()));
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
      const float scale = scales.empty() ? 1.0f : scales[static_cast<std::size_t>(h)];
      for (const T& unit : head(layout, h)) {
        for (std::int64_t c = 0; c < kvevict::channels_of<T>; ++c) {
          out.push_back(scale * kvevict::channel_of(&unit, c, 1));
        }
      }
    }
    return out;
  }

  // A view of these rows, with the scales.
  template <class View>
  View scaled(const View& view) const {
    if constexpr (kvevict::ScaledElement<T>) return view.with_scales(scales.data());
    return view;
  }
};

}  // namespace kvevict_test
