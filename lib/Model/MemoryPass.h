//===- MemoryPass.h - the time of a memory-bound kernel -------------------===//
//
// The speed of a kernel that reads, computes little and writes follows from the
// bytes that it keeps in flight (Little, 1961). Its tasks alternate between
// waiting for loads and everything else, and during the latter they keep
// nothing in flight. So the bytes count that all resident tasks move in one
// task's life:
//
//   life       = load rounds * latency + reductions + a block's start and end
//   latency    : resident tasks * bytes of a task / life
//   bandwidth  : DRAM's for this mix of reads and writes, L2's for bytes that
//                are read once more
//   issue      : instructions of the SMs, results of their special units
//
// The least of them is the rate. None is reached to the last byte while another
// is close: times are joined by a p-norm, t = (sum t_i^p)^(1/p). Tasks run in
// waves; the last one has fewer tasks in flight.
//
// Kernels that reduce between their loads and their stores (rows) have a pace
// of their own: while a block reduces it has nothing in flight, and all blocks
// of the first wave do so at about the same time, unless they wait for loads
// often enough to drift apart.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Model/Figure.h"
#include "Model/Occupancy.h"

#include <cstdint>
#include <optional>

namespace kiln {

/// How the tasks of a kernel alternate between loads and stores.
enum class PassPace {
  Flows,  ///< each thread stores once its own loads have come
  Reduces ///< a task stores once all of its loads have come
};

/// The loads that a thread has in flight at once.
struct ThreadLoads {
  double vectors = 1;       ///< of each operand
  int64_t operands = 1;     ///< that are loaded alike
  int64_t elements = 1;     ///< of a vector
  int64_t elementBytes = 1; ///< of an element
  int64_t registers = 0;    ///< that hold them; 0: shared memory does
};

/// The counts of a memory-bound kernel's work, which follow from problem and
/// config. Bytes and operations are of the whole problem unless the name says
/// else.
struct PassWork {
  int64_t tasks = 1; ///< equal pieces of work, each of one block or cluster
  int64_t clusterSize = 1; ///< blocks that do a task together
  BlockResources block;
  /// Blocks to an SM of a grid that stays and strides over the tasks; 0: each
  /// task has a block of its own.
  int64_t persistentPerSm = 0;
  ThreadLoads loads;
  double readBytes = 0;   ///< from DRAM, once
  double writeBytes = 0;  ///< to DRAM, once
  double rereadBytes = 0; ///< read again by the task that read them before
  /// Bytes that would be read again if the chip did not keep them; for reports.
  double keptBytes = 0;
  double sharedBytesPerTask = 0; ///< read by every task: weights
  /// The share of bytes read again that comes from DRAM, where the kernel knows
  /// it; else it follows from the bytes in flight.
  std::optional<double> rereadMissShare;
  int64_t loadRounds = 1;   ///< waits for DRAM that a task has in a row
  int64_t rereadRounds = 0; ///< waits for bytes that it reads again
  PassPace pace = PassPace::Flows;
  double simdOps = 0;    ///< instructions of one lane
  double specialOps = 0; ///< exp2, rcp, rsqrt
};

/// The work of a memory-bound kernel with its costs, which are sums of named
/// ones.
template <Number N = double> struct MemoryPass : PassWork {
  N serialNs = 0;    ///< of a task, beside loads and instructions: reductions
  N lostShare = 0;   ///< of DRAM's bandwidth, by pieces that are short
  N lostInWaves = 0; ///< of the same, where tasks take the place of others
};

struct WaveNames;

/// The times of one wave of tasks, in ns, which pass side by side.
template <Number N> struct PassWave {
  int64_t tasks = 0;
  N dram = 0, l2 = 0, issue = 0, life = 0;

  N joined(const N &exponent) const {
    return norm(valueOf(exponent), {dram, l2, issue, life});
  }
};

/// The time of a kernel. Takes less than a microsecond over doubles.
template <Number N = double> struct PassModel {
  const MemoryPass<N> &kernel;
  const DeviceModel &device;

  Occupancy resident;
  int64_t slots = 0;          ///< tasks that are resident at once
  N moved = 0;                ///< B, once
  N taskBytes = 0;            ///< of `moved`
  N busyLatency = 0;          ///< of a load while DRAM is busy, in ns
  N inFlight = 0, needed = 0; ///< loads of an SM while all tasks wait, in B
  N rate = 0;                 ///< of DRAM for this mix, in B/ns
  N latency = 0;              ///< of a load, with the bytes in flight here
  N missShare = 0;            ///< of bytes read again: from DRAM
  N life = 0;                 ///< of a task, in ns
  PassWave<N> full, last;     ///< as many tasks as may run at once; the rest
  N exponent = 0;             ///< that joins the times of a wave
  N firstExponent = 0;        ///< by which the first wave is joined
  int64_t fullWaves;          ///< besides the first, if that is of its own
  N firstNs = 0, fullNs = 0;  ///< 0: there is no such wave
  N lastNs = 0;
  N total = 0;

  /// \p kernel must have tasks and threads, and fit an SM: residentTasks()
  /// above 0. Both arguments have to outlive the model.
  PassModel(const MemoryPass<N> &kernel, const DeviceModel &device);

  /// Whether all tasks run at once.
  bool isSingle() const { return kernel.tasks <= slots; }
  /// The limit that sets the time: "dram", "l2", "simd" or "latency".
  llvm::StringRef bound() const;
  /// \p start and the times of all waves.
  N withWaves(N start) const;
  /// A wave behind the others, with one block on each SM.
  N furtherWave() const;

private:
  static N count(auto value, llvm::StringLiteral name,
                 llvm::StringLiteral unit = "") {
    return given<N>(static_cast<double>(value), name, unit);
  }
  static N fit(double value, llvm::StringLiteral name,
               llvm::StringLiteral unit = "") {
    return fitted<N>(value, name, unit);
  }
  N at(auto member) const { return deviceValue<N>(device, member); }

  void computeFlight();
  void computeRate();
  void computeMissShare();
  void computeLife();
  void computeWaves();
  N turnaround() const;
  N laterExponent() const;
  N exponentOfFirst() const;
  PassWave<N> wave(int64_t size, const N &life, const WaveNames &names) const;
};

extern template struct PassModel<double>;
extern template struct PassModel<Figure>;

/// Tasks of \p kernel that are resident at once; 0 where an SM, or the SMs of
/// a cluster, hold none. \p occupancy is that of its blocks.
int64_t residentTasks(const PassWork &kernel, const Occupancy &occupancy,
                      const DeviceModel &device);

} // namespace kiln
