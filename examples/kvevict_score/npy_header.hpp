// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kvevict_score {

/// A header that is not what the NumPy format says it is; the caller adds the file's name.
class HeaderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The three fields of a NumPy file's header.
struct NpyHeader {
  std::string descr;  ///< element type, as in "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Parses the Python dictionary that a NumPy file starts with, such as
/// "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" and padding behind it. The fields
/// may come in any order; each must be there once and no other. Throws HeaderError.
NpyHeader parse_npy_header(std::string_view text);

/// The dictionary of a header in C order, without padding.
std::string npy_header_text(std::string_view descr, const std::vector<std::int64_t>& shape);

}  // namespace kvevict_score
