// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "kvevict/core/error.hpp"
#include "kvevict/core/head_ranks.hpp"

namespace kvevict_test {

// Several processes that add up numbers, simulated one after the other: every process runs until it
// needs a sum that is not known yet, then all of them start anew with one more known sum. Checks
// that they ask for the same sums in the same order.
class SimulatedRanks {
 public:
  explicit SimulatedRanks(std::size_t ranks) : ranks_(ranks) {}

  // Calls run(rank, ranks) until it ends in all of them; its results, or the texts of the library's
  // errors, which all of them must throw then.
  template <class Run>
  std::vector<std::vector<std::int64_t>> run(Run&& run) {
    known_.clear();
    while (true) {
      std::vector<std::vector<std::int64_t>> results(ranks_);
      std::vector<std::string> errors(ranks_);
      std::vector<std::vector<std::int64_t>> asked;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        next_ = 0;
        kvevict::HeadRanks hook;
        hook.sum = sum;
        hook.context = this;
        try {
          results[rank] = run(rank, hook);
        } catch (const Waiting& waiting) {
          asked.push_back(waiting.values);
        } catch (const kvevict::Error& error) {
          errors[rank] = error.what();
        }
      }
      if (asked.empty()) {
        REQUIRE(std::count(errors.begin(), errors.end(), errors[0]) ==
                static_cast<std::ptrdiff_t>(ranks_));
        error_ = errors[0];
        return results;
      }
      REQUIRE(asked.size() == ranks_);
      std::vector<std::int64_t> sums(asked[0].size(), 0);
      for (const std::vector<std::int64_t>& values : asked) {
        REQUIRE(values.size() == sums.size());
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
      }
      known_.push_back(sums);
    }
  }

  // Sums of the last run.
  std::size_t sums() const { return known_.size(); }
  // What all of them threw in the last run, or nothing.
  const std::string& error() const { return error_; }

 private:
  struct Waiting {
    std::vector<std::int64_t> values;
  };

  static void sum(void* context, std::int64_t* values, std::int64_t count) {
    SimulatedRanks& self = *static_cast<SimulatedRanks*>(context);
    if (self.next_ == self.known_.size()) throw Waiting{{values, values + count}};
    const std::vector<std::int64_t>& known = self.known_[self.next_++];
    REQUIRE(static_cast<std::size_t>(count) == known.size());
    std::copy(known.begin(), known.end(), values);
  }

  std::size_t ranks_;
  std::size_t next_ = 0;
  std::vector<std::vector<std::int64_t>> known_;
  std::string error_;
};

}  // namespace kvevict_test
