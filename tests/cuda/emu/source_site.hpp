// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

namespace kvevict_emulation {

/// Where in the kernel's source a device function is called. It names the place in messages and
/// tells two barriers apart, even on one line.
#if defined(__clang__) && __clang_major__ < 16
// std::source_location needs a newer clang with libstdc++.
class SourceSite {
 public:
  static constexpr SourceSite current(const char* file = __builtin_FILE(),
                                      unsigned line = __builtin_LINE(),
                                      unsigned column = __builtin_COLUMN()) {
    SourceSite site;
    site.file_ = file;
    site.line_ = line;
    site.column_ = column;
    return site;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  const char* file_ = "";
  unsigned line_ = 0;
  unsigned column_ = 0;
};
#else
using SourceSite = std::source_location;
#endif

}  // namespace kvevict_emulation
