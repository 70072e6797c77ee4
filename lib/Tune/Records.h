//===- Records.h - what trials found --------------------------------------===//
//
// A record is keyed by the family, everything of the problem that is fixed, and
// the class of the device. Inside it is a table over the dynamic extent: for
// each value that was tuned, every config that was measured and the winner. It
// is merged, never replaced, so that any number of processes may tune at once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Kernel/Estimate.h"
#include "Kernel/Family.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// What the L2 cache held when a trial began.
enum class MeasurementMode {
  Cold, ///< buffers rotate: operands come from DRAM
  Hot,  ///< the same buffers again and again
};
llvm::StringRef nameOf(MeasurementMode mode);

/// A term of the estimate beside a measured time.
struct MeasuredTerm {
  std::string name;
  double value = 0;
  std::string unit;
};

/// One config, measured at one value of the dynamic extent. Times are in ns. A
/// config that is not valid has a reason and no times.
struct Measurement {
  std::string config; ///< "mma.bm128.bn128"
  MeasurementMode mode = MeasurementMode::Cold;
  bool valid = true;
  std::string reason; ///< why it is not valid
  double medianNs = 0, ciLowNs = 0, ciHighNs = 0;
  int64_t samples = 0;
  double predictedNs = 0;
  std::string bound;
  std::vector<MeasuredTerm> terms;
  std::string kernel;         ///< kernelDigest() of its plan
  int64_t measuredAtMs = 0;   ///< Unix time; decides which of two is newer
  llvm::json::Object unknown; ///< fields of other versions, kept

  /// Copies what \p estimate predicts.
  void setEstimate(const Estimate &estimate);
};

/// The measurements at one value of the dynamic extent.
struct RecordPoint {
  int64_t extent = 0; ///< 0 for a family without a dynamic extent
  /// Counts tuning runs of this point. Of two winners with one generation the
  /// first that was stored stays: whoever comes second adopts it, so that all
  /// ranks of a job agree. To tune anew, store with the next generation.
  int64_t generation = 0;
  std::string winner; ///< a config's text, or empty: none was valid
  std::vector<Measurement> measurements;
  /// Measurements that could not be read, kept when the record is written
  /// unless they hold a number that JSON has not.
  std::vector<llvm::json::Value> unread;
  llvm::json::Object unknown;

  /// The measurement of \p config, null if there is none.
  const Measurement *find(llvm::StringRef config,
                          MeasurementMode mode = MeasurementMode::Cold) const;
};

/// A record's content. Points are sorted by extent, each extent once.
struct TuningRecord {
  std::vector<RecordPoint> points;
  /// Points that could not be read, kept when the record is written.
  std::vector<llvm::json::Value> unread;
  uint64_t skipped = 0; ///< points and measurements that could not be read
  llvm::json::Object unknown;

  RecordPoint *find(int64_t extent);
  /// Parses JSON of any origin. What is damaged (a time that is negative, not
  /// finite or missing, a repeated config) is skipped and counted. Error
  /// (InvalidArgument): the text is no JSON object of a record at all.
  static llvm::Expected<TuningRecord> parse(llvm::StringRef json);
  llvm::json::Object toJson() const;
};

/// Adds \p point to \p record: measurements are united, of two of one config
/// and mode the newer stays, damaged ones are left out, and the winner is
/// chosen by generation as RecordPoint::generation says. A winner that is no
/// valid measurement of the point loses to one that is.
void mergePoint(TuningRecord &record, const RecordPoint &point);
/// Merges every point of \p from.
void mergeRecord(TuningRecord &record, const TuningRecord &from);

/// The text that keys a problem's record for devices of class \p deviceClass
/// (deviceClassKey() of the model).
std::string recordKey(const KernelFamily &family, const Problem &problem,
                      llvm::StringRef deviceClass);

/// The value of the problem's dynamic extent, 0 if its family has none.
int64_t dynamicExtentOf(const KernelFamily &family, const Problem &problem);

/// The bucket of an extent: values in one bucket may share their configs
/// without new trials. 1, 2, 3-4, 5-8, 9-16, ... have buckets 0, 1, 2, 3, 4.
int extentBucket(int64_t extent);

/// How well a record matched a problem: a value, not an error.
enum class RecordMatchKind {
  None,      ///< nothing usable
  Exact,     ///< measured at this very extent
  Neighbour, ///< measured at another extent; the model must re-score
};
llvm::StringRef nameOf(RecordMatchKind kind);

/// A measured config that the family still knows.
struct RecordedConfig {
  const Template *tmpl = nullptr;
  Record config;
  Measurement measurement;
};

struct RecordMatch {
  RecordMatchKind kind = RecordMatchKind::None;
  int64_t extent = 0;  ///< of the point that matched
  double distance = 0; ///< |log2(asked / matched)|; 0 if Exact
  bool sameBucket = false;
  int64_t generation = 0;
  /// The winner first if it is among them, then valid configs by time. Whether
  /// their kernels are today's is told by Measurement::kernel.
  std::vector<RecordedConfig> configs;
  bool hasWinner = false; ///< configs[0] is the winner
  /// Configs that must not be chosen: measured, and wrong or failing. They are
  /// facts only of the kernel whose digest they carry.
  std::vector<RecordedConfig> rejected;
  /// Parts that were damaged, or configs that the family does not know.
  uint64_t skipped = 0;

  explicit operator bool() const { return kind != RecordMatchKind::None; }
};

/// Records in the cache. Thread-safe; holds no state. The cache store must
/// outlive it.
class RecordStore {
public:
  explicit RecordStore(cache::Store &cache) : cache(&cache) {}

  /// What was measured for \p problem: at its extent, or at the nearest one of
  /// the same bucket, or at the nearest one. Only points with a valid config
  /// that the family knows count; whether a device allows a config is for
  /// Template::prune to say. Cost: reads and parses a file.
  RecordMatch find(const KernelFamily &family, const Problem &problem,
                   llvm::StringRef deviceClass,
                   MeasurementMode mode = MeasurementMode::Cold) const;

  /// The whole record; empty if there is none.
  TuningRecord load(const KernelFamily &family, const Problem &problem,
                    llvm::StringRef deviceClass) const;

  struct StoreResult {
    RecordPoint point; ///< as it now is: adopt its winner
    cache::PublishResult publish;
  };
  /// Merges \p point into the record under the cache's lock. A cache that
  /// cannot keep it says so in the result. Cost: milliseconds.
  StoreResult store(const KernelFamily &family, const Problem &problem,
                    llvm::StringRef deviceClass, const RecordPoint &point);

private:
  cache::Store *cache;
};

} // namespace kiln
