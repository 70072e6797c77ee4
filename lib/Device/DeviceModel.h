//===- DeviceModel.h - the numbers of a GPU, as plain data ----------------===//
//
// Everything that planning, estimating and compiling know about a GPU is in
// this one struct, so that all of it works without a GPU or a driver. One
// table, deviceFields(), names every value, its unit and its range; JSON in and
// out, printing and the source of each value are all driven by it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Types.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

namespace kiln {

/// Where a value of a DeviceModel came from, weakest to strongest.
enum class ValueSource : int32_t {
  Unset = 0,         ///< never set; the value is the zero of its type
  Fallback = 10,     ///< a guess that holds for any GPU, because nothing knew
  Architecture = 20, ///< a rule of the compute capability
  Catalog = 30,      ///< data sheet or measurement of this product
  Nvml = 40,         ///< the management library
  Driver = 50,       ///< an attribute of the CUDA driver
  Calibration = 60,  ///< measured on a board of this class: kiln calibrate
  Override = 70,     ///< the user's JSON file
};

/// Returns the name of \p source as `kiln info` prints it, e.g. "catalog".
llvm::StringRef nameOf(ValueSource source);

/// Numeric types that have a rate of their own in hardware. tf32 is one here:
/// unlike storage, arithmetic distinguishes it from fp32.
enum class RateType : int32_t {
  FP64 = 0,
  FP32 = 10,
  TF32 = 20,
  FP16 = 30,
  BF16 = 40,
  FP8 = 50,
  INT8 = 60,
  INT32 = 70,
};

/// The type whose rate bounds a contraction of \p type data in \p mode.
RateType rateTypeOf(DType type, ComputeMode mode);

/// Source of one value, with a short note such as "data sheet" or the name of
/// the attribute.
struct ValueOrigin {
  ValueSource source = ValueSource::Unset;
  std::string note;
};

/// Threads of a warp, on every GPU.
inline constexpr int64_t kWarpThreads = 32;

/// Number of entries of deviceFields().
inline constexpr size_t kDeviceFieldCount = 51;

/// The numbers of one GPU. A plain value: copy it freely; const access is
/// thread-safe. A flop is half a multiply-add. "GB" is 1e9 bytes, so a GB/s is
/// a byte per nanosecond. Integer operations are counted like flops.
struct DeviceModel {
  // Identity.
  std::string name;       ///< catalog name, or made from the marketing name
  std::string uuid;       ///< of the live GPU, empty for a catalog entry
  std::string migProfile; ///< e.g. "1g.18gb"; empty without MIG
  int64_t ccMajor = 0;
  int64_t ccMinor = 0;

  // Multiprocessors.
  int64_t smCount = 0; ///< those visible to this process
  int64_t subCoresPerSm = 0;
  int64_t registersPerSm = 0; ///< 32-bit registers
  int64_t maxRegistersPerThread = 0;
  int64_t maxWarpsPerSm = 0;
  int64_t maxBlocksPerSm = 0;
  int64_t maxThreadsPerBlock = 0;
  int64_t sharedBytesPerSm = 0;
  int64_t sharedBytesPerBlock = 0; ///< the opt-in limit
  int64_t sharedBytesReservedPerBlock = 0;
  double sharedBytesPerClockPerSm = 0; ///< read or write bandwidth

  /// Clusters of 2, 4 and 8 blocks that are resident at once with one block to
  /// an SM; 0 where the architecture has no clusters.
  int64_t maxClusters2 = 0;
  int64_t maxClusters4 = 0;
  int64_t maxClusters8 = 0;

  // Clocks. Each class of estimator term has a clock of its own that a board
  // holds under that kind of load.
  double smClockMHz = 0;              ///< the maximum, never the current one
  double sustainedTensorClockMHz = 0; ///< SM clock under dense tensor work
  double sustainedMemoryClockMHz = 0; ///< SM clock under memory-bound work
  double memoryClockMHz = 0;          ///< half the data rate per pin
  double powerLimitWatts = 0;

  // Memory. Bandwidths are those that a good kernel reaches; the peak of the
  // pins is dramPeakBytesPerNs().
  int64_t memoryBusBits = 0;
  int64_t memoryBytes = 0;
  int64_t l2Bytes = 0;
  double dramGBs = 0;      ///< reading
  double dramWriteGBs = 0; ///< writing only
  double l2GBs = 0;        ///< reading, hits
  double dramLatencyNs = 0;
  double l2LatencyNs = 0;

  // Fixed costs of a launch in a graph.
  double launchNs = 0; ///< between the ends of two empty kernels
  double rampNs = 0;   ///< until every SM computes at its full rate

  // Tensor cores: dense flops per SM and clock, 0 where there is no such
  // instruction. These are the rates of the widest instruction (wgmma on 9.0).
  double tensorFp64FlopsPerClock = 0;
  double tensorTf32FlopsPerClock = 0;
  double tensorFp16FlopsPerClock = 0;
  double tensorBf16FlopsPerClock = 0;
  double tensorFp8FlopsPerClock = 0;
  double tensorInt8FlopsPerClock = 0;

  // The rates of mma.sync where they are lower, in flops per SM and clock.
  double mmaSyncFp64FlopsPerClock = 0;
  double mmaSyncTf32FlopsPerClock = 0;
  double mmaSyncFp16FlopsPerClock = 0;
  double mmaSyncBf16FlopsPerClock = 0;
  double mmaSyncFp8FlopsPerClock = 0;
  double mmaSyncInt8FlopsPerClock = 0;

