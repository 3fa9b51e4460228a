// SPDX-License-Identifier: Apache-2.0
#include "self_test_operations.cuh"
#include "self_test_rounding.hpp"

namespace ptx_test {
namespace {

// The device's functions that round in a given way, by type.
#define PTX_TEST_ROUNDED(suffix)                                                                   \
  __device__ inline float sum_##suffix(float a, float b) { return __fadd_##suffix(a, b); }         \
  __device__ inline double sum_##suffix(double a, double b) { return __dadd_##suffix(a, b); }      \
  __device__ inline float product_##suffix(float a, float b) { return __fmul_##suffix(a, b); }     \
  __device__ inline double product_##suffix(double a, double b) { return __dmul_##suffix(a, b); }  \
  __device__ inline float quotient_##suffix(float a, float b) { return __fdiv_##suffix(a, b); }    \
  __device__ inline double quotient_##suffix(double a, double b) { return __ddiv_##suffix(a, b); } \
  __device__ inline float root_##suffix(float a) { return __fsqrt_##suffix(a); }                   \
  __device__ inline double root_##suffix(double a) { return __dsqrt_##suffix(a); }                 \
  __device__ inline float inverse_##suffix(float a) { return __frcp_##suffix(a); }                 \
  __device__ inline double inverse_##suffix(double a) { return __drcp_##suffix(a); }               \
  __device__ inline float fused_##suffix(float a, float b, float c) {                              \
    return __fmaf_##suffix(a, b, c);                                                               \
  }                                                                                                \
  __device__ inline double fused_##suffix(double a, double b, double c) {                          \
    return __fma_##suffix(a, b, c);                                                                \
  }
PTX_TEST_ROUNDED(rn)
PTX_TEST_ROUNDED(rz)
PTX_TEST_ROUNDED(rd)
PTX_TEST_ROUNDED(ru)
#undef PTX_TEST_ROUNDED

#define PTX_TEST_IN_MODE(name, ...)                     \
  return mode == Round::zero   ? name##_rz(__VA_ARGS__) \
         : mode == Round::down ? name##_rd(__VA_ARGS__) \
         : mode == Round::up   ? name##_ru(__VA_ARGS__) \
                               : name##_rn(__VA_ARGS__)

template <class T, Round mode>
struct Sum {
  __device__ static T on_device(T a, T b) { PTX_TEST_IN_MODE(sum, a, b); }
  static T on_host(T a, T b) { return rounded_sum(a, b, mode); }
};
template <class T, Round mode>
struct Product {
  __device__ static T on_device(T a, T b) { PTX_TEST_IN_MODE(product, a, b); }
  static T on_host(T a, T b) { return rounded_product(a, b, mode); }
};
template <class T, Round mode>
struct Quotient {
  __device__ static T on_device(T a, T b) { PTX_TEST_IN_MODE(quotient, a, b); }
  static T on_host(T a, T b) { return rounded_quotient(a, b, mode); }
};
template <class T, Round mode>
struct Root {
  __device__ static T on_device(T a) { PTX_TEST_IN_MODE(root, a); }
  static T on_host(T a) { return rounded_root(a, mode); }
};
template <class T, Round mode>
struct Inverse {
  __device__ static T on_device(T a) { PTX_TEST_IN_MODE(inverse, a); }
  static T on_host(T a) { return rounded_quotient(T{1}, a, mode); }
};
template <class T, Round mode>
struct Fused {
  __device__ static T on_device(T a, T b, T c) { PTX_TEST_IN_MODE(fused, a, b, c); }
  static T on_host(T a, T b, T c) { return rounded_fma(a, b, c, mode); }
};
#undef PTX_TEST_IN_MODE

template <class T>
struct Comparisons {
  __host__ __device__ static int both(T a, T b) {
    return (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > b) + 32 * (a >= b) +
           64 * !(a < b) + 128 * !(a >= b) + 256 * (a != a) + 512 * (a < b && b < 3) +
           1024 * (a < b || b > 3) + 2048 * ((a < b) != (b > 3));
  }
  __device__ static int on_device(T a, T b) { return both(a, b); }
  static int on_host(T a, T b) { return both(a, b); }
};

template <class T>
struct Classes {
  __device__ static int on_device(T a) {
    return isnan(a) + 2 * isinf(a) + 4 * isfinite(a) + 8 * (signbit(a) != 0);
  }
  static int on_host(T a) {
    return std::isnan(a) + 2 * std::isinf(a) + 4 * std::isfinite(a) + 8 * std::signbit(a);
  }
};

/// -0 is less than +0, and of a NaN and a number the number is taken.
template <class T, bool largest>
struct Extreme {
  __device__ static T on_device(T a, T b) { return largest ? fmax(a, b) : fmin(a, b); }
  static T on_host(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    const bool first = a == b ? std::signbit(a) : a < b;
    return first != largest ? a : b;
  }
};

