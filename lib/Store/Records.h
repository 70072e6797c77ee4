//===- Records.h - what trials found --------------------------------------===//
//
// A record is keyed by the family, everything of the problem that is fixed, and
// the class of the device. Inside it is a table over the dynamic extents: for
// each point that was tuned, every config that was measured and the winner. It
// is merged, never replaced, so that any number of processes may tune at once.
//
// A measurement is a fact: at an extent, a config of a kernel took a time, or
// is wrong, as a series of trials found. Times of one series were interleaved
// and can be compared with each other. Facts that range trials found at their
// anchors are kept beside those of values; portfolios are restored with them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Kernel/Estimate.h"
#include "Kernel/Family.h"
#include "Kernel/Space.h"
#include "Store/MergedStore.h"
#include "Store/MergedText.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <memory>
#include <mutex>
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
  /// Compared with the reference on a device of this class, and right.
  bool validated = false;
  std::string reason; ///< why it is not valid: a TrialStatus, then details
  double medianNs = 0, ciLowNs = 0, ciHighNs = 0;
  int64_t samples = 0;
  double predictedNs = 0;
  std::string bound;
  std::string kernel;       ///< kernelDigest() of its plan
  int64_t measuredAtMs = 0; ///< Unix time; decides which of two is newer
  /// Names the trials whose samples were interleaved; 0: not known.
  uint64_t series = 0;
  /// The kind of trials, one of kMeasuredAt...: of one config and mode, results
  /// of each kind are kept apart. Empty: trials of a value.
  std::string how;
  llvm::json::Object unknown; ///< fields of other versions, kept

  /// Trials of this very value measured it, so it counts for choices there.
  bool isOfValue() const;
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

/// Measurement::how. Trials of one value at its own extents.
inline constexpr llvm::StringLiteral kMeasuredAtValue = "value";
/// Trials of a range, at one of its anchors.
inline constexpr llvm::StringLiteral kMeasuredAtAnchor = "anchor";
/// The same, by the thread of the mode background, in short pieces.
inline constexpr llvm::StringLiteral kMeasuredInPieces = "background";
/// A number for Measurement::series that no other series has, which JSON's
/// numbers hold exactly.
uint64_t newSeries();

/// A point keeps so many measurements: more than one run takes, so that what
/// goes was found by earlier ones. The winner stays; of the rest the oldest run
/// goes first, and of one run the slowest.
inline constexpr size_t kMaxMeasurements = 512;
/// A record whose text would be longer keeps fewer measurements of each point,
/// down to kFewMeasurements; then the points that were measured longest ago go.
inline constexpr size_t kMaxRecordBytes = 16u << 20;
inline constexpr size_t kFewMeasurements = 8;

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
  llvm::json::Array unread;
  llvm::json::Object unknown;

  /// Whether a session may yet find a better winner.
  bool isIncomplete() const {
    return truncated > 0 && truncated < kMaxTruncated;
  }
  /// The measurement of \p config by trials of this value, null if there is
  /// none.
  const Measurement *find(llvm::StringRef config,
                          MeasurementMode mode = MeasurementMode::Cold) const;
};

class RecordLine;
class RefusalIndex;

/// A record's content. Points are sorted by their extents, each once. Their
/// text is read when one is first asked for. Copies share what was read.
class TuningRecord {
public:
  static constexpr MergedKind kKind{cache::Kind::Record, "record",
                                    kMaxRecordBytes,
                                    /*maxKeptBytes=*/64u << 20};

  /// Opens text of any origin, without reading its points. Error
  /// (InvalidArgument): the text is no record at all. Cost: a look at the first
  /// bytes of each line.
  static llvm::Expected<TuningRecord> open(std::string text);
  /// The same, and reads all points: lines that cannot be read are in unread().
  static llvm::Expected<TuningRecord> parse(std::string text);
  std::string text() const;
  size_t shrink(size_t most);

  size_t size() const { return lines.size(); }
  bool empty() const { return lines.empty(); }
  /// The points, by extents. One that turns out to be damaged has nothing but
  /// its extents. Thread-safe, as all that is const. Cost: parses the text of a
  /// point that is asked for the first time.
  const ExtentPoint &extentsAt(size_t i) const;
  const RecordPoint &at(size_t i) const;
  /// The point of \p extents, null if there is none. Cost: a binary search.
  const RecordPoint *find(llvm::ArrayRef<int64_t> extents) const;
  /// The index of the first point that is not before \p extents.
  size_t lowerBound(llvm::ArrayRef<int64_t> extents) const;
  const RecordLine &lineAt(size_t i) const { return *lines[i]; }
  /// Made when it is first asked for.
  const RefusalIndex &refusals() const;

  /// Parts that could not be read: points, measurements, and what was there
  /// twice. Damaged parts (a time that is negative, not finite or missing) are
  /// skipped. Reads all points.
  uint64_t skipped() const;
  /// Lines that could not be read, which the text keeps.
  const std::vector<std::string> &unread() const { return other.unread; }
  const llvm::json::Object &unknown() const { return other.head; }

