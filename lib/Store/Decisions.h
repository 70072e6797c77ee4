//===- Decisions.h - the estimator's choices, stored without trials -------===//
//
// What warm-up leaves for the GPU box: the ranked configs of a problem whose
// artifacts were compiled. Keyed by the product and by the numbers that it was
// planned with, not by the class of the device, because it is written where
// there is no device.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Kernel/ModelKind.h"
#include "Store/MergedStore.h"
#include "Store/MergedText.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// One choice of the estimator.
struct DecidedConfig {
  std::string config;
  double predictedNs = 0;
  std::string bound;
  std::string kernel;              ///< kernelDigest() of its plan
  llvm::json::Object unknown = {}; ///< fields of other versions, kept

  friend bool operator==(const DecidedConfig &,
                         const DecidedConfig &) = default;
};

/// A problem's choices, best first. Where there are too many the last ones go.
struct Decision {
  static constexpr MergedKind kKind{.kind = cache::Kind::Decision,
                                    .name = "decision",
                                    .maxBytes = size_t(1) << 20,
                                    .isOftenEqual = true};
  std::vector<DecidedConfig> configs;
  OtherText other = {}; ///< lines and fields of other versions

  /// Damaged configs are skipped and kept. Error (InvalidArgument): no decision
  /// at all.
  static llvm::Expected<Decision> open(std::string text);
  std::string text() const;
  size_t shrink(size_t most);
  friend bool operator==(const Decision &, const Decision &) = default;
};

/// What keys the estimator's choices: name, architecture and SMs of the device,
/// and the digest of the numbers that it plans with.
std::string productKey(const DeviceModel &device);

/// The text that keys a decision: the whole problem with its dynamic extent,
/// productKey() of the device, and the model that chose.
std::string decisionKey(const Problem &problem, const DeviceModel &device,
                        ModelKind model);

/// Decisions in the cache, see MergedStore. Thread-safe. The cache store must
/// outlive it.
class DecisionStore {
public:
  explicit DecisionStore(cache::Store &cache) : entries(cache) {}

  /// The decision, or nullopt. Whether the configs and kernels are still
  /// today's is for the caller to see. Cost: asks the file system whether the
  /// file has changed, and then reads it: it is small.
  std::optional<Decision> find(const Problem &problem,
                               const DeviceModel &device,
                               ModelKind model = ModelKind::Main) const;

  /// Whether some layer of the cache on disk has a file for it. Cost: some us.
  bool isOnDisk(const Problem &problem, const DeviceModel &device,
                ModelKind model) const;

  struct StoreResult {
    cache::PublishResult publish;
    bool wasThere = false; ///< an equal one was on disk: nothing was written
  };
  /// Replaces the configs, unless equal ones are on disk.
  StoreResult store(const Problem &problem, const DeviceModel &device,
                    ModelKind model, const Decision &decision);

private:
  MergedStore<Decision> entries;
};

} // namespace kiln