template <class T>
struct Signs {
  __device__ static T on_device(T a, T b) { return copysign(-a, b) + fabs(a) * T{4}; }
  static T on_host(T a, T b) { return std::copysign(-a, b) + std::fabs(a) * T{4}; }
};

template <class T>
struct ToIntegral {
  __device__ static T on_device(T a) {
    return floor(a) + T{8} * ceil(a) + T{64} * trunc(a) + T{512} * rint(a);
  }
  static T on_host(T a) {
    const T sum = std::floor(a) + T{8} * std::ceil(a);
    return sum + T{64} * std::trunc(a) + T{512} * std::rint(a);
  }
};

/// Subnormal operands and results are zeros.
struct Flushed {
  __device__ static float on_device(float a, float b) {
    float sum = 0;
    float product = 0;
    asm("add.ftz.f32 %0, %2, %3; mul.ftz.f32 %1, %2, %3;"
        : "=&f"(sum), "=f"(product)
        : "f"(a), "f"(b));
    return fabsf(sum) < 1e-37f ? sum : product;
  }
  static float on_host(float a, float b) {
    const auto flush = [](float x) {
      return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
    };
    const float sum = flush(flush(a) + flush(b));
    return std::fabs(sum) < 1e-37f ? sum : flush(flush(a) * flush(b));
  }
};

/// min.NaN and max.NaN (compute capability 8.0): a NaN makes the result one.
struct ExtremesOfNan {
  __device__ static float on_device(float a, float b) {
    float low = fminf(a, b);
    float high = fmaxf(a, b);
#if __CUDA_ARCH__ >= 800
    asm("min.NaN.f32 %0, %2, %3; max.NaN.f32 %1, %2, %3;"
        : "=&f"(low), "=f"(high)
        : "f"(a), "f"(b));
#else
    if (a != a || b != b) low = a + b;
#endif
    return low - 2 * high;
  }
  static float on_host(float a, float b) {
    if (a != a || b != b) return a + b;
    return Extreme<float, false>::on_host(a, b) - 2 * Extreme<float, true>::on_host(a, b);
  }
};

/// .sat clamps to [0, 1] and makes zero of NaN; min.NaN keeps NaN.
struct Special {
  __device__ static float on_device(float a, float b) {
    float clamped = 0;
    asm("add.sat.f32 %0, %1, %2;" : "=f"(clamped) : "f"(a), "f"(b));
    float chosen = 0;
    asm("slct.f32.f32 %0, %1, %2, %1;" : "=f"(chosen) : "f"(a), "f"(b));
    float truth = 0;
    asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(truth) : "f"(a), "f"(b));
    return clamped + truth * 4 + (chosen > 0 ? 16 : 0) + (__saturatef(a) > 0.3f ? 32 : 0);
  }
  static float on_host(float a, float b) {
    const auto clamp = [](float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; };
    const float chosen = a >= 0 ? a : b;
    return clamp(a + b) + (a > b ? 4.0f : 0.0f) + (chosen > 0 ? 16 : 0) +
           (clamp(a) > 0.3f ? 32 : 0);
  }
};

template <class T, Round mode>
void check_rounding(Report& report, const std::string& name) {
  check<Sum<T, mode>, T, T>(report, ("add" + name).c_str());
  check<Product<T, mode>, T, T>(report, ("mul" + name).c_str());
  check<Quotient<T, mode>, T, T>(report, ("div" + name).c_str());
  check<Root<T, mode>, T>(report, ("sqrt" + name).c_str());
  check<Inverse<T, mode>, T>(report, ("rcp" + name).c_str());
  check<Fused<T, mode>, T, T, T>(report, ("fma" + name).c_str());
}

template <class T>
void check_type(Report& report, const std::string& name) {
  check_rounding<T, Round::nearest>(report, ".rn." + name);
  check_rounding<T, Round::zero>(report, ".rz." + name);
  check_rounding<T, Round::down>(report, ".rm." + name);
  check_rounding<T, Round::up>(report, ".rp." + name);
  check<Comparisons<T>, T, T>(report, ("comparisons " + name).c_str());
  check<Classes<T>, T>(report, ("classes " + name).c_str());
  check<Extreme<T, false>, T, T>(report, ("min " + name).c_str());
  check<Extreme<T, true>, T, T>(report, ("max " + name).c_str());
  check<Signs<T>, T, T>(report, ("signs " + name).c_str());
  check<ToIntegral<T>, T>(report, ("floor, ceil, trunc, rint " + name).c_str());
}

}  // namespace

void check_floats(Report& report) {
  check_type<float>(report, "f32");
  check_type<double>(report, "f64");
  check<Flushed, float, float>(report, "ftz");
  check<ExtremesOfNan, float, float>(report, "min.NaN, max.NaN");
  check<Special, float, float>(report, "sat, slct, set");
}

}  // namespace ptx_test
