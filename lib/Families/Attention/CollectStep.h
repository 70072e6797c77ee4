//===- CollectStep.h - the step that collects K and V for a kernel --------===//
//
// Kernels that multiply tiles want K and V of the type of Q, in rows that wide
// copies read. Where a problem has them otherwise (e4m3 beside 16-bit queries,
// pages of a few tokens), a step ahead of the kernel writes such rows to the
// workspace (attention/CollectRows.cuh), and the kernel runs on them as on any.
// That moves 3 bytes an element, which a prefill hardly notices. Where rows
// have no alignment that wide copies want, Q is collected as well, head dims
// are filled up with zeros, and a step behind the kernel delivers O.
//
// A *unit* is a head of K of one sequence, or of all that are packed. A launch
// has rounds of as many units as its workspace holds; they are independent of
// each other, so results do not depend on that number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Derivation.h"
#include "Kernel/Estimate.h"
#include "Kernel/Plan.h"

#include <array>
#include <optional>

namespace kiln {

/// Units that a launch takes at once.
struct CollectRounds {
  int64_t sequences = 1, heads = 1; ///< of K, of a round
  int64_t sequenceRounds = 1, headRounds = 1;

  int64_t count() const { return sequenceRounds * headRounds; }
};

/// A problem whose K and V are collected, with Q where its type changes.
class CollectedProblem {
public:
  /// Rows are collected as \p type. \p splits: of the keys, by the kernel
  /// behind, whose partial results are a part of what a unit needs; 0: it takes
  /// what its plan has for a round, whatever the units of a launch are.
  /// \p align: of the problem's signature.
  CollectedProblem(const AttentionProblem &problem, int align, DType type,
                   int64_t splits);

  /// Whether no operand has rows that kernels read and write as they are.
  bool isUnaligned() const { return unaligned; }
  bool collectsQueries() const { return unaligned || given.dtype != type; }

  /// Rounds of as many units as \p room bytes hold, one at least.
  CollectRounds roundsWithin(int64_t room) const;
  /// Bytes of the workspace that a round takes, partial results included
  /// unless splits are 0.
  int64_t roundBytes(const CollectRounds &rounds) const;
  bool countsPartials() const { return splits > 0; }
  /// A round as the kernel sees it.
  AttentionProblem ofRound(const CollectRounds &rounds) const;

  /// An operand in the workspace of a round: rows of a head follow each other,
  /// heads of a sequence do, and sequences.
  struct Rows {
    int64_t offset = 0;   ///< bytes
    int64_t elements = 0; ///< of a row as its caller has it
    int64_t width = 0;    ///< of a row, zeros included
    int64_t pitch = 0;    ///< elements
    int64_t rows = 0, heads = 0, sequences = 0;

    AttentionStrides strides() const {
      return {pitch, rows * pitch, heads * rows * pitch};
    }
  };
  /// K, V, Q and O, the latter two without rows unless they are collected; the
  /// last one ends at \p end bytes.
  std::array<Rows, 4> rowsOf(const CollectRounds &rounds, int64_t &end) const;

  /// Nanoseconds of the steps that collect, of all rounds.
  double collectNs(const CollectRounds &rounds,
                   const DeviceModel &device) const;

private:
  /// A head dim as the kernel has it, and from row to row.
  int64_t widthOf(int64_t elements) const;
  int64_t pitchOf(int64_t elements) const;
  /// Bytes of a unit, and of a head of all sequences, whatever their number.
  int64_t unitBytes() const;
  int64_t headBytes() const;

  const AttentionProblem &given;
  int align;
  DType type;
  int64_t splits;
  bool unaligned;
  int64_t sequences; ///< that units share out: packed ones are one
};

/// Bytes of collected rows that plans have room for, in MiB, best first: few
/// rounds, and what stays in L2 and within small limits of the workspace.
inline constexpr int kCollectRooms[] = {128, 32};
/// Of a round, whatever the room: a head of more keys is left to others.
inline constexpr double kMaxCollectBytes = double(int64_t(1000) << 20);

/// Makes of \p plan, of a round of \p problem, the plan of \p problem: with
/// one more kernel, scratch ahead of the kernel's own, and a binder that
/// collects first.
void prependCollect(const AttentionProblem &problem, DType type, int64_t splits,
                    const CollectRounds &rounds, const DeviceModel &device,
                    Plan &plan);

/// The workspace of a plan, given that of a round.
WorkspaceLayout withCollected(const CollectedProblem &problem,
                              const CollectRounds &rounds,
                              WorkspaceLayout layout);

/// Makes of the estimate of a round, and of its derivation, that of the launch.
void addCollect(const CollectedProblem &problem, const CollectRounds &rounds,
                const DeviceModel &device, Estimate &estimate);
void explainCollect(const CollectedProblem &problem,
                    const CollectRounds &rounds, const DeviceModel &device,
                    Derivation &derivation);

} // namespace kiln
