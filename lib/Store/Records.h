//===- Records.h - what trials found --------------------------------------===//
//
// A record is keyed by the family, everything of the problem that is fixed, and
// the class of the device. Inside it is a table over the dynamic extents: for
// each point that was tuned, every config that was measured and the winner. It
// is merged, never replaced, so that any number of processes may tune at once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Kernel/Estimate.h"
#include "Kernel/Family.h"
#include "Kernel/Space.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

class Verdicts;

/// What the L2 cache held when a trial began.
enum class MeasurementMode {
  Cold, ///< buffers rotate: operands come from DRAM
  Hot,  ///< the same buffers again and again
};
llvm::StringRef nameOf(MeasurementMode mode);

/// One config, measured at one point of the dynamic extents. Times are in ns. A
/// config that is not valid has a reason and no times.
struct Measurement {
  std::string config; ///< "mma.bm128.bn128"
  MeasurementMode mode = MeasurementMode::Cold;
  bool valid = true;
  /// Compared with the reference on a device of this class, and right. Records
  /// of older versions do not say so: in these it is true of the winner alone.
  bool validated = false;
  std::string reason; ///< why it is not valid: a TrialStatus, then details
  double medianNs = 0, ciLowNs = 0, ciHighNs = 0;
  int64_t samples = 0;
  double predictedNs = 0;
  std::string bound;
  std::string kernel;         ///< kernelDigest() of its plan
  int64_t measuredAtMs = 0;   ///< Unix time; decides which of two is newer
  llvm::json::Object unknown; ///< fields of other versions, kept

  /// Copies what \p estimate predicts.
  void setEstimate(const Estimate &estimate);
  /// Whether it can be true, and be written as JSON.
  bool isSound() const;
  /// Trials found its results wrong: out of the tolerance, out of bounds, or
  /// not written. Whether that stands is for Verdicts to say.
  bool isWrong() const;
  /// Its kernel must not run at this extent: it is wrong, or cannot be
  /// launched. A driver error that others of the process may have caused, which
  /// older versions recorded too, says nothing about it.
  bool isRejection() const;
};

/// A point keeps so many measurements: more than one run takes, so that what
/// goes was found by earlier ones. The winner stays; of the rest the oldest run
/// goes first, and of one run the slowest.
inline constexpr size_t kMaxMeasurements = 512;
/// A record whose text would be longer keeps fewer measurements of each point.
inline constexpr size_t kMaxRecordBytes = 16u << 20;

/// Generations of a point: as far as JSON's numbers are exact.
inline constexpr int64_t kMaxGeneration = int64_t(1) << 53;
/// So many truncated sessions end a point: what keeps trials from running
/// stays.
inline constexpr int64_t kMaxTruncated = 3;

/// The measurements at one point of the dynamic extents.
struct RecordPoint {
  ExtentPoint extents; ///< dynamicExtentsOf() of the problem
  /// Counts tuning runs of this point. Of two winners with one generation the
  /// first that was stored stays: a second writer adopts it, so that all
  /// ranks of a job agree. To tune again, store with the next generation.
  int64_t generation = 0;
  /// Sessions up to the one that found the winner, of which each had trials
  /// that were kept from running by what says nothing about configs. 0: the
  /// winner's had none.
  int64_t truncated = 0;
  /// LeftOut::leastBytes of the search that found the winner: an allowance kept
  /// configs from being tried, of which this is the least workspace. Who allows
  /// that much may find a better winner.
  uint64_t leftOutBytes = Allowance::kUnlimited;
  /// A config's text; empty: none was validated.
  std::string winner;
  std::vector<Measurement> measurements;
  /// Measurements that could not be read, kept when the record is written
  /// unless they hold a number that JSON has not.
  std::vector<llvm::json::Value> unread;
  llvm::json::Object unknown;

  /// Whether a session may yet find a better winner.
  bool isIncomplete() const {
    return truncated > 0 && truncated < kMaxTruncated;
  }
  /// The measurement of \p config, null if there is none.
  const Measurement *find(llvm::StringRef config,
                          MeasurementMode mode = MeasurementMode::Cold) const;
};

