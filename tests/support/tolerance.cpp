// SPDX-License-Identifier: Apache-2.0
#include "tolerance.hpp"

#include <cmath>
#include <limits>
#include <sstream>

namespace kvevict_test {
namespace {

double use_of(double error, double allowed) {
  if (error == 0) return 0;
  return allowed > 0 ? error / allowed : std::numeric_limits<double>::infinity();
}

double error_between(double got, double want) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (got == want) return 0;
  const double error = std::abs(got - want);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

double Comparison::used() const { return use_of(worst_error, worst_allowed); }

void add(Comparison& comparison, double got, double want, Tolerance tolerance) {
  const double error = error_between(got, want);
  const bool finite = std::isfinite(want);
  const double allowed = finite ? tolerance.abs + tolerance.rel * std::abs(want) : 0;
  const double use = use_of(error, allowed);
  if (use > 1) ++comparison.outside;
  if (comparison.worst_index < 0 || use > comparison.used()) {
    comparison.worst_index = comparison.size;
    comparison.worst_got = got;
    comparison.worst_want = want;
    comparison.worst_error = error;
    comparison.worst_allowed = allowed;
  }
  ++comparison.size;
}

std::string Comparison::describe() const {
  std::ostringstream out;
  out.precision(9);
  if (sizes_differ) {
    out << "sizes differ: got " << worst_got << ", want " << worst_want;
  } else if (worst_index < 0) {
    out << "nothing to compare";
  } else {
    out << outside << " of " << size << " outside; worst at " << worst_index << ": got "
        << worst_got << ", want " << worst_want << ", error " << worst_error << ", allowed "
        << worst_allowed;
  }
  return out.str();
}

}  // namespace kvevict_test
