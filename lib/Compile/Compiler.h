//===- Compiler.h - translation unit in, artifact out ---------------------===//
#pragma once

#include "Compile/Artifact.h"
#include "Compile/Nvrtc.h"
#include "Compile/TranslationUnit.h"
#include "Support/Error.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// The error of a translation unit that does not compile. Its code is
/// CompileFailed, its message carries the first line of the log that says
/// error; log and text are for mending the kernel.
class CompileError : public llvm::ErrorInfo<CompileError, KilnError> {
public:
  static char ID;

  CompileError(std::string message, int64_t result, std::string log,
               TranslationUnit unit)
      : ErrorInfo(ErrorCode::CompileFailed, std::move(message), result),
        compileLog(std::move(log)), unit(std::move(unit)) {}

  std::string compileLog; ///< at most 64 KiB, without NULs
  TranslationUnit unit;   ///< shares its headers
};

/// Longest log that an artifact or an error carries, in bytes.
inline constexpr size_t kMaxLogBytes = 64 << 10;

/// NVRTC's log as text: its embedded NULs are dropped, and the text beyond \p
/// maxBytes is replaced by a line that tells its length.
std::string cleanLog(llvm::StringRef log, size_t maxBytes = kMaxLogBytes);

/// Compiles translation units with NVRTC, which it loads at the first need.
/// Thread-safe; concurrent compilations run in parallel, except for a front end
/// that NVRTC lets one thread at a time through. Where several compile at once
/// they are shared out between NVRTC and the alternate build beside it, if
/// there is one.
class Compiler {
public:
  explicit Compiler(NvrtcSearch search) : search(std::move(search)) {}

  /// Compiles \p unit to a cubin for its architecture. Takes a few hundred ms,
  /// cannot be cancelled; from the end of the process on none begins. Errors:
  /// InvalidArgument (a field of the unit), CompilerMissing, Unsupported
  /// (architecture), CompileFailed as a CompileError, OutOfMemory, Cancelled.
  llvm::Expected<Artifact> compile(const TranslationUnit &unit);

  /// The compiler itself, loaded if it was not yet. A failed search is not
  /// repeated. Error: CompilerMissing.
  llvm::Expected<std::shared_ptr<const Nvrtc>> nvrtc();

  /// Whether a call has loaded NVRTC already.
  bool isLoaded() const;

private:
  /// A library and how many compilations it works on.
  struct Library {
    std::shared_ptr<const Nvrtc> nvrtc;
    int busy = 0;
  };
  class Turn;

  Library &choose();
  void loadAlternate();

  NvrtcSearch search;
  mutable std::mutex mutex;
  Library primary, alternate;
  bool triedAlternate = false;
  std::optional<ErrorSummary> failure;
};

/// The options that \p compiler gets for \p unit: the fixed ones, then the
/// unit's own. Exposed for tests.
std::vector<std::string> compileOptions(const TranslationUnit &unit,
                                        const Nvrtc &compiler);

} // namespace kiln
