// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace evaluate {

/// A piece of a generated context. Pieces become tokens one by one.
struct Segment {
  std::string text;
  int question = -1;  ///< number of the question that needs this piece; -1: padding
};

struct Question {
  std::string prompt;
  std::string answer;
};

/// A context with facts in it, and questions about them.
struct Task {
  std::vector<Segment> context;
  std::vector<Question> questions;
};

/// Number of tokens of a piece.
using TokenCount = std::function<std::int64_t(std::string_view)>;

/// Names of the tasks:
///
///   passkey   one number among sentences without meaning, at a depth that the seed decides
///   needles   five such numbers of different things, spread over the context
///   lookup    the whole context is a list of keys and values; four are asked for
///   tracking  four variables are set, and copied to others further on, whose values are asked for
std::vector<std::string_view> task_names();

/// The task of that name, the same for the same seed, of at most `tokens` tokens by `count`. Throws
/// std::runtime_error for an unknown name, or when the facts alone are longer.
Task make_task(std::string_view name, std::uint64_t seed, std::int64_t tokens,
               const TokenCount& count);

}  // namespace evaluate