  /// Adds \p point: measurements are united, damaged ones are left out, and the
  /// winner is chosen by generation as RecordPoint::generation says. Within a
  /// generation that of the search which left out less wins.
  /// A winner that is not a validated measurement of the point loses to one
  /// that is. Of two measurements of one config, mode and Measurement::how the
  /// one of a higher generation stays; within a generation what comes in
  /// replaces one of another kernel; otherwise the newer stays, where a time
  /// later than \p nowMs by more than a day counts as 0. Comparisons
  /// come before all that: a failed launch never replaces a valid measurement,
  /// of one kernel the verdict that it is wrong and a time that was never
  /// compared the verdict stays, and a time is validated if either of two is.
  /// At most \p most measurements are left at the point: see kMaxMeasurements.
  void merge(const RecordPoint &point, int64_t nowMs = unixTimeMs(),
             size_t most = SIZE_MAX);
  /// Leaves \p most measurements a point, as kMaxMeasurements says.
  void trim(size_t most, int64_t nowMs = unixTimeMs());

private:
  using LinePtr = std::shared_ptr<const RecordLine>;
  void sortLines();
  void readAll();
  size_t dropOldest(size_t most);

  std::vector<LinePtr> lines;
  /// Not copied: copies are made to be changed.
  struct Lazy {
    Lazy() = default;
    Lazy(const Lazy &) {}
    Lazy &operator=(const Lazy &) {
      refusals = nullptr;
      return *this;
    }
    std::mutex mutex; ///< guards what follows
    std::shared_ptr<const RefusalIndex> refusals;
  };

  OtherText other;
  uint64_t repeated = 0; ///< lines of a point that was there
  mutable Lazy lazy;
};

/// Adds \p point to \p into, which is of the same extents:
/// TuningRecord::merge() without its limit.
void mergePoint(RecordPoint &into, const RecordPoint &point, int64_t nowMs);
/// Leaves \p most measurements of \p point, as kMaxMeasurements says. Returns
/// how many went.
size_t trimPoint(RecordPoint &point, size_t most, int64_t nowMs);

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
  Values config;
  const Measurement *measurement = nullptr;
};

struct IndexedPoint;

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
  /// launched at the asked extent, or at the nearest anchor of a range.
  /// (Whether it is wrong, Verdicts say.) May also be asked where nothing
  /// matches.
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
  std::shared_ptr<const TuningRecord> record;
  /// Of the point that matched, and of the asked one; null if absent.
  std::shared_ptr<const IndexedPoint> matched, asked;
  ExtentPoint askedExtents;
  llvm::StringSet<> refused; ///< configs, and config and kernel
};

/// Whether trials at the extent of \p match found nothing that is right, and a
/// kernel that they found wrong there still is: its verdict was not taken back.
bool foundNoneRight(const RecordMatch &match, const Verdicts &verdicts,
                    llvm::StringRef deviceClass);

using RecordStoreOptions = MergedOptions;

/// Records in the cache, see MergedStore. Thread-safe. The cache store and the
/// families must outlive it.
class RecordStore {
public:
  explicit RecordStore(cache::Store &cache, RecordStoreOptions options = {});
  ~RecordStore();

  /// What was measured for \p problem: at its extents, or at the nearest ones.
  /// Only points with a validated config that the family knows count; whether a
  /// device allows a config is for Template::prune to say. Cost: microseconds
  /// once the point is read; once a second it asks the file system whether the
  /// record has changed, and then reads the file and looks at its lines:
  /// milliseconds for 1,000 points of 8 measurements.
  RecordMatch find(const KernelFamily &family, const Problem &problem,
                   llvm::StringRef deviceClass,
                   MeasurementMode mode = MeasurementMode::Cold,
                   RecordAge age = RecordAge::Recent) const;

  /// Which kernels trials found wrong. Thread-safe.
  Verdicts &verdicts() const { return *wrong; }

  /// The whole record as it is now; empty if there is none. Never null. Asks
  /// the file system each time.
  std::shared_ptr<const TuningRecord> load(const KernelFamily &family,
                                           const Problem &problem,
                                           llvm::StringRef deviceClass) const;

  struct StoreResult {
    RecordPoint point; ///< as it now is: adopt its winner
    cache::PublishResult publish;
  };
  /// Merges \p point into the record, see MergedStore::update(). A cache that
  /// cannot keep it says so in the result. Cost: milliseconds.
  StoreResult store(const KernelFamily &family, const Problem &problem,
                    llvm::StringRef deviceClass, const RecordPoint &point);
  /// The same for several points of the layer of \p problem, in one update.
  cache::PublishResult storeAll(const KernelFamily &family,
                                const Problem &problem,
                                llvm::StringRef deviceClass,
                                llvm::ArrayRef<RecordPoint> points);

private:
  MergedStore<TuningRecord>::Updated merge(const KernelFamily &family,
                                           const Problem &problem,
                                           llvm::StringRef deviceClass,
                                           llvm::ArrayRef<RecordPoint> points);

  MergedStore<TuningRecord> entries;
  std::unique_ptr<Verdicts> wrong;
};

} // namespace kiln
