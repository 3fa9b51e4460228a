// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace kvevict_ptx {

/// The types of PTX instructions and variables, as in `.s32`.
enum class Type : unsigned char {
  none,
  pred,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  f16x2,
  bf16x2,
  b64,
  u64,
  s64,
  f64,
  b128
};

/// The type called `name` (without the dot), or none.
Type type_named(std::string_view name);

/// Bytes of one value; 1 for a predicate.
int size_of(Type type);

bool is_signed(Type type);
bool is_float(Type type);

/// State spaces: where a variable lives and what an address is relative to.
enum class Space : unsigned char { generic, reg, global, constant, shared, local, param };

/// The space called `name` (without the dot, `shared` and `shared::cta` alike), or generic.
Space space_named(std::string_view name);

}  // namespace kvevict_ptx
