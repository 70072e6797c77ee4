//===- Verdicts.h - which kernels compute wrong results -------------------===//
//
// The one answer to "may this kernel be launched". A kernel that trials
// compared with the reference twice, each time over fresh data, and found wrong
// both times is wrong on all devices of that class: for every problem and
// extent that it could serve, in every mode, in this process and in later ones.
// Records and portfolios are never asked about it; they tell what
// was measured.
//
// A kernel that cannot be launched is another matter: that is true of the
// extents where it was tried, and stands in their records.
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

/// That a kernel is wrong, and how that was found.
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

/// Which kernels are wrong. Thread-safe. The cache store must outlive it.
class Verdicts {
public:
  /// Told of each change without a lock held, so that another may come before
  /// it is told; isKnownWrong() has the last word. Before found() or withdraw()
  /// returns, of a kernel that is wrong before that is written; of what another
  /// process changed meanwhile, before the question returns that noticed it.
  using Listener = std::function<void(llvm::StringRef deviceClass,
                                      const Verdict &verdict, bool isWrong)>;

  /// Verdicts of other processes count for questions that are asked
  /// \p recheckInterval later. Where nothing is asked, as by launches that hit,
  /// they are not noticed.
  explicit Verdicts(
      cache::Store &cache,
      std::chrono::milliseconds recheckInterval = std::chrono::seconds(1));
  ~Verdicts();

  /// Whether \p kernel computes wrong results. Cost: a look-up; once an
  /// interval it asks the file system, and then may read a small file.
  bool isWrong(llvm::StringRef deviceClass, llvm::StringRef kernel) const {
    return find(deviceClass, kernel).has_value();
  }
  std::optional<Verdict> find(llvm::StringRef deviceClass,
                              llvm::StringRef kernel) const;
  /// The same as far as was noticed: asks nothing else.
  bool isKnownWrong(llvm::StringRef deviceClass, llvm::StringRef kernel) const;
  /// Notices what others stored, whatever the interval.
  void recheck(llvm::StringRef deviceClass);
  /// Whether some kernel of \p config, a compiledText(), does: to be asked
  /// first where the digest of the kernel at hand is yet to be made. Cost: as
  /// isWrong().
  bool mayBeWrong(llvm::StringRef deviceClass, llvm::StringRef config) const;
  std::vector<Verdict> list(llvm::StringRef deviceClass) const;

  /// From now on \p verdict.kernel is wrong on devices of \p deviceClass. Keeps
  /// it in the cache: milliseconds. Where that cannot be written this process
  /// knows it all the same.
  cache::PublishResult found(llvm::StringRef deviceClass, Verdict verdict);
  /// Takes a verdict back: the kernel was compared again for \p problem and is
  /// right. One that was found for another problem stands.
  void withdraw(llvm::StringRef deviceClass, llvm::StringRef kernel,
                llvm::StringRef problem);

  /// Replaces the listener; not beside calls of the others.
  void listen(Listener listener);

  /// All that \p cache holds, by device class. Reads each record's head.
  static std::vector<DeviceVerdicts> readAll(cache::Store &cache);
  /// Takes out of \p cache what \p isMeant accepts. Returns how many. Processes
  /// that found them go on without these kernels until they end.
  static size_t
  clear(cache::Store &cache,
        llvm::function_ref<bool(llvm::StringRef deviceClass, const Verdict &)>
            isMeant);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln
