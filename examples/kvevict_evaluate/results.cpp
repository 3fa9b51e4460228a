// SPDX-License-Identifier: Apache-2.0
#include "results.hpp"

#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "text_list.hpp"

namespace evaluate {

Results::Results(std::string path) : path_(std::move(path)) {
  std::string text;
  if (std::ifstream in(path_, std::ios::binary); in) {
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  const std::string first = text.substr(0, text.find('\n'));
  if (whole == 0 ? !csv_header().starts_with(first) : first != csv_header()) {
    throw std::runtime_error(path_ + ":1: not the columns of this program; use another folder");
  }
  if (whole > 0) {
    const std::vector<std::string> lines = split(text.substr(0, whole - 1), '\n');
    for (std::size_t i = 1; i < lines.size(); ++i) {
      try {
        cells_.push_back(parse_csv_line(lines[i]));
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(path_ + ":" + std::to_string(i + 1) + ": " + error.what());
      }
      keys_.insert(key_of(cells_.back()));
    }
  }
  if (whole < text.size()) std::filesystem::resize_file(path_, whole);
  out_.open(path_, std::ios::binary | std::ios::app);
  if (whole == 0) out_ << csv_header() << '\n';
  if (!out_.flush()) throw std::runtime_error(path_ + ": cannot write");
}

void Results::add(const Cell& cell) {
  out_ << csv_line(cell) << '\n';
  if (!out_.flush()) throw std::runtime_error(path_ + ": cannot write");
  cells_.push_back(cell);
  keys_.insert(key_of(cell));
}

}  // namespace evaluate
