//===- Verdicts.h - kernels that compute wrong results --------------------===//
//
// The one answer to "may this kernel be launched". A kernel that trials
// compared with the reference twice, each time over fresh data, and found wrong
// both times is wrong on all devices of that class: for every problem and
// extent that it could serve, in every mode, in this process and in later ones.
// Records and portfolios do not decide it; they hold measurements.
//
// A refused launch is another matter: it holds for the extents where it was
// tried, and is in their records.
//
// Verdicts are few, so one entry of the cache holds all of a device class.
// `kiln cache verdicts` lists and clears them. A kernel that trials compare
// again (KILN_PREPARE_RETUNE) and find right loses its verdict.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A kernel that is wrong, and the trial that found it.
struct Verdict {
  std::string kernel;              ///< kernelDigest() of its plan
  std::string config;              ///< its Values::compiledText()
  std::string problem;             ///< for which it was found
  std::string reason;              ///< a TrialStatus, then details
  int64_t foundAtMs = 0;           ///< Unix time
  llvm::json::Object unknown = {}; ///< fields of other versions, kept
};

/// The verdicts on one class of devices.
struct DeviceVerdicts {
  std::string deviceClass;
  std::vector<Verdict> verdicts; ///< by kernel
};

/// The set of wrong kernels. Thread-safe. The cache store must outlive it.
class Verdicts {
public:
  /// Receives each change without a lock held, so that another change may come
  /// first; isKnownWrong() has the last word. It is called before found() or
  /// withdraw() returns, for a wrong kernel before that is written. For changes
  /// of other processes it is called before the query that noticed them
  /// returns.
  using Listener = std::function<void(llvm::StringRef deviceClass,
                                      const Verdict &verdict, bool isWrong)>;

  /// Queries notice verdicts of other processes after \p recheckInterval.
  /// Without queries, as in launches that hit, they are not noticed. With \p
  /// keepsFirst queries answer by the stored verdicts that were read first;
  /// later ones reach the listener and isKnownWrong() alone.
  explicit Verdicts(
      cache::Store &cache,
      std::chrono::milliseconds recheckInterval = std::chrono::seconds(1),
      bool keepsFirst = false);
  ~Verdicts();

  /// Whether \p kernel computes wrong results. Costs a look-up; once an
  /// interval it asks the file system, and then may read a small file.
  bool isWrong(llvm::StringRef deviceClass, llvm::StringRef kernel) const {
    return find(deviceClass, kernel).has_value();
  }
  std::optional<Verdict> find(llvm::StringRef deviceClass,
                              llvm::StringRef kernel) const;
  /// Like isWrong(), from the verdicts noticed so far: does not look for
  /// changes.
  bool isKnownWrong(llvm::StringRef deviceClass, llvm::StringRef kernel) const;
  /// Notices verdicts of other processes, whatever the interval.
  void recheck(llvm::StringRef deviceClass);
  /// Whether some kernel of \p config, a compiledText(), computes wrong
  /// results. A cheap test to make before a kernel's digest is computed. Costs
  /// as much as isWrong().
  bool mayBeWrong(llvm::StringRef deviceClass, llvm::StringRef config) const;
  std::vector<Verdict> list(llvm::StringRef deviceClass) const;

  /// Marks \p verdict.kernel as wrong on devices of \p deviceClass, and stores
  /// that in the cache: milliseconds. If it cannot be written this process
  /// knows it all the same.
  cache::PublishResult found(llvm::StringRef deviceClass, Verdict verdict);
  /// Withdraws a verdict: the kernel was compared again for \p problem and is
  /// right. A verdict that was found for another problem stands.
  void withdraw(llvm::StringRef deviceClass, llvm::StringRef kernel,
                llvm::StringRef problem);

  /// Replaces the listener; must not run beside other calls.
  void listen(Listener listener);

  /// All verdicts in \p cache, by device class. Reads each record's head.
  static std::vector<DeviceVerdicts> readAll(cache::Store &cache);
  /// Removes the verdicts from \p cache that \p isMeant accepts. Returns their
  /// number. Processes that found them go on without these kernels until they
  /// end.
  static size_t
  clear(cache::Store &cache,
        llvm::function_ref<bool(llvm::StringRef deviceClass, const Verdict &)>
            isMeant);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
