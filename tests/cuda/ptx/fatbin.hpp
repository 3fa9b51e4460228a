// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kvevict_ptx {

// What nvcc's host code passes to __cudaRegisterFatBinary leads to the device code.

/// The newest PTX that a device of this capability can run (80; 0: any). Throws PtxError if there
/// is none: nvcc must be told to embed it uncompressed, as with -gencode
/// arch=compute_80,code=compute_80 --no-compress.
std::string find_ptx(const void* wrapper, int capability);

/// The capability that the newest PTX is for; 0 if there is none.
int newest_capability(const void* wrapper);

}  // namespace kvevict_ptx
