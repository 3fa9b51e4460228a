// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one Catch2 include of all tests: version 2 (Debian 12) and version 3 spell it differently.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
