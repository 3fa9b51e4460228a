// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kvevict {

// The one home of the version: CMake reads these lines.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;
inline constexpr const char* version_string = "0.1.0";

}  // namespace kvevict
