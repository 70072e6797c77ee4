//===- Records.h - facts that trials found --------------------------------===//
//
// A record is keyed by the family, everything of the problem that is fixed, and
// the class of the device. It holds a table over the dynamic extents: for each
// tuned point, every measured config and the winner. It is merged, never
// replaced, so that any number of processes may tune at once.
//
// A measurement is a fact: at an extent, a config of a kernel took a time, or
// is wrong, as a series of trials found. Times of one series were interleaved
// and can be compared with each other. Facts that trials of ranges found at
// their anchors are kept beside those of values; portfolios are restored with
// them.
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
#include <string>
#include <vector>

namespace kiln {

class Verdicts;

/// The contents of the L2 cache when a trial began.
enum class MeasurementMode {
  Cold, ///< buffers rotate: operands come from DRAM
  Hot,  ///< the same buffers in every run
};
llvm::StringRef nameOf(MeasurementMode mode);

/// One config, measured at one point of the dynamic extents. Times are in ns. A
/// config that is not valid has a reason and no times.
struct Measurement {
  std::string config; ///< "mma.bm128.bn128"
  MeasurementMode mode = MeasurementMode::Cold;
  bool valid = true;
  /// It was compared with the reference on a device of this class, and is
  /// right.
  bool validated = false;
  std::string reason; ///< why it is not valid: a TrialStatus, then details
  double medianNs = 0, ciLowNs = 0, ciHighNs = 0;
  int64_t samples = 0;
  double predictedNs = 0;
  std::string bound;
  std::string kernel;       ///< kernelDigest() of its plan
  int64_t measuredAtMs = 0; ///< Unix time; decides which of two is newer
  /// Identifies the trials whose samples were interleaved; 0: not known.
  uint64_t series = 0;
  /// The kind of trials, one of kMeasuredAt...: results of each kind for one
  /// config and mode are kept apart. Empty: trials of a value.
  std::string how;
  llvm::json::Object unknown; ///< fields of other versions, kept

  /// Whether trials of this very value measured it, so that it counts for
  /// choices there.
  bool isOfValue() const;
  /// Copies the prediction of \p estimate.
  void setEstimate(const Estimate &estimate);
  /// Whether it is plausible, and can be written as JSON.
  bool isSound() const;
  /// Whether trials found its results wrong: out of the tolerance, out of
  /// bounds, or not written. Verdicts tells whether that still holds.
  bool isWrong() const;
  /// Whether its kernel must not run at this extent: it is wrong, or cannot be
  /// launched. A driver error that other work of the process may have caused,
  /// which older versions recorded too, says nothing about it.
  bool isRejection() const;
};

/// Measurement::how. Trials of one value at its own extents.
inline constexpr llvm::StringLiteral kMeasuredAtValue = "value";
/// Trials of a range, at one of its anchors.
inline constexpr llvm::StringLiteral kMeasuredAtAnchor = "anchor";
/// Trials of a range in short pieces, by the thread of the mode background.
inline constexpr llvm::StringLiteral kMeasuredInPieces = "background";
/// Returns a number for Measurement::series that no other series has, and that
/// JSON's numbers hold exactly.
uint64_t newSeries();

/// The most measurements of a point: more than one run makes, so that only
/// earlier ones are dropped. The winner stays; the oldest run goes first, and
/// within a run the slowest config.
inline constexpr size_t kMaxMeasurements = 512;
/// A record whose text would be longer keeps fewer measurements of each point,
/// down to kFewMeasurements; then the points that were measured longest ago go.
inline constexpr size_t kMaxRecordBytes = 16u << 20;
inline constexpr size_t kFewMeasurements = 8;

/// The largest generation of a point: the limit up to which JSON's numbers are
/// exact.
inline constexpr int64_t kMaxGeneration = int64_t(1) << 53;
/// After this many truncated sessions a point counts as complete, because the
/// cause of the truncation seems to persist.
inline constexpr int64_t kMaxTruncated = 3;

/// The measurements at one point of the dynamic extents.
struct RecordPoint {
  ExtentPoint extents; ///< dynamicExtentsOf() of the problem
  /// Counts tuning runs of this point. Among winners of one generation the
  /// first stored one stays: a second writer adopts it, so that all ranks of a
  /// job agree. Tuning again stores with the next generation.
  int64_t generation = 0;
  /// The number of successive sessions, up to the one that found the winner, in
  /// which trials could not run for a reason that says nothing about configs.
  /// 0: the winner's session had none.
  int64_t truncated = 0;
  /// LeftOut::leastBytes of the search that found the winner: the least
  /// workspace of the configs that its allowance excluded. A caller that allows
  /// this much may find a better winner.
  uint64_t leftOutBytes = Allowance::kUnlimited;
  /// The text of the best validated config; empty if none was validated.
  std::string winner;
  std::vector<Measurement> measurements;
  /// Unreadable measurements, kept when the record is written unless they hold
  /// a number that JSON cannot represent.
  llvm::json::Array unread;
  llvm::json::Object unknown;

