// SPDX-License-Identifier: Apache-2.0
#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

// The same C++ on both sides, in types that wrap around.
template <class T>
struct Arithmetic {
  using U = std::make_unsigned_t<T>;
  __host__ __device__ static T both(T a, T b) {
    const T sum = static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    const T difference = static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
    const T product = static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    return static_cast<T>((sum ^ product) + (difference & product));
  }
  __device__ static T on_device(T a, T b) { return both(a, b); }
  static T on_host(T a, T b) { return both(a, b); }
};

template <class T>
struct Quotient {
  __host__ __device__ static T both(T a, T b) {
    if (b == 0 || b == static_cast<T>(-1)) return a;
    return static_cast<T>(a / b + 3 * (a % b));
  }
  __device__ static T on_device(T a, T b) { return both(a, b); }
  static T on_host(T a, T b) { return both(a, b); }
};

template <class T>
struct Order {
  __host__ __device__ static int both(T a, T b) {
    const T low = a < b ? a : b;
    const T high = a > b ? a : b;
    return (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a > b) + 32 * (a >= b) +
           64 * (low == a) + 128 * (high == b) + 256 * ((a < b) != (b < 5));
  }
  __device__ static int on_device(T a, T b) { return both(a, b); }
  static int on_host(T a, T b) { return both(a, b); }
};

template <class T>
struct Extremes {
  __device__ static T on_device(T a, T b) { return min(a, b) ^ static_cast<T>(max(a, b) >> 1); }
  static T on_host(T a, T b) { return (a < b ? a : b) ^ static_cast<T>((a < b ? b : a) >> 1); }
};

struct HighProductSigned {
  __device__ static int on_device(int a, int b) { return __mulhi(a, b); }
  static int on_host(int a, int b) { return static_cast<int>(std::int64_t{a} * b >> 32); }
};
struct HighProductUnsigned {
  __device__ static unsigned on_device(unsigned a, unsigned b) { return __umulhi(a, b); }
  static unsigned on_host(unsigned a, unsigned b) {
    return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
  }
};
__extension__ using Wide = unsigned __int128;
struct HighProduct64 {
  __device__ static std::uint64_t on_device(std::uint64_t a, std::uint64_t b) {
    return __umul64hi(a, b) ^ static_cast<std::uint64_t>(__mul64hi(static_cast<std::int64_t>(a),
                                                                   static_cast<std::int64_t>(b)));
  }
  static std::uint64_t on_host(std::uint64_t a, std::uint64_t b) {
    __extension__ using SignedWide = __int128;
    const auto sa = static_cast<std::int64_t>(a);
    const auto sb = static_cast<std::int64_t>(b);
    return static_cast<std::uint64_t>(Wide{a} * b >> 64) ^
           static_cast<std::uint64_t>(SignedWide{sa} * sb >> 64);
  }
};
/// Sums, differences and products of 128 bits need carries.
struct Words128 {
  __host__ __device__ static std::uint64_t both(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    const Wide x = Wide{a} << 64 | b;
    const Wide y = Wide{c} << 64 | (a ^ c);
    const Wide z = (x + y) ^ (x - y) ^ (x * y);
    return static_cast<std::uint64_t>(z >> 64) ^ static_cast<std::uint64_t>(z);
  }
  __device__ static std::uint64_t on_device(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return both(a, b, c);
  }
  static std::uint64_t on_host(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return both(a, b, c);
  }
};
struct CarriesOf32 {
  __device__ static std::uint64_t on_device(unsigned a, unsigned b, unsigned c) {
    unsigned low = 0;
    unsigned high = 0;
    asm("mad.lo.cc.u32 %0, %2, %3, %4; madc.hi.u32 %1, %2, %3, %4;"
        : "=&r"(low), "=r"(high)
        : "r"(a), "r"(b), "r"(c));
    unsigned difference = 0;
    unsigned borrow = 0;
    asm("sub.cc.u32 %0, %2, %3; subc.u32 %1, %4, %2;"
        : "=&r"(difference), "=r"(borrow)
        : "r"(a), "r"(b), "r"(c));
    return (std::uint64_t{high} << 32 | low) ^ (std::uint64_t{borrow} << 32 | difference);
  }
  static std::uint64_t on_host(unsigned a, unsigned b, unsigned c) {
    const std::uint64_t product = std::uint64_t{a} * b;
    const std::uint64_t low = (product & 0xffffffffu) + c;
    const auto high = static_cast<unsigned>((product >> 32) + c + (low >> 32));
    const unsigned difference = a - b;
    const unsigned borrow = c - a - (a < b ? 1 : 0);
    return (std::uint64_t{high} << 32 | static_cast<unsigned>(low)) ^
           (std::uint64_t{borrow} << 32 | difference);
  }
};
template <class T, class Wider>
struct WideProduct {
  __host__ __device__ static Wider both(T a, T b, Wider c) {
    using U = std::make_unsigned_t<Wider>;
    return static_cast<Wider>(static_cast<U>(Wider{a} * Wider{b}) + static_cast<U>(c));
  }
  __device__ static Wider on_device(T a, T b, Wider c) { return both(a, b, c); }
  static Wider on_host(T a, T b, Wider c) { return both(a, b, c); }
};
struct Saturating {
  __device__ static int on_device(int a, int b) {
    int sum = 0;
    int difference = 0;
    asm("add.sat.s32 %0, %2, %3; sub.sat.s32 %1, %2, %3;"
        : "=&r"(sum), "=r"(difference)
        : "r"(a), "r"(b));
    return sum ^ (difference >> 1);
  }
  static int on_host(int a, int b) {
    const auto clamp = [](std::int64_t value) {
      return static_cast<int>(value > 2147483647      ? 2147483647
                              : value < -2147483648ll ? -2147483648ll
                                                      : value);
    };
    return clamp(std::int64_t{a} + b) ^ (clamp(std::int64_t{a} - b) >> 1);
  }
};
struct Differences {
  __device__ static unsigned on_device(int a, int b, unsigned c) {
    return __sad(a, b, c) + __mul24(a, b);
  }
  static unsigned on_host(int a, int b, unsigned c) {
    const std::int64_t distance = std::int64_t{a} - b;
    const auto low24 = [](int x) { return static_cast<int>(static_cast<unsigned>(x) << 8) >> 8; };
    const std::int64_t product = std::int64_t{low24(a)} * low24(b);
    return static_cast<unsigned>(distance < 0 ? -distance : distance) + c +
           static_cast<unsigned>(product);
  }
};

