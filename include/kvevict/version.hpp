// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one home of the version: CMake reads these three lines.
#define KVEVICT_VERSION_MAJOR 0
#define KVEVICT_VERSION_MINOR 1
#define KVEVICT_VERSION_PATCH 0
