//===- attention/Sm90AttentionSchedule.h - the order of tiles -------------===//
//
// Blocks of the grid take tiles in fixed turns, or draw their numbers from a
// counter. This file maps numbers to tiles, for the host and for NVRTC.
//
// By sections: heads whose K and V fit into L2 together are neighbours. Within
// a section tiles go from the last rows of all of its heads to the first. With
// a causal mask the longest tiles come first, so that short tiles fill up the
// end. This balances tiles that are drawn.
//
// By pairs: with a causal mask the first and the last rows of a head have as
// much work as any other such pair, so that turns of two are balanced.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

/// The place of a tile: rows of a head. Heads are counted over all sequences
/// and splits.
struct Sm90AttentionPlace {
  unsigned head = 0;
  unsigned rowBlock = 0; ///< from rowBlocks on: the tile does not exist
};

struct Sm90AttentionSchedule {
  unsigned heads = 0;
  unsigned rowBlocks = 0; ///< tiles of a head
  unsigned section = 1;   ///< heads; unused by pairs
  bool isPaired = false;

  /// The number of tile numbers, which start at 0.
  constexpr unsigned numbers() const {
    return heads * (isPaired ? (rowBlocks + 1) / 2 * 2 : rowBlocks);
  }

  /// The number that block \p block of \p blocks has in turn \p turn.
  constexpr unsigned number(unsigned turn, unsigned block,
                            unsigned blocks) const {
    if (isPaired)
      return (turn / 2 * blocks + block) * 2 + turn % 2;
    return turn * blocks + block;
  }

  constexpr Sm90AttentionPlace place(unsigned number) const {
    if (isPaired) {
      unsigned pairs = (rowBlocks + 1) / 2;
      unsigned row = number / 2 % pairs, other = rowBlocks - 1 - row;
      // The middle row block of an odd number has no partner.
      if (number % 2 && row == other)
        row = rowBlocks;
      return {number / 2 / pairs, number % 2 ? row : other};
    }
    unsigned inSection = section * rowBlocks;
    unsigned first = number / inSection * section, rest = number % inSection;
    unsigned width = heads - first < section ? heads - first : section;
    return {first + rest % width, rowBlocks - 1 - rest / width};
  }
};

} // namespace kiln
