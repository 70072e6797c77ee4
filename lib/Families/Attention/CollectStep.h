//===- CollectStep.h - the step that collects K and V for a kernel --------===//
//
// Kernels that multiply tiles need K and V in the type of Q, in rows that wide
// copies can read. For any other problem (e4m3 beside 16-bit queries, pages of
// a few tokens) a step ahead of the kernel writes such rows to the workspace
// (attention/CollectRows.cuh), and the kernel then reads these. That moves 3
// bytes an element, which is little beside a prefill. If rows are not aligned
// for wide copies, Q is collected as well, head dims are filled up with zeros,
// and a step behind the kernel delivers O.
//
// A *unit* is a head of K of one sequence, or of all packed sequences together.
// A launch has rounds of as many units as its workspace holds. Rounds are
// independent of each other, so results do not depend on their number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Estimate.h"
#include "Kernel/Plan.h"

#include <array>

namespace kiln {

/// The units that a launch takes at once.
struct CollectRounds {
  int64_t sequences = 1, heads = 1; ///< of K, of a round
  int64_t sequenceRounds = 1, headRounds = 1;

  int64_t count() const { return sequenceRounds * headRounds; }
};

/// A problem whose K and V are collected, and also Q if its type changes.
class CollectedProblem {
public:
  /// Rows are collected as \p type. \p splits: the splits of the kernel behind,
  /// whose partial results are a part of a unit's bytes; 0: the kernel has the
  /// partial results that its plan holds for a round, whatever the units of a
  /// launch. \p align: alignment of the problem's signature.
  CollectedProblem(const AttentionProblem &problem, int align, DType type,
                   int64_t splits);

  /// Whether the rows of no operand are aligned enough for kernels to access.
  bool isUnaligned() const { return unaligned; }
  bool collectsQueries() const { return unaligned || given.dtype != type; }

  /// Rounds of as many units as fit into \p room bytes, at least one.
  CollectRounds roundsWithin(int64_t room) const;
  /// Bytes of the workspace that a round needs, including partial results
  /// unless splits are 0.
  int64_t roundBytes(const CollectRounds &rounds) const;
  bool countsPartials() const { return splits > 0; }
  /// The problem of a round, as the kernel sees it.
  AttentionProblem ofRound(const CollectRounds &rounds) const;

  /// An operand in the workspace of a round: rows of a head are contiguous, and
  /// so are heads of a sequence, and sequences.
  struct Rows {
    int64_t offset = 0;   ///< bytes
    int64_t elements = 0; ///< of a row of the caller
    int64_t width = 0;    ///< of a row, zeros included
    int64_t pitch = 0;    ///< elements
    int64_t rows = 0, heads = 0, sequences = 0;

    HeadStrides strides() const {
      return {pitch, rows * pitch, heads * rows * pitch};
    }
  };
  /// K, V, Q and O; Q and O have no rows unless they are collected. The last
  /// operand ends at \p end bytes.
  std::array<Rows, 4> rowsOf(const CollectRounds &rounds, int64_t &end) const;

  /// Nanoseconds of the collecting steps over all rounds.
  template <Number N>
  N collectNs(const CollectRounds &rounds, const DeviceModel &device) const;

private:
  /// A head dim in the kernel, and the pitch of its rows.
  int64_t widthOf(int64_t elements) const;
  int64_t pitchOf(int64_t elements) const;
  /// Bytes of a unit, and of a head over all sequences, whatever their number.
  int64_t unitBytes() const;
  int64_t headBytes() const;

  const AttentionProblem &given;
  int align;
  DType type;
  int64_t splits;
  bool unaligned;
  int64_t sequences; ///< with units of their own; packed ones count as one
};

/// Room for collected rows in MiB, best first: few rounds, and rooms that stay
/// in L2 and within small limits of the workspace.
inline constexpr int kCollectRooms[] = {128, 32};
/// Limit of a round, whatever the room: other kernels serve heads with more
/// keys.
inline constexpr double kMaxCollectBytes = double(int64_t(1000) << 20);

/// Turns \p plan, of a round of \p problem, into the plan of \p problem: it
/// gets one more kernel, scratch ahead of the kernel's own, and a binder that
/// collects first.
void prependCollect(const AttentionProblem &problem, DType type, int64_t splits,
                    const CollectRounds &rounds, const DeviceModel &device,
                    Plan &plan);

/// The workspace of a plan, given that of a round.
WorkspaceLayout withCollected(const CollectedProblem &problem,
                              const CollectRounds &rounds,
                              WorkspaceLayout layout);

/// Turns the prediction of a round into that of the launch.
template <Number N>
Prediction<N> withCollect(const CollectedProblem &problem,
                          const CollectRounds &rounds,
                          const DeviceModel &device, Prediction<N> round);

} // namespace kiln