  /// Whether a session may yet find a better winner.
  bool isIncomplete() const {
    return truncated > 0 && truncated < kMaxTruncated;
  }
  /// Returns the measurement of \p config by trials of this value, null if
  /// there is none.
  const Measurement *find(llvm::StringRef config,
                          MeasurementMode mode = MeasurementMode::Cold) const;
};

class RecordLine;
class RefusalIndex;

/// The content of a record. Points are sorted by their extents, each once. The
/// text of a point is parsed at its first use, and copies share the result.
class TuningRecord {
public:
  static constexpr MergedKind kKind{cache::Kind::Record, "record",
                                    kMaxRecordBytes,
                                    /*maxKeptBytes=*/64u << 20};

  /// Opens text of any origin, without reading its points. Error
  /// (InvalidArgument): the text is not a record. Looks only at the first bytes
  /// of each line.
  static llvm::Expected<TuningRecord> open(std::string text);
  /// Opens the text and reads all points; unreadable lines are in unread().
  static llvm::Expected<TuningRecord> parse(std::string text);
  std::string text() const;
  size_t shrink(size_t most);

  size_t size() const { return lines.size(); }
  bool empty() const { return lines.empty(); }
  /// The points, by extents. A damaged point has only its extents. Thread-safe,
  /// like all const functions. Parses the text of a point at its first use.
  const ExtentPoint &extentsAt(size_t i) const;
  const RecordPoint &at(size_t i) const;
  /// The point of \p extents, null if there is none. Costs a binary search.
  const RecordPoint *find(llvm::ArrayRef<int64_t> extents) const;
  /// The index of the first point at or after \p extents.
  size_t lowerBound(llvm::ArrayRef<int64_t> extents) const;
  const RecordLine &lineAt(size_t i) const { return *lines[i]; }
  /// The index of refusals, made at its first use.
  const RefusalIndex &refusals() const;

  /// The number of skipped parts: unreadable points and measurements, and
  /// duplicates. Damaged parts (a time that is negative, not finite or missing)
  /// are skipped. Reads all points.
  uint64_t skipped() const;
  /// Unreadable lines, which the text keeps.
  const std::vector<std::string> &unread() const { return other.unread; }
  const llvm::json::Object &unknown() const { return other.head; }

  /// Adds \p point: measurements are united, damaged ones are left out, and the
  /// winner is chosen by RecordPoint::generation. Within a generation the
  /// winner of the search that left out less wins. A winner that is not a
  /// validated measurement of the point loses to one that is. If two
  /// measurements have the same config, mode and Measurement::how, the one of a
  /// higher generation stays; within a generation \p point's replaces one of
  /// another kernel; otherwise the newer stays, where a time later than \p
  /// nowMs by more than a day counts as 0. Comparisons with the reference come
  /// before all that: a failed launch never replaces a valid measurement, the
  /// verdict that a kernel is wrong stays against a time of it that was never
  /// compared, and a time is validated if either of two is. At most \p most
  /// measurements are left at the point: see kMaxMeasurements.
  void merge(const RecordPoint &point, int64_t nowMs = unixTimeMs(),
             size_t most = SIZE_MAX);
  /// Leaves \p most measurements a point, see kMaxMeasurements.
  void trim(size_t most, int64_t nowMs = unixTimeMs());

private:
  using LinePtr = std::shared_ptr<const RecordLine>;
  void sortLines();
  void readAll();
  size_t dropOldest(size_t most);

