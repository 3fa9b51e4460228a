// SPDX-License-Identifier: Apache-2.0
#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

// Mathematical functions, which nvcc makes of many instructions, and the device's fast ones.
#define PTX_TEST_FUNCTION(name, T, device, host)           \
  struct name {                                            \
    __device__ static T on_device(T x) { return device; }  \
    static T on_host(T x) { return static_cast<T>(host); } \
  };
PTX_TEST_FUNCTION(Exponential, float, expf(x), std::exp(double{x}))
PTX_TEST_FUNCTION(Logarithm, float, logf(x), std::log(double{x}))
PTX_TEST_FUNCTION(Logarithm1, float, log1pf(x), std::log1p(double{x}))
PTX_TEST_FUNCTION(ExponentialMinus1, float, expm1f(x), std::expm1(double{x}))
PTX_TEST_FUNCTION(Sine, float, sinf(x), std::sin(double{x}))
PTX_TEST_FUNCTION(Cosine, float, cosf(x), std::cos(double{x}))
PTX_TEST_FUNCTION(Tangent, float, tanhf(x), std::tanh(double{x}))
PTX_TEST_FUNCTION(Power, float, powf(fabsf(x), 1.7f), std::pow(std::fabs(double{x}), double{1.7f}))
PTX_TEST_FUNCTION(ErrorFunction, float, erff(x), std::erf(double{x}))
PTX_TEST_FUNCTION(InverseRoot, float, rsqrtf(x), 1 / std::sqrt(double{x}))
PTX_TEST_FUNCTION(PowerOfTwo, float, exp2f(x), std::exp2(double{x}))
PTX_TEST_FUNCTION(ExponentialDouble, double, exp(x), std::exp(x))
PTX_TEST_FUNCTION(LogarithmDouble, double, log(x), std::log(x))
PTX_TEST_FUNCTION(SineDouble, double, sin(x), std::sin(x))
PTX_TEST_FUNCTION(PowerDouble, double, pow(fabs(x), 1.7), std::pow(std::fabs(x), 1.7))
PTX_TEST_FUNCTION(InverseRootDouble, double, rsqrt(x), 1 / std::sqrt(x))
PTX_TEST_FUNCTION(FastLogarithm, float, __log2f(x), std::log2(double{x}))
PTX_TEST_FUNCTION(FastSine, float, __sinf(x), std::sin(double{x}))
PTX_TEST_FUNCTION(FastCosine, float, __cosf(x), std::cos(double{x}))
#undef PTX_TEST_FUNCTION

struct FastExponential {
  // nvcc multiplies with a rounded log2(e): the error grows with the argument.
  __device__ static float on_device(float x) { return __expf(fminf(fmaxf(x, -8.0f), 8.0f)); }
  static float on_host(float x) {
    return static_cast<float>(std::exp(double{std::fmin(std::fmax(x, -8.0f), 8.0f)}));
  }
};
struct FastQuotient {
  __device__ static float on_device(float a, float b) {
    return __fdividef(a, fminf(fmaxf(b, -1e30f), 1e30f));
  }
  static float on_host(float a, float b) {
    return static_cast<float>(double{a} / std::fmin(std::fmax(b, -1e30f), 1e30f));
  }
};
struct FastTangent {
  __device__ static float on_device(float x) {
    float result = 0;
    asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
  }
  static float on_host(float x) { return static_cast<float>(std::tanh(double{x})); }
};
/// Gross approximations of double precision: the lower half of the result is zero.
struct Gross {
  __device__ static double on_device(double x) {
    double inverse = 0;
    double root = 0;
    asm("rcp.approx.ftz.f64 %0, %2; rsqrt.approx.ftz.f64 %1, %3;"
        : "=&d"(inverse), "=d"(root)
        : "d"(x), "d"(fabs(x)));
    return (__double2loint(inverse) | __double2loint(root)) == 0 ? inverse * root : -1;
  }
  static double on_host(double x) { return 1 / x / std::sqrt(std::fabs(x)); }
};

}  // namespace

void check_functions(Report& report) {
  // What NVIDIA promises is at most some units in the last place (2^-23, 2^-52) for these.
  constexpr double single = 4.8e-7;  // 4 units
  constexpr double twice = 9e-16;    // 4 units
  constexpr double gross = 1e-5;     // 20 bits each
  check<Exponential, float>(report, "expf", single);
  check<Logarithm, float>(report, "logf", single);
  check<Logarithm1, float>(report, "log1pf", single);
  check<ExponentialMinus1, float>(report, "expm1f", single);
  check<Sine, float>(report, "sinf", single);
  check<Cosine, float>(report, "cosf", single);
  check<Tangent, float>(report, "tanhf", single);
  check<Power, float>(report, "powf", single);
  check<ErrorFunction, float>(report, "erff", single);
  check<InverseRoot, float>(report, "rsqrtf", single);
  check<PowerOfTwo, float>(report, "exp2f", single);
  check<ExponentialDouble, double>(report, "exp", twice);
  check<LogarithmDouble, double>(report, "log", twice);
  check<SineDouble, double>(report, "sin", twice);
  check<PowerDouble, double>(report, "pow", twice);
  check<InverseRootDouble, double>(report, "rsqrt", twice);
  check<FastLogarithm, float>(report, "lg2.approx", single);
  check<FastSine, float>(report, "sin.approx", single);
  check<FastCosine, float>(report, "cos.approx", single);
  check<FastExponential, float>(report, "__expf", 4 * single);
  check<FastQuotient, float, float>(report, "div.approx", single);
  check<FastTangent, float>(report, "tanh.approx", single);
  check<Gross, double>(report, "rcp, rsqrt.approx.ftz.f64", gross);
}

}  // namespace ptx_test
