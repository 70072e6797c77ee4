//===- PortfolioStore.h - what serves a range, stored ---------------------===//
//
// The kernels that serve a range of a layer, and their intervals; the times are
// in the records. A measured portfolio is keyed by the class of the device, as
// records are. One that only the estimator chose is keyed by the product, and
// by the numbers that it was planned with: it is written where there is no
// device. A single value is a range of one, with an entry of its own, because a
// layer may have thousands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Device/DeviceModel.h"
#include "Kernel/Family.h"
#include "Kernel/ModelKind.h"
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
  std::vector<int64_t> low, high;  ///< where it may be the best
  bool validated = false;          ///< compared with the reference, and right
  bool isMeasured = false;         ///< records have times of it at the anchors
  llvm::json::Object unknown = {}; ///< fields of other versions, kept

  friend bool operator==(const StoredMember &, const StoredMember &) = default;
};

/// A portfolio as it is stored: points have a value for each field of its
/// range. What was measured is in the records of its layers. One without
/// members says that trials found nothing right.
struct StoredPortfolio {
  std::vector<int64_t> low, high;
  double regret = 0; ///< of the best member, by the estimate, at most
  /// Everything that was to be measured was.
  bool isComplete = false;
  bool hasGrown = false;    ///< see Portfolio
  int64_t measuredAtMs = 0; ///< Unix time
  /// Where trials ran: records of these points speak for the range.
  std::vector<std::vector<int64_t>> anchors;
  std::vector<StoredMember> members;
  llvm::json::Array unreadMembers; ///< that could not be read, kept
  llvm::json::Object unknown;      ///< fields of other versions, kept

  bool contains(llvm::ArrayRef<int64_t> low,
                llvm::ArrayRef<int64_t> high) const;
  size_t measuredMembers() const;
  /// The same, except those whose kernel cannot be of today's sources if those
  /// of \p later are: where any config has another kernel there, a release lies
  /// between the two, and only what \p later has as well counts.
  size_t measuredMembersBeside(const StoredPortfolio &later) const;
  bool isHopeless() const { return members.empty(); }
  friend bool operator==(const StoredPortfolio &,
                         const StoredPortfolio &) = default;
};

/// Contents of one entry: portfolios of one layer over different ranges. At
/// most 8; the one measured longest ago goes first, where a time from the
/// future counts as 0.
struct StoredPortfolios {
  static constexpr MergedKind kKind{.kind = cache::Kind::Portfolio,
                                    .name = "portfolio",
                                    .maxBytes = size_t(4) << 20,
                                    .isOftenEqual = true};
  std::vector<StoredPortfolio> ranges;
  OtherText other; ///< lines and fields of other versions

  /// Reads text of any origin. Damaged lines are skipped and kept. Error
  /// (InvalidArgument): the text holds no portfolios at all.
  static llvm::Expected<StoredPortfolios> open(std::string text);
  std::string text() const;
  size_t shrink(size_t most);

  /// Those whose range contains \p low to \p high, the best first: measured
  /// ones before others, then the narrower.
  std::vector<const StoredPortfolio *>
  findAll(llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high) const;
  /// The first of these; null if absent.
  const StoredPortfolio *find(llvm::ArrayRef<int64_t> low,
                              llvm::ArrayRef<int64_t> high) const;
  /// Adds \p added. Of two of one range the one with more measured members
  /// stays, of equals the later one; with \p replaces it is \p added always.
  /// What lies within the range of another one and has no more measured members
  /// goes, unless it alone is complete. Members of earlier kernels do not count
  /// (StoredPortfolio::measuredMembersBeside). False: what is there is better,
  /// and \p added is not kept.
  bool merge(const StoredPortfolio &added, bool replaces,
             int64_t nowMs = unixTimeMs());
};

/// What keys the estimator's choices: name, architecture and SMs of the device,
/// and the digest of the numbers that it plans with.
std::string productKey(const DeviceModel &device);

/// Whose portfolios.
struct PortfolioKey {
  /// ProblemRange::fixedText(): the layer, the names of the values that vary,
  /// and the signature. Or a problem.
  std::string layer;
  std::string device; ///< a device class, or a product

  std::string text() const;
  /// Of what trials measured on devices of class \p deviceClass.
  static PortfolioKey measured(llvm::StringRef layer,
                               llvm::StringRef deviceClass);
  /// Of what the estimator chose for \p device.
  static PortfolioKey estimated(llvm::StringRef layer,
                                const DeviceModel &device);
  /// The same for \p problem alone, by \p model. Its members are in the order
  /// of that choice.
  static PortfolioKey ofValue(const Problem &problem, const DeviceModel &device,
                              ModelKind model = ModelKind::Main);
};

/// Portfolios in the cache, see MergedStore. Thread-safe. The cache store must
/// outlive it.
class PortfolioStore {
public:
  /// What was read counts for \p recheckInterval where another process may have
  /// stored.
  explicit PortfolioStore(
      cache::Store &cache,
      std::chrono::milliseconds recheckInterval = std::chrono::seconds(1))
      : entries(cache, {.recheckInterval = recheckInterval}) {}

  /// What there is of \p key, never null; the same pointer while nothing has
  /// changed. Whether configs and kernels are still today's is for the caller
  /// to see. Cost: microseconds; once an interval it asks the file system, and
  /// then may read and parse a small file.
  std::shared_ptr<const StoredPortfolios>
  load(const PortfolioKey &key, RecordAge age = RecordAge::Recent) const {
    return entries.load(key.text(), age).document;
  }
  /// The portfolio whose range contains \p low to \p high, see
  /// StoredPortfolios::find().
  std::optional<StoredPortfolio> find(const PortfolioKey &key,
                                      llvm::ArrayRef<int64_t> low,
                                      llvm::ArrayRef<int64_t> high,
                                      RecordAge age = RecordAge::Recent) const;

  struct StoreResult {
    cache::PublishResult publish;
    bool wasThere = false; ///< nothing had to be written
    /// One of the same range with more measured members is there and stays.
    bool isOutdone = false;
  };
  /// Merges \p portfolio into the entry of \p key, see
  /// StoredPortfolios::merge(). Cost: milliseconds.
  StoreResult store(const PortfolioKey &key, const StoredPortfolio &portfolio,
                    bool replaces = false);

  /// Whether some layer of the cache on disk has a file for \p key. Cost: some
  /// us.
  bool isOnDisk(const PortfolioKey &key) const {
    return entries.isOnDisk(key.text());
  }

private:
  MergedStore<StoredPortfolios> entries;
};

} // namespace kiln
