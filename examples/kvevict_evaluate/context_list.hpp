// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace evaluate {

/// What a context may be used for: defaults are found on some and confirmed on the others.
enum class Use { tuning, confirming };

std::string_view name_of(Use use);

/// One line of a list of contexts.
struct ContextSpec {
  std::string name;
  std::string kind;  ///< of text or task: licence, story, ...
  Use use = Use::tuning;
  std::string text;         ///< file within the folder of texts; empty for a task
  std::string task;         ///< generated task; empty for a text
  std::uint64_t start = 0;  ///< of a text: byte after which its first line begins; of a task: seed
  std::int64_t tokens = 0;  ///< of the context
  std::int64_t continuation = 0;  ///< tokens that follow; 0 for a task, whose questions follow
  std::uint64_t checksum = 0;     ///< of the tokens of both, see checksum_of
};

/// Reads a list: a context in each line,
///
///   name kind use source start tokens continuation checksum
///
/// with `source` text:FILE or task:NAME, the checksum in digits; # begins a comment.
/// Throws std::runtime_error that names the line of `path` and what is wrong in it; names must be
/// unique.
std::vector<ContextSpec> read_context_list(std::istream& in, const std::string& path);

}  // namespace evaluate
