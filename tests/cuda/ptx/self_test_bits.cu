// SPDX-License-Identifier: Apache-2.0
#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

template <class T>
struct Shifts {
  __device__ static T on_device(T a, unsigned by) {
    return static_cast<T>((a << (by % (8 * sizeof(T)))) ^ (a >> (by % (8 * sizeof(T)))));
  }
  static T on_host(T a, unsigned by) {
    return static_cast<T>((a << (by % (8 * sizeof(T)))) ^ (a >> (by % (8 * sizeof(T)))));
  }
};
/// PTX defines shifts by more than the width, C++ does not.
struct ClampedShifts {
  __device__ static unsigned on_device(int a, unsigned by) {
    int left = 0;
    int right = 0;
    unsigned logical = 0;
    asm("shl.b32 %0, %3, %4; shr.s32 %1, %3, %4; shr.u32 %2, %3, %4;"
        : "=&r"(left), "=&r"(right), "=r"(logical)
        : "r"(a), "r"(by));
    return static_cast<unsigned>(left) ^ static_cast<unsigned>(right) ^ (logical << 1);
  }
  static unsigned on_host(int a, unsigned by) {
    const std::uint64_t wide = static_cast<unsigned>(a);
    const auto left = static_cast<unsigned>(by < 32 ? wide << by : 0);
    const auto right = static_cast<unsigned>(a >> (by < 32 ? by : 31));
    const auto logical = static_cast<unsigned>(by < 32 ? wide >> by : 0);
    return left ^ right ^ (logical << 1);
  }
};
struct Counts32 {
  __device__ static int on_device(unsigned a) {
    return __popc(a) + 64 * __clz(static_cast<int>(a)) + 4096 * __ffs(static_cast<int>(a));
  }
  static int on_host(unsigned a) {
    const int leading = a == 0 ? 32 : __builtin_clz(a);
    return __builtin_popcount(a) + 64 * leading + 4096 * __builtin_ffs(static_cast<int>(a));
  }
};
struct Counts64 {
  __device__ static int on_device(unsigned long long a) {
    const auto s = static_cast<long long>(a);
    return __popcll(a) + 128 * __clzll(s) + 16384 * __ffsll(s);
  }
  static int on_host(unsigned long long a) {
    const int leading = a == 0 ? 64 : __builtin_clzll(a);
    return __builtin_popcountll(a) + 128 * leading +
           16384 * __builtin_ffsll(static_cast<long long>(a));
  }
};
std::uint64_t reversed(std::uint64_t a, int width) {
  std::uint64_t result = 0;
  for (int i = 0; i < width; ++i) result |= (a >> i & 1) << (width - 1 - i);
  return result;
}
struct Reverse {
  __device__ static unsigned long long on_device(unsigned long long a) {
    return __brevll(a) ^ __brev(static_cast<unsigned>(a));
  }
  static unsigned long long on_host(unsigned long long a) {
    return reversed(a, 64) ^ reversed(a & 0xffffffffu, 32);
  }
};
struct BytePermute {
  __device__ static unsigned on_device(unsigned a, unsigned b, unsigned selector) {
    unsigned replicated = 0;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(replicated) : "r"(a), "r"(b), "r"(selector));
    return __byte_perm(a, b, selector) ^ (replicated << 3);
  }
  static unsigned on_host(unsigned a, unsigned b, unsigned selector) {
    const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
    std::uint32_t plain = 0;
    std::uint32_t replicated = 0;
    for (int i = 0; i < 4; ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes >> (8 * (selector >> (4 * i) & 7)));
      const bool sign = (selector >> (4 * i) & 8) != 0;
      plain |= std::uint32_t{byte} << (8 * i);
      replicated |= std::uint32_t{sign ? (byte & 0x80u ? 0xffu : 0u) : byte} << (8 * i);
    }
    return plain ^ (replicated << 3);
  }
};
struct FunnelShifts {
  __device__ static unsigned on_device(unsigned low, unsigned high, unsigned by) {
    return __funnelshift_l(low, high, by) ^ (__funnelshift_r(low, high, by) << 1) ^
           (__funnelshift_lc(low, high, by) << 2) ^ (__funnelshift_rc(low, high, by) << 3);
  }
  static unsigned on_host(unsigned low, unsigned high, unsigned by) {
    const std::uint64_t both = std::uint64_t{high} << 32 | low;
    const unsigned wrapped = by % 32;
    const unsigned clamped = by < 32 ? by : 32;
    return static_cast<unsigned>(both << wrapped >> 32) ^
           (static_cast<unsigned>(both >> wrapped) << 1) ^
           (static_cast<unsigned>(both << clamped >> 32) << 2) ^
           (static_cast<unsigned>(both >> clamped) << 3);
  }
};
struct Logic3 {
  __device__ static unsigned on_device(unsigned a, unsigned b, unsigned c) {
    unsigned first = 0;
    unsigned second = 0;
    asm("lop3.b32 %0, %2, %3, %4, 0xca; lop3.b32 %1, %2, %3, %4, 0x96;"
        : "=&r"(first), "=r"(second)
        : "r"(a), "r"(b), "r"(c));
    return first + second + ((a & ~b) | (c ^ a));
  }
  static unsigned on_host(unsigned a, unsigned b, unsigned c) {
    return ((a & b) | (~a & c)) + (a ^ b ^ c) + ((a & ~b) | (c ^ a));
  }
};
/// bfe as the definition has it, bit by bit.
template <class T>
T extracted(T a, unsigned at, unsigned length) {
  using U = std::make_unsigned_t<T>;
  constexpr unsigned top = 8 * sizeof(T) - 1;
  at &= 255;
  length &= 255;
  const unsigned last = at + length - 1 < top ? at + length - 1 : top;
  const U sign = std::is_signed_v<T> && length > 0 ? static_cast<U>(a) >> last & 1 : 0;
  U result = 0;
  for (unsigned i = 0; i <= top; ++i) {
    const U bit = i < length && at + i <= top ? static_cast<U>(a) >> (at + i) & 1 : sign;
    result |= bit << i;
  }
  return static_cast<T>(result);
}
struct FieldSigned {
  __device__ static int on_device(int a, unsigned at, unsigned length) {
    int result = 0;
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(at), "r"(length));
    return result;
  }
  static int on_host(int a, unsigned at, unsigned length) { return extracted(a, at, length); }
};
struct Field64 {
  using T = unsigned long long;
  __device__ static T on_device(T a, unsigned at, unsigned length) {
    T plain = 0;
    long long with_sign = 0;
    asm("bfe.u64 %0, %2, %3, %4; bfe.s64 %1, %2, %3, %4;"
        : "=&l"(plain), "=l"(with_sign)
        : "l"(a), "r"(at), "r"(length));
    return plain + static_cast<T>(with_sign);
  }
  static T on_host(T a, unsigned at, unsigned length) {
    return extracted(a, at, length) +
           static_cast<T>(extracted(static_cast<long long>(a), at, length));
  }
};
struct Insert {
  __device__ static unsigned on_device(unsigned a, unsigned b, unsigned where) {
    unsigned result = 0;
    unsigned mask = 0;
    asm("bfi.b32 %0, %2, %3, %4, %5; bmsk.clamp.b32 %1, %4, %5;"
        : "=&r"(result), "=r"(mask)
        : "r"(a), "r"(b), "r"(where % 40), "r"(where / 64 % 40));
    return result ^ (mask << 1);
  }
  static unsigned on_host(unsigned a, unsigned b, unsigned where) {
    const unsigned at = where % 40;
    const unsigned length = where / 64 % 40;
    unsigned mask = 0;
    for (unsigned i = at; i < at + length && i < 32; ++i) mask |= 1u << i;
    const unsigned moved = at < 32 ? a << at : 0;
    return ((b & ~mask) | (moved & mask)) ^ (mask << 1);
  }
};
struct HighestBit {
  __device__ static unsigned on_device(int a) {
    unsigned position = 0;
    unsigned shift = 0;
    asm("bfind.s32 %0, %2; bfind.shiftamt.u32 %1, %2;" : "=&r"(position), "=r"(shift) : "r"(a));
    return position * 64 + shift;
  }
  static unsigned on_host(int a) {
    const auto searched = static_cast<unsigned>(a < 0 ? ~a : a);
    const auto bits = static_cast<unsigned>(a);
    const unsigned position = searched == 0 ? ~0u : 31u - unsigned(__builtin_clz(searched));
    const unsigned shift = bits == 0 ? ~0u : unsigned(__builtin_clz(bits));
    return position * 64 + shift;
  }
};

}  // namespace

void check_bits(Report& report) {
  check<Shifts<int>, int, unsigned>(report, "shifts s32");
  check<Shifts<std::uint16_t>, std::uint16_t, unsigned>(report, "shifts u16");
  check<Shifts<long long>, long long, unsigned>(report, "shifts s64");
  check<Shifts<unsigned long long>, unsigned long long, unsigned>(report, "shifts u64");
  check<ClampedShifts, int, unsigned>(report, "shifts by the width and more");
  check<Counts32, unsigned>(report, "counts of 32 bits");
  check<Counts64, unsigned long long>(report, "counts of 64 bits");
  check<Reverse, unsigned long long>(report, "brev");
  check<BytePermute, unsigned, unsigned, unsigned>(report, "prmt");
  check<FunnelShifts, unsigned, unsigned, unsigned>(report, "shf");
  check<Logic3, unsigned, unsigned, unsigned>(report, "lop3");
  check<FieldSigned, int, unsigned, unsigned>(report, "bfe.s32");
  check<Field64, unsigned long long, unsigned, unsigned>(report, "bfe 64");
  check<Insert, unsigned, unsigned, unsigned>(report, "bfi, bmsk");
  check<HighestBit, int>(report, "bfind");
}

}  // namespace ptx_test
