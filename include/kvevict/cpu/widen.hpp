// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/element.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace kvevict::cpu {

/// `count` adjacent numbers as floats. The loop is vectorised; in vectors bfloat16 is a shift.
template <class T>
void widen(const T* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

#if defined(__F16C__)
/// By the instruction for it where there is one: moving the fields of a half into place takes ten.
/// The same numbers; of a NaN, the quiet one with its payload.
inline void widen(const half* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(halves));
  }
#endif
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
#endif

}  // namespace kvevict::cpu