  // Ordinary arithmetic: flops per SM and clock.
  double simdFp64FlopsPerClock = 0;
  double simdFp32FlopsPerClock = 0;
  double simdFp16FlopsPerClock = 0; ///< packed pairs; bf16 likewise
  double simdInt32FlopsPerClock = 0;
  double specialOpsPerClock = 0; ///< exp2, rcp, ... results per SM and clock

  /// Source of each value, in the order of deviceFields().
  std::array<ValueOrigin, kDeviceFieldCount> origins;

  /// The numbers before a calibration changed them, which are those of a
  /// machine without this GPU; null: there was none.
  std::shared_ptr<const DeviceModel> uncalibrated = nullptr;

  /// Compute capability as one number: 90 for 9.0, 100 for 10.0.
  int computeCapability() const {
    return static_cast<int>(ccMajor * 10 + ccMinor);
  }

  /// "sm_90", or with \p archSpecific "sm_90a". Architectures without an
  /// architecture-specific variant (before 9.0) answer the plain name.
  std::string archName(bool archSpecific = false) const;

  /// True when the GPU can launch clusters of blocks.
  bool hasClusters() const { return ccMajor >= 9; }

  /// Peak of the DRAM's pins in B/ns: 2 transfers a clock.
  double dramPeakBytesPerNs() const {
    return 2e-3 * memoryClockMHz * static_cast<double>(memoryBusBits) / 8;
  }

  /// Clusters of \p size blocks resident at once at one block to an SM; size 1
  /// answers smCount, a size without a figure 0.
  int64_t maxClusters(int64_t size) const;
};

/// The values that hold the rates of \p type, for the widest tensor-core
/// instruction, for mma.sync and for ordinary arithmetic. Null: no GPU has such
/// a unit. hasRate(): whether \p device has it.
double DeviceModel::*tensorRateOf(RateType type);
double DeviceModel::*mmaSyncRateOf(RateType type);
double DeviceModel::*simdRateOf(RateType type);
bool hasRate(const DeviceModel &device, double DeviceModel::*rate);

/// The value that holds the rate of the fastest unit of \p device that computes
/// with data of \p type, converted first where that takes it; null: none does.
double DeviceModel::*peakRateOf(const DeviceModel &device, RateType type);

/// A value that is read from a field or stored to it.
using FieldValue = std::variant<int64_t, double, std::string>;

/// One value of the model: its name, unit, range and storage.
struct DeviceField {
  /// The numbers that are accepted, up to 2^20 (counts), 2^50 (bytes) or 1e9
  /// (real fields; a positive real is at least 1e-6). Texts are always
  /// accepted.
  enum class Range { Positive, NonNegative };

  const char *key;  ///< name of the member
  const char *unit; ///< "", "B", "MHz", "GB/s", "ns", "W", "bit", "flop/clk"
  std::variant<int64_t DeviceModel::*, double DeviceModel::*,
               std::string DeviceModel::*>
      member;
  Range range;
  /// True if an estimate or a limit of a plan depends on it.
  bool isPlannedWith = true;

  /// Reads this field of \p model.
  FieldValue valueOf(const DeviceModel &model) const;
  /// Position in deviceFields() and DeviceModel::origins.
  size_t index() const;
};

/// All fields in the order in which they are printed.
llvm::ArrayRef<DeviceField> deviceFields();

/// The field called \p key, or null.
const DeviceField *findDeviceField(llvm::StringRef key);

/// Stores \p value and its origin. A whole number is accepted for a real field
/// and a real one without fraction for an integer field. Errors
/// (InvalidArgument): wrong kind, NaN or infinite, outside of the field's
/// range.
llvm::Error setValue(DeviceModel &model, const DeviceField &field,
                     FieldValue value, ValueSource source,
                     llvm::StringRef note = "");

/// Stores \p value unless the field already has a source. The value must be of
/// the field's kind and not a NaN; a number outside of the field's range
/// becomes the nearest inside.
void fillValue(DeviceModel &model, llvm::StringRef key, FieldValue value,
               ValueSource source, llvm::StringRef note);

/// Source of the field called \p key, which must exist.
const ValueOrigin &originOf(const DeviceModel &model, llvm::StringRef key);

/// {key: {value, unit, source, note}} of every field.
llvm::json::Object toJson(const DeviceModel &model);

/// Sets the fields named by \p json, an object of key: number or string, or of
/// the objects that toJson writes. \p what names the text (a path) in errors.
/// Errors (InvalidArgument) name the file and the key: unknown keys and values
/// that setValue refuses; then \p model is unchanged.
llvm::Error applyJson(DeviceModel &model, const llvm::json::Value &json,
                      llvm::StringRef what, ValueSource source);

/// Reads \p path and applies it with applyJson. Errors: InvalidArgument, also
/// for a file that cannot be read.
llvm::Error applyJsonFile(DeviceModel &model, llvm::StringRef path,
                          ValueSource source);

/// Tells apart models for which the estimator may choose differently: a hash of
/// all values that planning reads, whatever their sources; 32 hexadecimal
/// digits. So a choice for an imagined device, or with an override, does not
/// count for the device of that name. Cost: some 10 us.
std::string planningDigest(const DeviceModel &model);

/// The text that keys records: measurements carry over between GPUs that agree
/// in it. Name, capability, visible SMs, L2, memory bus and clock, MIG profile
/// and power limit, e.g.
/// "h200-sxm cc=9.0 sms=132 l2=62914560 mem=3201x6016 mig=none power=700".
std::string deviceClassKey(const DeviceModel &model);

} // namespace kiln
