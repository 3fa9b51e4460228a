// SPDX-License-Identifier: Apache-2.0
// The fast functions that glibc's <math.h> declares and does not export.
#include <cmath>

extern "C" {

float __expf(float value) noexcept { return std::exp(value); }
float __exp2f(float value) noexcept { return std::exp2(value); }
float __exp10f(float value) noexcept { return std::pow(10.0f, value); }
float __logf(float value) noexcept { return std::log(value); }
float __log2f(float value) noexcept { return std::log2(value); }
float __log10f(float value) noexcept { return std::log10(value); }
float __sinf(float value) noexcept { return std::sin(value); }
float __cosf(float value) noexcept { return std::cos(value); }
float __tanf(float value) noexcept { return std::tan(value); }
float __powf(float base, float exponent) noexcept { return std::pow(base, exponent); }

}  // extern "C"
