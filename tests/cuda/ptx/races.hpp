// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds accesses of one launch that nothing orders: two threads touch the same bytes, at least one
// writes, and there is no barrier between. A block's barriers order everything before them with
// everything after; bar.warp.sync orders the lanes in its mask. Shuffles, votes and atomic
// operations order nothing; atomic and volatile accesses do not race with each other, only with
// plain ones.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "program.hpp"

namespace kvevict_ptx {

/// What has been ordered with what in the block that runs. Epochs are counted over the whole
/// process and never repeat: each barrier and each block begins a new one.
class BlockClock {
 public:
  void begin_block(int warps);
  void pass_barrier() { ++epoch_; }
  /// bar.warp.sync by the lanes in `members`; `live` are all lanes of the warp that have not
  /// returned.
  void synchronize(int warp, LaneMask members, LaneMask live);
  /// A fence for the whole device: from now on nothing is known about other blocks.
  void fence() { fenced_ = true; }

  std::uint32_t epoch() const { return epoch_; }
  std::uint32_t first_epoch() const { return first_epoch_; }  ///< of the block
  bool fenced() const { return fenced_; }
  std::uint32_t stamp(int warp) const { return warps_[static_cast<std::size_t>(warp)].now; }
  /// Lanes out of `lanes` whose accesses at `stamp` are not ordered before what `lane` does now.
  LaneMask unordered(int warp, int lane, LaneMask lanes, std::uint32_t stamp) const;

 private:
  struct WarpClock {
    std::uint32_t now = 1;
    std::uint32_t all = 0;  ///< every lane is ordered after every access up to this stamp
    /// Empty, or known[r][q]: r is ordered after what q did up to this stamp.
    std::vector<std::array<std::uint32_t, warp_lanes>> known;
  };
  std::vector<WarpClock> warps_;
  std::uint32_t epoch_ = 1;
  std::uint32_t first_epoch_ = 1;
  bool fenced_ = false;
};

enum class Access : unsigned char { read, write, strong_read, strong_write };

/// What RaceChecker found.
enum class Conflict : unsigned char {
  none,
  uninitialised,  ///< nothing in this block has written what is read
  race_in_block,  ///< `other` is a thread, or -1 if there are several
  race_of_blocks
};
struct Finding {
  Conflict conflict = Conflict::none;
  int other = -1;
  bool other_wrote = false;
};

/// The accesses to one piece of memory, in words of four bytes; words that are accessed in parts
/// are followed byte by byte.
class RaceChecker {
 public:
  /// With `private_to_block` (shared memory) other blocks are of no interest, but what the block
  /// has not written is.
  RaceChecker(std::size_t bytes, bool private_to_block);

  Finding check(const BlockClock& clock, std::size_t offset, std::size_t bytes, Access access,
                int thread) {
    if ((offset | bytes) % 4 == 0) {
      while (bytes > 0 && is_undisputed(clock, words_[offset / 4], access, thread)) {
        offset += 4;
        bytes -= 4;
      }
    }
    return bytes == 0 ? Finding{} : check_slowly(clock, offset, bytes, access, thread);
  }

 private:
  static constexpr std::uint16_t several_warps = 0xffff;
  struct Record {
    std::uint32_t epoch = 0;
    std::uint32_t stamp = 0;
    LaneMask lanes = 0;
    std::uint16_t warp = 0;
    bool strong = false;
  };
  struct Cell {
    Record written;
    Record read;
    bool in_bytes = false;  ///< the four bytes have cells of their own
  };
  struct Release {
    void operator()(void* memory) const;
  };
  using Cells = std::unique_ptr<Cell[], Release>;

  static Cells zeroed(std::size_t count);
  /// The common case: nobody else has touched the word in this epoch, or all have only read it.
  /// Notes the access then, and decides nothing otherwise.
  bool is_undisputed(const BlockClock& clock, Cell& cell, Access access, int thread) const;
  /// Whether what the record says is before the last barrier of this block, or nothing.
  bool is_past(const BlockClock& clock, const Record& record) const {
    return record.epoch < clock.epoch() &&
           (private_to_block_ || record.epoch == 0 || record.epoch >= clock.first_epoch());
  }
  Finding check_slowly(const BlockClock& clock, std::size_t offset, std::size_t bytes,
                       Access access, int thread);
  Finding check_cell(const BlockClock& clock, Cell& cell, Access access, int thread) const;
  Finding compare(const BlockClock& clock, const Record& record, int thread) const;
  static void note(const BlockClock& clock, Record& record, int thread, bool strong);

  std::size_t bytes_;
  bool private_to_block_;
  Cells words_;
  Cells parts_;
};

inline bool RaceChecker::is_undisputed(const BlockClock& clock, Cell& cell, Access access,
                                       int thread) const {
  if (cell.in_bytes || !is_past(clock, cell.written)) return false;
  const auto warp = static_cast<std::uint16_t>(thread / warp_lanes);
  const LaneMask bit = LaneMask{1} << thread % warp_lanes;
  const Record mine{clock.epoch(), clock.stamp(warp), bit, warp, false};
  if (access == Access::write) {
    if (!is_past(clock, cell.read)) return false;
    cell.written = mine;
    return true;
  }
  if (access != Access::read) return false;
  if (private_to_block_ && cell.written.epoch < clock.first_epoch()) return false;
  if (cell.read.epoch != mine.epoch) {
    cell.read = mine;
  } else if (cell.read.warp != several_warps) {
    if (cell.read.warp != warp || cell.read.stamp != mine.stamp) return false;
    cell.read.lanes |= bit;
  }
  return true;
}

}  // namespace kvevict_ptx
