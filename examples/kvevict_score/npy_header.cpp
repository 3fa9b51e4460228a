// SPDX-License-Identifier: Apache-2.0
#include "npy_header.hpp"

#include <charconv>
#include <optional>
#include <utility>

namespace kvevict_score {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  NpyHeader header() {
    expect('{');
    while (!accept('}')) {
      field();
      if (accept(',')) continue;
      expect('}');
      break;
    }
    if (!spaces_only()) fail("text behind its dictionary");
    if (!descr_) fail("no field 'descr'");
    if (!fortran_order_) fail("no field 'fortran_order'");
    if (!shape_) fail("no field 'shape'");
    return {*descr_, *fortran_order_, *shape_};
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw HeaderError("the header has " + what);
  }

  void skip_spaces() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }

  bool spaces_only() {
    skip_spaces();
    return rest_.empty();
  }

  bool accept(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (accept(c)) return;
    const std::string found = rest_.empty() ? "its end" : std::string("'") + rest_.front() + "'";
    fail(found + " where '" + c + "' belongs");
  }

  bool accept_word(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void field() {
    const std::string name = quoted();
    expect(':');
    if (name == "descr") {
      if (accept('[')) fail("a structured type in 'descr', must be '<f2' or '<f4'");
      set(descr_, quoted(), name);
    } else if (name == "fortran_order") {
      if (accept_word("False")) {
        set(fortran_order_, false, name);
      } else if (accept_word("True")) {
        set(fortran_order_, true, name);
      } else {
        fail("neither True nor False in 'fortran_order'");
      }
    } else if (name == "shape") {
      set(shape_, tuple(), name);
    } else {
      fail("an unknown field '" + name + "'");
    }
  }

  template <class T>
  static void set(std::optional<T>& slot, T value, const std::string& name) {
    if (slot) fail("the field '" + name + "' twice");
    slot = std::move(value);
  }

  std::string quoted() {
    skip_spaces();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') fail("no quoted text where one belongs");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) fail("a quoted text without end");
    const std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> numbers;
    expect('(');
    while (!accept(')')) {
      numbers.push_back(dimension());
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return numbers;
  }

  std::int64_t dimension() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (status == std::errc::result_out_of_range) fail("a dimension beyond 64 bits");
    if (status != std::errc()) fail("a dimension that is no number");
    if (value < 0) fail("the negative dimension " + std::to_string(value));
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::string_view rest_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) { return Parser(text).header(); }

std::string npy_header_text(std::string_view descr, const std::vector<std::int64_t>& shape) {
  std::string text = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    text.append(axis == 0 ? "" : ", ").append(std::to_string(shape[axis]));
  }
  // Python writes a tuple of one with a comma.
  return text.append(shape.size() == 1 ? ",), }" : "), }");
}

}  // namespace kvevict_score
