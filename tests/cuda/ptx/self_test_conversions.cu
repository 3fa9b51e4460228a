// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "self_test_operations.cuh"
#include "self_test_rounding.hpp"

namespace ptx_test {
namespace {

/// An integer as every other type, mixed into one number.
template <class From>
struct Everything {
  template <class To>
  __host__ __device__ static void mix(std::uint64_t& sum, From a) {
    const To value = static_cast<To>(a);
    std::uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    sum = sum * 37 + bits;
  }
  __host__ __device__ static std::uint64_t both(From a) {
    std::uint64_t sum = 0;
    mix<std::int8_t>(sum, a);
    mix<std::uint8_t>(sum, a);
    mix<std::int16_t>(sum, a);
    mix<std::uint16_t>(sum, a);
    mix<int>(sum, a);
    mix<unsigned>(sum, a);
    mix<std::int64_t>(sum, a);
    mix<float>(sum, a);
    mix<double>(sum, a);
    return sum;
  }
  __device__ static std::uint64_t on_device(From a) { return both(a); }
  static std::uint64_t on_host(From a) { return both(a); }
};

/// Saturating, with NaN as the device defines it; C++ leaves both undefined.
template <class To, class From>
To clamped(From value, Round mode) {
  if (value != value) {
    if (sizeof(To) <= 4 && sizeof(From) <= 4) return 0;
    return static_cast<To>(std::uint64_t{1} << (8 * sizeof(To) - 1));
  }
  const long double wide = value;
  const long double integral = mode == Round::zero   ? truncl(wide)
                               : mode == Round::down ? floorl(wide)
                               : mode == Round::up   ? ceill(wide)
                                                     : rintl(wide);
  using Limits = std::numeric_limits<To>;
  if (integral > static_cast<long double>(Limits::max())) return Limits::max();
  if (integral < static_cast<long double>(Limits::min())) return Limits::min();
  return static_cast<To>(integral);
}
#define PTX_TEST_TO_INTEGER(name, To, From, call)              \
  template <Round mode>                                        \
  struct name {                                                \
    __device__ static To on_device(From a) {                   \
      return mode == Round::zero   ? call##_rz(a)              \
             : mode == Round::down ? call##_rd(a)              \
             : mode == Round::up   ? call##_ru(a)              \
                                   : call##_rn(a);               \
    }                                                          \
    static To on_host(From a) { return clamped<To>(a, mode); } \
  };
PTX_TEST_TO_INTEGER(FloatToInt, int, float, __float2int)
PTX_TEST_TO_INTEGER(FloatToUnsigned, unsigned, float, __float2uint)
PTX_TEST_TO_INTEGER(FloatToLong, long long, float, __float2ll)
PTX_TEST_TO_INTEGER(DoubleToInt, int, double, __double2int)
PTX_TEST_TO_INTEGER(DoubleToUnsignedLong, unsigned long long, double, __double2ull)
#undef PTX_TEST_TO_INTEGER

#define PTX_TEST_TO_FLOAT(name, To, From, call)                           \
  template <Round mode>                                                   \
  struct name {                                                           \
    __device__ static To on_device(From a) {                              \
      return mode == Round::zero   ? call##_rz(a)                         \
             : mode == Round::down ? call##_rd(a)                         \
             : mode == Round::up   ? call##_ru(a)                         \
                                   : call##_rn(a);                          \
    }                                                                     \
    static To on_host(From a) { return rounded_conversion<To>(a, mode); } \
  };
PTX_TEST_TO_FLOAT(DoubleToFloat, float, double, __double2float)
PTX_TEST_TO_FLOAT(IntToFloat, float, int, __int2float)
PTX_TEST_TO_FLOAT(LongToFloat, float, std::int64_t, __ll2float)
PTX_TEST_TO_FLOAT(LongToDouble, double, std::int64_t, __ll2double)
#undef PTX_TEST_TO_FLOAT

// The 16-bit formats, as bits; CUDA's headers convert on the host without an instruction.
#define PTX_TEST_HALF(name, raw, call)                                                \
  struct name {                                                                       \
    __host__ __device__ static std::uint16_t both(float a) { return raw(call(a)).x; } \
    __device__ static std::uint16_t on_device(float a) { return both(a); }            \
    static std::uint16_t on_host(float a) { return both(a); }                         \
  };
PTX_TEST_HALF(HalfNearest, __half_raw, __float2half_rn)
PTX_TEST_HALF(HalfZero, __half_raw, __float2half_rz)
PTX_TEST_HALF(HalfDown, __half_raw, __float2half_rd)
PTX_TEST_HALF(HalfUp, __half_raw, __float2half_ru)
PTX_TEST_HALF(BfloatNearest, __nv_bfloat16_raw, __float2bfloat16_rn)
PTX_TEST_HALF(BfloatZero, __nv_bfloat16_raw, __float2bfloat16_rz)
#undef PTX_TEST_HALF

struct HalfPair {
  __host__ __device__ static unsigned both(float a, float b) {
    const __half2 pair = __floats2half2_rn(a, b);
    const __nv_bfloat162 other = __floats2bfloat162_rn(b, a);
    unsigned bits = 0;
    unsigned more = 0;
    memcpy(&bits, &pair, sizeof bits);
    memcpy(&more, &other, sizeof more);
    return bits ^ (more << 1);
  }
  __device__ static unsigned on_device(float a, float b) { return both(a, b); }
  static unsigned on_host(float a, float b) { return both(a, b); }
};
struct FromHalf {
  __host__ __device__ static float both(std::uint16_t bits) {
    __half_raw half{};
    half.x = bits;
    return __half2float(half);
  }
  __device__ static float on_device(std::uint16_t bits) { return both(bits); }
  static float on_host(std::uint16_t bits) { return both(bits); }
};
struct FromBfloat {
  __host__ __device__ static float both(std::uint16_t bits) {
    __nv_bfloat16_raw bfloat{};
    bfloat.x = bits;
    return __bfloat162float(bfloat);
  }
  __device__ static float on_device(std::uint16_t bits) { return both(bits); }
  static float on_host(std::uint16_t bits) { return both(bits); }
};
struct Clamped {
  __device__ static int on_device(int a) {
    unsigned narrow = 0;
    int narrower = 0;
    asm("cvt.sat.u16.s32 %0, %1; cvt.sat.s8.s32 %0, %1;" : "=r"(narrower) : "r"(a));
    asm("cvt.sat.u8.s32 %0, %1;" : "=r"(narrow) : "r"(a));
    return narrower * 1000 + static_cast<int>(narrow);
  }
  static int on_host(int a) {
    const int narrower = a < -128 ? -128 : a > 127 ? 127 : a;
    return narrower * 1000 + (a < 0 ? 0 : a > 255 ? 255 : a);
  }
};

template <Round mode>
void check_rounding(Report& report, const std::string& mode_name) {
  const auto name = [&](const char* what) { return what + mode_name; };
  check<FloatToInt<mode>, float>(report, name("f32 to s32").c_str());
  check<FloatToUnsigned<mode>, float>(report, name("f32 to u32").c_str());
  check<FloatToLong<mode>, float>(report, name("f32 to s64").c_str());
  check<DoubleToInt<mode>, double>(report, name("f64 to s32").c_str());
  check<DoubleToUnsignedLong<mode>, double>(report, name("f64 to u64").c_str());
  check<DoubleToFloat<mode>, double>(report, name("f64 to f32").c_str());
  check<IntToFloat<mode>, int>(report, name("s32 to f32").c_str());
  check<LongToFloat<mode>, std::int64_t>(report, name("s64 to f32").c_str());
  check<LongToDouble<mode>, std::int64_t>(report, name("s64 to f64").c_str());
}

std::tuple<std::vector<std::uint16_t>> all_halves() {
  std::vector<std::uint16_t> bits;
  for (int k = 0; k < 65536; k += 3) bits.push_back(static_cast<std::uint16_t>(k));
  return {bits};
}

/// Around every boundary between two numbers of 16 bits.
std::tuple<std::vector<float>> near_halves() {
  std::vector<float> values = samples<float>();
  std::mt19937 random(5);
  for (int k = 0; k < 4000; ++k) {
    const int exponent = static_cast<int>(random() % 48) - 30;
    const double fraction = 1 + static_cast<double>(random() % 4096) / 4096;
    const auto value = static_cast<float>(std::ldexp(fraction, exponent));
    values.push_back(k % 2 == 0 ? value : -value);
    values.push_back(std::nextafter(value, 0.0f));
  }
  return {values};
}

}  // namespace

void check_conversions(Report& report) {
  check<Everything<std::int8_t>, std::int8_t>(report, "from s8");
  check<Everything<std::uint8_t>, std::uint8_t>(report, "from u8");
  check<Everything<std::int16_t>, std::int16_t>(report, "from s16");
  check<Everything<std::uint16_t>, std::uint16_t>(report, "from u16");
  check<Everything<int>, int>(report, "from s32");
  check<Everything<unsigned>, unsigned>(report, "from u32");
  check<Everything<long long>, long long>(report, "from s64");
  check<Everything<unsigned long long>, unsigned long long>(report, "from u64");
  check_rounding<Round::nearest>(report, " .rn");
  check_rounding<Round::zero>(report, " .rz");
  check_rounding<Round::down>(report, " .rm");
  check_rounding<Round::up>(report, " .rp");
  const auto floats = near_halves();
  check_on<HalfNearest>(report, "f32 to f16", 0, floats);
  check_on<HalfZero>(report, "f32 to f16 .rz", 0, floats);
  check_on<HalfDown>(report, "f32 to f16 .rm", 0, floats);
  check_on<HalfUp>(report, "f32 to f16 .rp", 0, floats);
  check_on<BfloatNearest>(report, "f32 to bf16", 0, floats);
  check_on<BfloatZero>(report, "f32 to bf16 .rz", 0, floats);
  check<HalfPair, float, float>(report, "f32 to f16x2, bf16x2");
  check_on<FromHalf>(report, "f16 to f32", 0, all_halves());
  check_on<FromBfloat>(report, "bf16 to f32", 0, all_halves());
  check<Clamped, int>(report, "cvt.sat");
}

}  // namespace ptx_test