/// A record's content. Points are sorted by their extents, each once.
struct TuningRecord {
  std::vector<RecordPoint> points;
  /// Points that could not be read, kept when the record is written.
  std::vector<llvm::json::Value> unread;
  uint64_t skipped = 0; ///< points and measurements that could not be read
  llvm::json::Object unknown;

  /// The point of \p extents, null if there is none. Cost: a binary search.
  const RecordPoint *find(llvm::ArrayRef<int64_t> extents) const;
  RecordPoint *find(llvm::ArrayRef<int64_t> extents);
  /// Parses JSON of any origin. What is damaged (a time that is negative, not
  /// finite or missing, a repeated config) is skipped and counted. The terms of
  /// estimates, which older versions wrote, are dropped. Error
  /// (InvalidArgument): the text is no JSON object of a record at all.
  static llvm::Expected<TuningRecord> parse(llvm::StringRef json);
  llvm::json::Object toJson() const;
};

/// The time of Measurement::measuredAtMs.
int64_t unixTimeMs();

/// Adds \p point to \p record: measurements are united, damaged ones are left
/// out, and the winner is chosen by generation as RecordPoint::generation says.
/// Within a generation that of the search which left out less wins.
/// A winner that is not a validated measurement of the point loses to one that
/// is. Of two measurements of one config and mode the one of a higher
/// generation stays; within a generation what comes in replaces one of another
/// kernel; otherwise the newer stays, where a time later than \p nowMs by more
/// than a day counts as 0. What was compared comes before all that: a failed
/// launch never replaces a valid measurement, of one kernel the verdict that it
/// is wrong and a time that was never compared the verdict stays, and a time is
/// validated if either of two is.
void mergePoint(TuningRecord &record, const RecordPoint &point,
                int64_t nowMs = unixTimeMs());
/// Leaves \p most measurements a point, as kMaxMeasurements says.
void trimRecord(TuningRecord &record, size_t most,
                int64_t nowMs = unixTimeMs());

/// The text that keys a problem's record for devices of class \p deviceClass
/// (deviceClassKey() of the model).
std::string recordKey(const KernelFamily &family, const Problem &problem,
                      llvm::StringRef deviceClass);

/// The values of the problem's dynamic extents, a lone 0 if its family has
/// none.
ExtentPoint dynamicExtentsOf(const KernelFamily &family,
                             const Problem &problem);

/// How well a record matched a problem: a value, not an error.
enum class RecordMatchKind {
  None,      ///< nothing usable
  Exact,     ///< measured at these very extents
  Neighbour, ///< measured at others; the model must re-score
};

/// A measured config that the family still knows. The measurement lives as long
/// as the match that holds this.
struct RecordedConfig {
  const Template *tmpl = nullptr;
  Record config;
  const Measurement *measurement = nullptr;
};

struct IndexedRecord;

/// What a record says about a problem: views of a record that is kept parsed.
struct RecordMatch {
  RecordMatchKind kind = RecordMatchKind::None;
  ExtentPoint extents; ///< of the point that matched
  int64_t generation = 0;
  /// Valid configs: the winner if it is among them, then by time what was
  /// validated, then by time what was only measured and must not be launched
  /// unproven. Whether their kernels are today's is told by
  /// Measurement::kernel.
  llvm::ArrayRef<RecordedConfig> configs;
  size_t validatedCount = 0; ///< so many of configs; at least 1 in a match
  /// Trials at this very extent found wrong results and none that are right.
  /// See foundNoneRight() for whether that still stands.
  bool foundNoneRight = false;
  /// Exact, and RecordPoint::isIncomplete().
  bool isIncomplete = false;
  int64_t truncated = 0; ///< RecordPoint::truncated, if Exact
  /// RecordPoint::leftOutBytes of the point that matched.
  uint64_t leftOutBytes = Allowance::kUnlimited;
  /// Parts that were damaged, or configs that the family does not know.
  uint64_t skipped = 0;