template <class T>
void check_type(Report& report, const char* name) {
  check<Arithmetic<T>, T, T>(report, (std::string("arithmetic ") + name).c_str());
  check<Quotient<T>, T, T>(report, (std::string("division ") + name).c_str());
  check<Order<T>, T, T>(report, (std::string("comparison ") + name).c_str());
}

}  // namespace

void check_integers(Report& report) {
  check_type<std::int8_t>(report, "s8");
  check_type<std::uint8_t>(report, "u8");
  check_type<std::int16_t>(report, "s16");
  check_type<std::uint16_t>(report, "u16");
  check_type<int>(report, "s32");
  check_type<unsigned>(report, "u32");
  check_type<long long>(report, "s64");
  check_type<unsigned long long>(report, "u64");
  check<Extremes<int>, int, int>(report, "min, max s32");
  check<Extremes<unsigned>, unsigned, unsigned>(report, "min, max u32");
  check<Extremes<long long>, long long, long long>(report, "min, max s64");
  check<Extremes<unsigned long long>, unsigned long long, unsigned long long>(report,
                                                                              "min, max u64");
  check<HighProductSigned, int, int>(report, "mul.hi.s32");
  check<HighProductUnsigned, unsigned, unsigned>(report, "mul.hi.u32");
  check<HighProduct64, std::uint64_t, std::uint64_t>(report, "mul.hi 64");
  check<Words128, std::uint64_t, std::uint64_t, std::uint64_t>(report, "128 bits");
  check<CarriesOf32, unsigned, unsigned, unsigned>(report, "carries of 32 bits");
  check<WideProduct<std::int16_t, int>, std::int16_t, std::int16_t, int>(report, "mad.wide.s16");
  check<WideProduct<std::uint16_t, unsigned>, std::uint16_t, std::uint16_t, unsigned>(
      report, "mad.wide.u16");
  check<WideProduct<int, long long>, int, int, long long>(report, "mad.wide.s32");
  check<WideProduct<unsigned, unsigned long long>, unsigned, unsigned, unsigned long long>(
      report, "mad.wide.u32");
  check<Saturating, int, int>(report, "add.sat, sub.sat");
  check<Differences, int, int, unsigned>(report, "sad, mul24");
}

}  // namespace ptx_test
