// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>

#include "kvevict/core/error.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/row_layout.hpp"

namespace kvevict {

/// How an evicted ratio becomes a number of kept rows.
enum class Rounding {
  exact,  ///< floor(N (1 - r)) with r the decimal number that was written: N = 100, r = 0.9 keeps
          ///< 10
  reference  ///< trunc(N * (1.0 - r)) in double, as kvpress computes it: N = 100, r = 0.9 keeps 9
};

inline std::span<const EnumName<Rounding>> enum_names(Rounding) {
  static constexpr EnumName<Rounding> names[] = {{Rounding::exact, "exact"},
                                                 {Rounding::reference, "reference"}};
  return names;
}

namespace detail {

/// floor(rows * (1 - ratio)) for the shortest decimal that reads back as `ratio`, in integers.
inline std::int64_t exact_kept_rows(std::int64_t rows, double ratio) {
  // Shortest round-trip digits as "d.ddde-xx": at most 17 significant ones.
  char text[40];
  const auto end =
      std::to_chars(text, text + sizeof text, ratio, std::chars_format::scientific).ptr;
  __extension__ typedef unsigned __int128 wide;
  wide digits = 0;
  int decimals = 0;
  const char* at = text;
  for (bool fraction = false; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<wide>(*at - '0');
    decimals += fraction ? 1 : 0;
  }
  int exponent = 0;
  if (at != end) {
    const char* sign = at + 1;
    std::from_chars(*sign == '+' ? sign + 1 : sign, end, exponent);
  }
  decimals -= exponent;
  // Evicting less than one part in 10^10 of at most 2^31 rows evicts a row only for the ceiling
  // below.
  if (digits == 0) return rows;
  if (decimals > 26) return rows > 0 ? rows - 1 : 0;
  wide scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  const wide evicted = (static_cast<wide>(rows) * digits + scale - 1) / scale;
  return rows - static_cast<std::int64_t>(std::min<wide>(evicted, static_cast<wide>(rows)));
}

}  // namespace detail

/// How much of the cache to keep. A head that holds rows keeps at least one of them, unless zero
/// rows are asked for explicitly (`rows(0)`, `bytes(0)`, `evict_ratio(1)`).
class Budget {
 public:
  /// At most `count` rows of each head.
  static Budget rows(std::int64_t count) {
    require(count >= 0, "budget.rows", count, ">=", 0);
    return Budget(Kind::rows, count, 0.0);
  }

  /// Evict the fraction `ratio` of each head's rows, 0 <= ratio <= 1. A ratio that was computed in
  /// float carries its binary error: 0.9f is 0.89999998.
  static Budget evict_ratio(double ratio) {
    require(ratio >= 0.0 && ratio <= 1.0, "budget.evict_ratio", ratio, "in [0, 1]");
    return Budget(Kind::ratio, 0, ratio + 0.0);  // -0.0 becomes 0.0
  }

  /// At most `count` bytes of keys and values over all heads given, shared equally among the heads
  /// that can use them (a head shorter than its share leaves the rest to the others).
  static Budget bytes(std::int64_t count) {
    require(count >= 0, "budget.bytes", count, ">=", 0);
    return Budget(Kind::bytes, count, 0.0);
  }

  Budget with_rounding(Rounding rounding) const {
    Budget budget = *this;
    budget.rounding_ = rounding;
    return budget;
  }

  /// Rows that a head of `rows` rows keeps under a rows or ratio budget.
  std::int64_t kept_rows(std::int64_t rows) const {
    if (kind_ == Kind::rows) return std::min(rows, amount_);
    const std::int64_t kept =
        rounding_ == Rounding::exact
            ? detail::exact_kept_rows(rows, ratio_)
            : static_cast<std::int64_t>(static_cast<double>(rows) * (1.0 - ratio_));
    return std::max(kept, ratio_ < 1.0 ? std::min<std::int64_t>(rows, 1) : 0);
  }

  /// Writes each head's share to targets[head]; their sum is what an allocator may hand out.
  /// `row_bytes` is the size of one row's key and value. Throws a budget error when bytes do not
  /// suffice for one row of each head.
  void shares(const RowLayout<>& layout, std::int64_t row_bytes, std::int64_t* targets) const {
    if (kind_ != Kind::bytes) {
      for (std::int64_t h = 0; h < layout.heads(); ++h) targets[h] = kept_rows(layout.rows(h));
      return;
    }
    if (layout.heads() > 0) share_equally(layout, row_bytes, targets);
  }

 private:
  enum class Kind { rows, ratio, bytes };

  Budget(Kind kind, std::int64_t amount, double ratio)
      : kind_(kind), amount_(amount), ratio_(ratio) {}

  /// targets[h] = min(rows(h), level), plus one for the first heads that can take the remainder.
  void share_equally(const RowLayout<>& layout, std::int64_t row_bytes,
                     std::int64_t* targets) const {
    const std::int64_t total = amount_ / row_bytes;
    const auto handed_out = [&](std::int64_t level) {
      std::int64_t sum = 0;
      for (std::int64_t h = 0; h < layout.heads(); ++h) sum += std::min(layout.rows(h), level);
      return sum;
    };
    require(amount_ == 0 || total >= handed_out(1), "budget.bytes", amount_,
            "enough for one row of each head,", handed_out(1) * row_bytes, ErrorKind::budget);
    std::int64_t low = 0;
    std::int64_t high = layout.longest();
    while (low < high) {  // the highest level that the total pays for
      const std::int64_t middle = low + (high - low + 1) / 2;
      if (handed_out(middle) <= total) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    std::int64_t left = total - handed_out(low);
    for (std::int64_t h = 0; h < layout.heads(); ++h) {
      targets[h] = std::min(layout.rows(h), low);
      if (left > 0 && layout.rows(h) > low) {
        ++targets[h];
        --left;
      }
    }
  }

  Kind kind_;
  std::int64_t amount_;
  double ratio_;
  Rounding rounding_ = Rounding::exact;
};

}  // namespace kvevict
