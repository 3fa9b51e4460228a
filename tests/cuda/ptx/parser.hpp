// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "syntax.hpp"

namespace kvevict_ptx {

/// Reads a whole PTX text. Opcodes are not looked at: an unknown one is reported when it is
/// executed. Throws PtxError.
std::unique_ptr<Module> parse_module(std::string text);

}  // namespace kvevict_ptx
