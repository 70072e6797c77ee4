//===- Walls.h - the limits of a kernel, for derivations ------------------===//
//
// Registers bound a tile from above, shared memory the depth of its ring, and
// latency that depth from below. Each limit is a step of its own, in the order
// in which a kernel's author meets them. All amounts are those that the plan
// has.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Derivation.h"
#include "Model/Occupancy.h"
#include "Model/Pipeline.h"
#include "Model/Traffic.h"

#include <limits>
#include <optional>
#include <string>

namespace kiln {

/// Registers of one thread of a kernel with accumulators.
struct RegisterUse {
  /// Elements of the tile, and the threads that share them.
  int64_t tileM = 0, tileN = 0, threads = 1;
  int64_t further = 0; ///< accumulators beside these: sums that are promoted
  int64_t fragmentsA = 0, fragmentsB = 0;
  int64_t others = 0; ///< addresses, counters, the epilogue's values
  int64_t limit = 0;
  std::string limitOf =
      {}; ///< "a multiplying thread", "a thread, 2 blocks an SM"
};
void addRegisterWall(const RegisterUse &use, Derivation &steps);

/// Shared memory of one block: stages of a ring, and the rest.
struct SharedUse {
  int64_t stages = 0;
  double bytesA = 0, bytesB = 0; ///< of a stage; B 0: there is one operand
  int64_t bytes = 0;             ///< all that a block takes
  int64_t limit = 0;
  int64_t blocksPerSm = 1;
  llvm::StringLiteral nameA = "of A", nameB = "of B";
  llvm::StringLiteral nameRest = "epilogue and barriers";
};
void addSharedWall(const SharedUse &use, Derivation &steps);

/// Appends what accumulators of a tile in shared memory would take beside a
/// ring of stages: the alternative to registers.
void addAccumulatorTrade(int64_t tileM, int64_t tileN, double stageBytes,
                         Derivation &steps);

/// Says of the step that \p traffic's misses have how often each byte is asked
/// for; and, unless \p bound is DRAM, why the intensity of a tile below the
/// problem's ridge is no bound.
void amendReuse(const Traffic &traffic, llvm::StringRef bound,
                Derivation &steps);

/// Appends S_min of \p ring, the time that each number of stages up to four
/// would leave exposed, and the exposed time of a step. \p pacer: the resource
/// that sets the pace; \p bound: the estimate's.
void addLatencyWall(const StageRing<Figure> &ring, llvm::StringRef pacer,
                    llvm::StringRef bound, Derivation &steps);

/// Appends the blocks that an SM holds, by each resource.
void addOccupancy(const Occupancy &occupancy, const DeviceModel &device,
                  Derivation &steps);

/// Appends the \p work of a warp's step, in ns, by all warps of an SM, against
/// the latency that they have to hide.
void addWarpsWall(int64_t warpsPerSm, const Figure &work, const Figure &latency,
                  Derivation &steps);

/// The bytes in flight of an SM, and those that latency and rate ask for.
struct LittlesLaw {
  Figure inFlight; ///< B an SM, a named result
  Figure latency;  ///< ns
  Figure rate;     ///< B/ns of the chip
  /// More than this many times the need costs something, if anything does.
  double most = std::numeric_limits<double>::infinity();
  std::optional<Figure> needed = {}; ///< if the model has it
  std::string lives =
      {}; ///< the share that the rest of the tasks' lives leaves of it
};
/// Appends Little's law; \p bound: the estimate's.
void addLittlesLaw(const LittlesLaw &law, llvm::StringRef bound,
                   const DeviceModel &device, Derivation &steps);

/// A kernel whose work runs in waves, or in turns of blocks that stay.
struct FurtherWave {
  llvm::StringRef pieces = "blocks"; ///< of the work, a literal
  llvm::StringRef places = "SMs";    ///< that have them, a literal
  double count = 0;                  ///< of the pieces
  double placeCount = 1;
  double room = 0; ///< pieces that the last wave could have beside its own
  /// The time of a further wave with one piece in each place, by the model of
  /// the others, and that of all waves there are.
  double furtherNs = 0;
  Figure all = {};
  std::string note = {};
};

/// Appends how many pieces a place has and has room for, and the share of all
/// waves that a further one would take. With at least four pieces in each place
/// that is a quarter or so, the usual check of a grid. Appends nothing if waves
/// take no time.
void addFurtherWave(const FurtherWave &wave, Derivation &steps);

} // namespace kiln
