// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ptx_test {

enum class Round { nearest, zero, down, up };

// Arithmetic of the host's CPU in a rounding mode.
template <class T>
T rounded_sum(T a, T b, Round mode);
template <class T>
T rounded_product(T a, T b, Round mode);
template <class T>
T rounded_quotient(T a, T b, Round mode);
template <class T>
T rounded_root(T a, Round mode);
template <class T>
T rounded_fma(T a, T b, T c, Round mode);
template <class To, class From>
To rounded_conversion(From a, Round mode);

}  // namespace ptx_test