  std::vector<LinePtr> lines;
  /// Not copied, because copies are made to be changed.
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
  uint64_t repeated = 0; ///< the number of lines with a point that was there
                         ///< already
  mutable Lazy lazy;
};

/// Adds \p point to \p into, which has the same extents: TuningRecord::merge()
/// without its limit.
void mergePoint(RecordPoint &into, const RecordPoint &point, int64_t nowMs);
/// Leaves \p most measurements of \p point, see kMaxMeasurements. Returns the
/// number of dropped ones.
size_t trimPoint(RecordPoint &point, size_t most, int64_t nowMs);

/// The key of the record of the layer of \p problem, for devices of class \p
/// deviceClass (deviceClassKey() of the model).
std::string recordKey(const KernelFamily &family, const Problem &problem,
                      llvm::StringRef deviceClass);

/// The values of the problem's dynamic extents, a lone 0 if its family has
/// none.
ExtentPoint dynamicExtentsOf(const KernelFamily &family,
                             const Problem &problem);

/// The quality of the match of a record with a problem: a value, not an error.
enum class RecordMatchKind {
  None,      ///< nothing usable
  Exact,     ///< measured at these very extents
  Neighbour, ///< measured at other extents; the model must re-score
};

/// A measured config that the family still knows. The measurement lives as long
/// as the match that holds this.
struct RecordedConfig {
  const Template *tmpl = nullptr;
  Values config;
  const Measurement *measurement = nullptr;
};

struct IndexedPoint;

/// The facts of a record about a problem: views of a record that is kept
/// parsed.
struct RecordMatch {
  RecordMatchKind kind = RecordMatchKind::None;
  ExtentPoint extents; ///< of the point that matched
  int64_t generation = 0;
  /// Valid configs: the winner if it is among them, then validated ones by
  /// time, then by time the ones that were only measured and must not be
  /// launched unproven. Measurement::kernel tells whether their kernels are
  /// today's.
  llvm::ArrayRef<RecordedConfig> configs;
  size_t validatedCount = 0; ///< the validated ones of `configs`; at least 1 in
                             ///< a match
  /// Trials at this very extent found only wrong results. foundNoneRight()
  /// tells whether that still holds.
  bool foundNoneRight = false;
  /// Exact, and RecordPoint::isIncomplete().
  bool isIncomplete = false;
  int64_t truncated = 0; ///< RecordPoint::truncated, if Exact
  /// RecordPoint::leftOutBytes of the point that matched.
  uint64_t leftOutBytes = Allowance::kUnlimited;
  /// The number of damaged parts, and of configs that the family does not know.
  uint64_t skipped = 0;

  explicit operator bool() const { return kind != RecordMatchKind::None; }
  llvm::ArrayRef<RecordedConfig> validated() const {
    return configs.take_front(validatedCount);
  }
  /// Whether \p kernel, the kernelDigest() of \p config's plan, could not be
  /// launched at the asked extent, or at the nearest anchor of a range.
  /// (Verdicts tells whether it is wrong.) Valid also if nothing matches.
  bool refuses(llvm::StringRef config, llvm::StringRef kernel) const;
  /// Whether refuses() may be true for some kernel of \p config. A cheap test
  /// to make before a kernel's digest is computed.
  bool mayRefuse(llvm::StringRef config) const;

  /// Whether the search of the point that matched left out configs that a
  /// caller with \p allowance may take for \p problem. Then the record is
  /// incomplete for this caller alone. If \p allowance has a largest problem
  /// and something was left out, it costs an exploreSpace().
  bool leavesOut(const KernelFamily &family, const Problem &problem,
                 const DeviceModel &device, const Allowance &allowance) const;

  /// The measurements at the asked extent, null if there are none. Lives as
  /// long as the match.
  const RecordPoint *point() const;

  /// Keeps all of the above alive.
  std::shared_ptr<const TuningRecord> record;
  /// The index of the point that matched, and of the asked one; null if absent.
  std::shared_ptr<const IndexedPoint> matched, asked;
  ExtentPoint askedExtents;
  llvm::StringSet<> refused; ///< configs, and config and kernel
};

/// Whether trials at the extent of \p match found no correct kernel, and a
/// kernel that they found wrong there still is wrong: its verdict was not
/// withdrawn.
bool foundNoneRight(const RecordMatch &match, const Verdicts &verdicts,
                    llvm::StringRef deviceClass);

using RecordStoreOptions = MergedOptions;

/// Records in the cache, see MergedStore. Thread-safe. The cache store and the
/// families must outlive it.
class RecordStore {
public:
  explicit RecordStore(cache::Store &cache, RecordStoreOptions options = {});
  ~RecordStore();

  /// Finds the measurements for \p problem, at its extents or at the nearest
  /// ones. Only points with a validated config that the family knows count;
  /// Template::prune decides whether a device allows a config. Takes
  /// microseconds once the point is parsed; once a second it asks the file
  /// system whether the record has changed, and then reads the file and looks
  /// at its lines: milliseconds for 1,000 points of 8 measurements.
  RecordMatch find(const KernelFamily &family, const Problem &problem,
                   llvm::StringRef deviceClass,
                   MeasurementMode mode = MeasurementMode::Cold,
                   RecordAge age = RecordAge::Recent) const;

  /// The kernels that trials found wrong. Thread-safe.
  Verdicts &verdicts() const { return *wrong; }

  /// The current record as a whole; empty if there is none. Never null. Asks
  /// the file system each time.
  std::shared_ptr<const TuningRecord> load(const KernelFamily &family,
                                           const Problem &problem,
                                           llvm::StringRef deviceClass) const;

  struct StoreResult {
    RecordPoint point; ///< the merged point: adopt its winner
    cache::PublishResult publish;
  };
  /// Merges \p point into the record, see MergedStore::update(). If the cache
  /// cannot keep it, the result has the reason. Takes milliseconds.
  StoreResult store(const KernelFamily &family, const Problem &problem,
                    llvm::StringRef deviceClass, const RecordPoint &point);
  /// Stores several points of the layer of \p problem in one update.
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
