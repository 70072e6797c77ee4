//===- AttentionPuzzle.h - attentions with one exact answer ---------------===//
//
// Rows of K are +-4 by a hash of where they lie, and a query is the row that it
// looks for: its score is far above all others, so a row of O is a row of V,
// bit for bit. All memory that no sequence has is NaN, and so are rows that
// results must not use: a read from a wrong place is seen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Family.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::fake {

using Bytes = std::vector<uint8_t>;

class AttentionPuzzle {
public:
  /// \p text without scale, softcap, sinks, alibi and scales. Lengths in device
  /// memory differ: the most, none and others.
  AttentionPuzzle(const KernelFamily &family, const std::string &text);

  const Problem &problem() const { return stated; }
  /// The memory of operand \p index from its first byte on, as a launch gets
  /// it; empty if the problem does not have it. Outputs begin as poison.
  const Bytes &given(int index) const { return before[index]; }
  /// The expected memory of O after a launch.
  const Bytes &expectedO() const { return wantedO; }
  /// The fault of \p lse, the memory of the LSE; empty if there is none.
  std::string faultOfLse(const Bytes &lse) const;
  /// Rows of O that have a value of V.
  int64_t solvedRows() const { return solved; }

  static constexpr uint8_t kPoison = 0xa5;

private:
  struct Sequence {
    int64_t firstQuery = 0, queries = 0, firstKey = 0, keys = 0;
  };
  /// Keys of a sequence that a query sees.
  struct Seen {
    int64_t begin, end;
  };

  void drawLengths();
  void drawPages();
  void fill();
  void solve();
  Seen seenBy(const Sequence &sequence, int64_t query) const;
  int64_t queryOffset(const HeadStrides &strides, int64_t sequence,
                      int64_t head, int64_t query) const;
  int64_t keyOffset(const HeadStrides &strides, int64_t sequence, int64_t head,
                    int64_t key) const;
  void setCodes(int operand, DType type, int64_t offset, uint64_t code);
  void setIntegers(int operand, const std::vector<int32_t> &values);

  const Problem stated;
  const AttentionProblem p;
  std::vector<Sequence> sequences;
  std::vector<int32_t> pages, pageStarts; ///< of the table or list
  std::vector<Bytes> before;
  Bytes wantedO;
  std::vector<double> wantedLse; ///< NaN: not written
  int64_t solved = 0;
};

} // namespace kiln::fake