  explicit operator bool() const { return kind != RecordMatchKind::None; }
  llvm::ArrayRef<RecordedConfig> validated() const {
    return configs.take_front(validatedCount);
  }
  /// Whether \p kernel, the kernelDigest() of \p config's plan, could not be
  /// launched at the asked extent. (Whether it is wrong, Verdicts say.) May
  /// also be asked where nothing matches.
  bool refuses(llvm::StringRef config, llvm::StringRef kernel) const;
  /// Whether refuses() may be true of some kernel of \p config: what to ask
  /// first where a kernel's digest is yet to be made.
  bool mayRefuse(llvm::StringRef config) const;

  /// Whether the search of the point that matched left out configs that a
  /// caller with \p allowance may take for \p problem. Then the record is
  /// incomplete for him alone. Cost: where \p allowance has a largest problem
  /// and something was left out, that of exploreSpace().
  bool leavesOut(const KernelFamily &family, const Problem &problem,
                 const DeviceModel &device, const Allowance &allowance) const;

  /// All that was measured at the asked extent, null if nothing was. Lives as
  /// long as the match.
  const RecordPoint *point() const;

  /// Keeps all of the above alive.
  std::shared_ptr<const IndexedRecord> record;
  ExtentPoint askedExtents;
};

/// Whether trials at the extent of \p match found nothing that is right, and a
/// kernel that they found wrong there still is: its verdict was not taken back.
bool foundNoneRight(const RecordMatch &match, const Verdicts &verdicts,
                    llvm::StringRef deviceClass);

/// How old what find() answers may be, where another process has stored.
enum class RecordAge {
  Recent, ///< RecordStoreOptions::recheckInterval: for calls that are many
  Now,    ///< it asks the file system whether the record has changed
};

struct RecordStoreOptions {
  /// How long what was read counts as RecordAge::Recent.
  std::chrono::milliseconds recheckInterval{1000};
  /// Text of the records that are kept parsed, which takes some times that; the
  /// one used least recently goes first.
  uint64_t maxKeptBytes = 64u << 20;
};

/// Records in the cache. Thread-safe. Records are kept parsed. The cache store,
/// whose log is told of records that cannot be read or kept, and the families
/// must outlive it.
class RecordStore {
public:
  explicit RecordStore(cache::Store &cache, RecordStoreOptions options = {});
  ~RecordStore();

  /// What was measured for \p problem: at its extents, or at the nearest ones.
  /// Only points with a validated config that the family knows count; whether a
  /// device allows a config is for Template::prune to say. Cost: microseconds
  /// once the record is kept; once a second it asks the file system whether the
  /// record has changed, and then reads and parses it.
  RecordMatch find(const KernelFamily &family, const Problem &problem,
                   llvm::StringRef deviceClass,
                   MeasurementMode mode = MeasurementMode::Cold,
                   RecordAge age = RecordAge::Recent) const;

  /// Which kernels trials found wrong. Thread-safe.
  Verdicts &verdicts() const;

  /// The whole record as it is now; empty if there is none. Never null. Asks
  /// the file system each time.
  std::shared_ptr<const TuningRecord> load(const KernelFamily &family,
                                           const Problem &problem,
                                           llvm::StringRef deviceClass) const;

  struct StoreResult {
    RecordPoint point; ///< as it now is: adopt its winner
    cache::PublishResult publish;
  };
  /// Merges \p point into the record under the cache's lock; the record is not
  /// read again where it is as find() or load() saw it, once the file was two
  /// seconds old. A cache that cannot keep it says so in the result. A record
  /// that is there and cannot be read is kept aside, under a key of its own,
  /// before it is replaced; where that fails it stays and the point is dropped.
  /// Cost: milliseconds.
  StoreResult store(const KernelFamily &family, const Problem &problem,
                    llvm::StringRef deviceClass, const RecordPoint &point);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
