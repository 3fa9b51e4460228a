// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kvevict_ptx {

/// PTX that nvcc has put into a program, and the compute capability it is for, as 10 major + minor.
struct EmbeddedPtx {
  std::string text;
  int capability = 0;
};

/// The newest PTX in what nvcc's host code passes to __cudaRegisterFatBinary. Throws PtxError if
/// there is none: nvcc must be told to embed it uncompressed, as with
/// -gencode arch=compute_80,code=compute_80 --no-compress.
EmbeddedPtx find_ptx(const void* wrapper);

}  // namespace kvevict_ptx
