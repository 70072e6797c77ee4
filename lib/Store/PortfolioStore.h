//===- PortfolioStore.h - the kernels of a range, stored ------------------===//
//
// An entry has the kernels that serve a range of a layer, and their intervals;
// the times are in the records. A measured portfolio is keyed by the class of
// the device, as records are. One that only the estimator chose is keyed by the
// product, and by the numbers that it was planned with, because it is written
// where there is no device. A single value is a range of one, with an entry of
// its own, because a layer may have thousands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Device/DeviceModel.h"
#include "Kernel/Family.h"
#include "Kernel/Space.h"
#include "Store/MergedStore.h"
#include "Store/MergedText.h"
#include "Store/TrialStatus.h"

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

/// One config of a portfolio.
struct StoredMember {
  std::string config, kernel;      ///< kernelDigest() of its plan
  std::vector<int64_t> low, high;  ///< the interval where it may be the best
  bool validated = false;          ///< compared with the reference, and right
  bool isMeasured = false;         ///< records have times of it at the anchors
  llvm::json::Object unknown = {}; ///< fields of other versions, kept

  friend bool operator==(const StoredMember &, const StoredMember &) = default;
};

/// A stored portfolio. Points have a value for each field of its range.
/// Measurements are in the records of its layers. A portfolio without members
/// means that trials found no correct kernel.
struct StoredPortfolio {
  std::vector<int64_t> low, high;
  double regret = 0; ///< the largest regret of the best member, by the estimate
  /// All measurements that were due were made.
  bool isComplete = false;
  bool hasGrown = false;    ///< see Portfolio
  int64_t measuredAtMs = 0; ///< Unix time
  /// The points where trials ran; their records hold the range's facts.
  std::vector<std::vector<int64_t>> anchors;
  std::vector<StoredMember> members;
  llvm::json::Array unreadMembers; ///< unreadable members, kept
  llvm::json::Object unknown;      ///< fields of other versions, kept

  bool contains(llvm::ArrayRef<int64_t> low,
                llvm::ArrayRef<int64_t> high) const;
  size_t measuredMembers() const;
  /// Like measuredMembers(), without members whose kernel cannot be of today's
  /// sources if those of \p later are. If any config has another kernel in \p
  /// later, a release lies between the two, and only members that \p later has
  /// as well count.
  size_t measuredMembersBeside(const StoredPortfolio &later) const;
  bool isHopeless() const { return members.empty(); }
  friend bool operator==(const StoredPortfolio &,
                         const StoredPortfolio &) = default;
};

/// The contents of one entry: portfolios of one layer over different ranges. At
/// most 8 are kept; the one measured longest ago goes first, and a time in the
/// future counts as 0.
struct StoredPortfolios {
  static constexpr MergedKind kKind{.kind = cache::Kind::Portfolio,
                                    .name = "portfolio",
                                    .maxBytes = size_t(4) << 20,
                                    .isOftenEqual = true};
  std::vector<StoredPortfolio> ranges;
  OtherText other; ///< lines and fields of other versions

  /// Reads text of any origin. Damaged lines are skipped and kept. Error
  /// (InvalidArgument): the text is not an entry of portfolios.
  static llvm::Expected<StoredPortfolios> open(std::string text);
  std::string text() const;
  size_t shrink(size_t most);

  /// Returns the portfolios whose range contains \p low to \p high, the best
  /// first: measured ones before others, then the narrower.
  std::vector<const StoredPortfolio *>
  findAll(llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high) const;
  /// Returns the first of findAll(); null if absent.
  const StoredPortfolio *find(llvm::ArrayRef<int64_t> low,
                              llvm::ArrayRef<int64_t> high) const;
  /// Adds \p added. If two have one range the one with more measured members
  /// stays, among equals the later one; with \p replaces \p added always stays.
  /// A portfolio within the range of another one that has no more measured
  /// members goes, unless it alone is complete. Members of earlier kernels do
  /// not count (StoredPortfolio::measuredMembersBeside). Returns false if an
  /// existing one is better, so that \p added is not kept.
  bool merge(const StoredPortfolio &added, bool replaces,
             int64_t nowMs = unixTimeMs());
};

/// The key of the estimator's choices: name, architecture and SMs of the
/// device, and the digest of the numbers that it plans with.
std::string productKey(const DeviceModel &device);

/// The key of an entry of portfolios.
struct PortfolioKey {
  /// ProblemRange::fixedText(): the layer, the names of the values that vary,
  /// and the signature. Or a problem.
  std::string layer;
  std::string device; ///< a device class, or a product

  std::string text() const;
  /// The key of portfolios that trials measured on devices of class \p
  /// deviceClass.
  static PortfolioKey measured(llvm::StringRef layer,
                               llvm::StringRef deviceClass);
  /// The key of portfolios that the estimator chose for \p device.
  static PortfolioKey estimated(llvm::StringRef layer,
                                const DeviceModel &device);
  /// The same for \p problem alone. Its members are in the order of that
  /// choice.
  static PortfolioKey ofValue(const Problem &problem,
                              const DeviceModel &device);
};

/// Portfolios in the cache, see MergedStore. Thread-safe. The cache store must
/// outlive it.
class PortfolioStore {
public:
  explicit PortfolioStore(cache::Store &cache, MergedOptions options = {})
      : entries(cache, options) {}

  /// Returns the portfolios of \p key, never null; the same pointer while
  /// nothing has changed. The caller checks whether configs and kernels are
  /// still today's. Takes microseconds; once an interval it asks the file
  /// system, and then may read and parse a small file.
  std::shared_ptr<const StoredPortfolios>
  load(const PortfolioKey &key, RecordAge age = RecordAge::Recent) const {
    return entries.load(key.text(), age).document;
  }
  /// Returns the portfolio whose range contains \p low to \p high, see
  /// StoredPortfolios::find().
  std::optional<StoredPortfolio> find(const PortfolioKey &key,
                                      llvm::ArrayRef<int64_t> low,
                                      llvm::ArrayRef<int64_t> high,
                                      RecordAge age = RecordAge::Recent) const;

  struct StoreResult {
    cache::PublishResult publish;
    bool wasThere = false; ///< nothing had to be written
    /// A portfolio of the same range with more measured members stays instead.
    bool isOutdone = false;
  };
  /// Merges \p portfolio into the entry of \p key, see
  /// StoredPortfolios::merge(). Takes milliseconds.
  StoreResult store(const PortfolioKey &key, const StoredPortfolio &portfolio,
                    bool replaces = false);

  /// Whether some tier of the cache on disk has a file for \p key. Takes some
  /// us.
  bool isOnDisk(const PortfolioKey &key) const {
    return entries.isOnDisk(key.text());
  }

private:
  MergedStore<StoredPortfolios> entries;
};

} // namespace kiln
