//===- Nvrtc.h - NVIDIA's run-time compiler, opened at run time -----------===//
//
// libnvrtc is opened only when something must be compiled: a process that finds
// every kernel in its cache never loads it. Nothing but Nvrtc.cpp sees nvrtc.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/DynamicLibrary.h"
#include "Support/Environment.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct SourceClosure;

/// The oldest NVRTC that knows every architecture Kiln compiles for.
inline constexpr int kMinNvrtcMajor = 12, kMinNvrtcMinor = 8;

/// Where libnvrtc is searched, in this order.
struct NvrtcSearch {
  /// A file or a folder. When set, nothing else is searched, except for the
  /// alternate build beside it.
  std::optional<std::string> explicitPath;
  /// Let the loader find libnvrtc.so.13, then .12, by its own rules.
  bool askLoader = true;
  /// Toolkits: their lib64, lib and targets/x86_64-linux/lib are searched.
  std::vector<std::string> toolkits;
  /// Search where distributions and NVIDIA's installers put toolkits.
  bool usualFolders = true;
  /// Search NVIDIA's Python wheels beside the libraries of this process.
  bool loadedWheels = true;
  /// Prefixes of Python; their wheels are searched.
  std::vector<std::string> pythonPrefixes;
  /// Searched last: the folder of pip's redistributable package, for one. Each
  /// stands for itself and its lib folder; an empty one is passed over.
  std::vector<std::string> extraFolders;

  /// KILN_NVRTC, CUDA_HOME, CUDA_PATH, VIRTUAL_ENV and CONDA_PREFIX of
  /// \p environment.
  static NvrtcSearch
  fromEnvironment(const Environment &environment,
                  std::vector<std::string> extraFolders = {});
};

/// build/cuda, where scripts/setup.sh puts NVIDIA's packages, as seen from the
/// program or shared library that holds this code, in build/<preset>/{bin,lib}.
/// One of NvrtcSearch::extraFolders; the search sees whether it exists. Empty
/// where that is not a build folder, because an installed library takes no code
/// from outside of its prefix.
std::string buildTreeToolkit();

/// As above for the build folder \p tree, which CMake has marked as one.
std::string toolkitOfTree(llvm::StringRef tree);

/// The existing folders in which NVIDIA's Python wheels have NVRTC. They lie
/// below site-packages folders. The folders of libraries that this process has
/// loaded, this one included, come first if \p asksProcess; then follow the
/// folders of \p prefixes.
std::vector<std::string> wheelFolders(bool asksProcess,
                                      llvm::ArrayRef<std::string> prefixes);

/// The file that this code was loaded from; empty where that cannot be told.
std::string ownFile();

/// The files that \p search names beyond the loader's own choice, in order,
/// existing ones only; \p searched receives every place that was looked at.
std::vector<std::string> nvrtcCandidates(const NvrtcSearch &search,
                                         std::vector<std::string> &searched);

/// NVRTC_ERROR_OUT_OF_MEMORY, the one result that is not a fault of the source.
inline constexpr int kNvrtcOutOfMemory = 1;

/// The result of one call of the compiler.
struct NvrtcOutcome {
  int result = 0;           ///< an nvrtcResult, 0 is success
  std::string resultName;   ///< e.g. "NVRTC_ERROR_COMPILATION"
  std::string cubin;        ///< empty unless the result is 0
  std::string log;          ///< as NVRTC gave it, embedded NULs included
  bool isCancelled = false; ///< the process is ending; nothing else is set
};

/// A loaded NVRTC, 12.8 or newer. Immutable and thread-safe; stays loaded for
/// the life of the process. Another libnvrtc may be in the process (PyTorch
/// brings one): the loader then hands out that one, which serves.
class Nvrtc {
public:
  /// Finds and opens the library, and before it the libnvrtc-builtins of its
  /// folder, which it could not find outside of the loader's path. Error:
  /// CompilerMissing, naming everything that was searched; Cancelled when the
  /// process is ending. Costs 5 to 500 ms.
  static llvm::Expected<std::shared_ptr<const Nvrtc>>
  load(const NvrtcSearch &search);

  /// The alternate build that toolkits install beside this one, of the same
  /// version: it compiles to the same code and has global state, and so a lock,
  /// of its own. Error: CompilerMissing. Costs 5 to 500 ms.
  llvm::Expected<std::shared_ptr<const Nvrtc>> loadAlternate() const;

  ~Nvrtc();

  int majorVersion() const { return major; }
  int minorVersion() const { return minor; }

  /// Version and GNU build id: "nvrtc 13.0.88 65be0db3...". Two builds of one
  /// version differ. A library that does not tell them has no third number, or
  /// the last word "unknown-build".
  const std::string &identity() const { return identityText; }

  /// The file that was loaded.
  const std::string &path() const { return library.path(); }

  /// Succeeds when it compiles for \p arch ("sm_90a"). Errors: InvalidArgument
  /// for a spelling, Unsupported naming version and what it does support.
  llvm::Error checkSupports(llvm::StringRef arch) const;

  /// Compiles \p source, which sees \p headers, with \p options as they are.
  /// Takes a few hundred ms; cannot be interrupted. The end of the process
  /// waits for it, and none begins from then on. The caller has validated all
  /// arguments.
  NvrtcOutcome compile(const std::string &name, const std::string &source,
                       const SourceClosure &headers,
                       llvm::ArrayRef<std::string> options) const;

private:
  struct Api;

  Nvrtc();
  static llvm::Expected<std::shared_ptr<const Nvrtc>>
  open(const std::string &candidate);
  static llvm::Expected<std::shared_ptr<const Nvrtc>>
  find(const NvrtcSearch &search);
  /// Finds the functions. A library that serves registers no destructor from
  /// then on.
  llvm::Error resolve();
  /// Refuses damaged and missing builtins: NVRTC opens them by itself in each
  /// compilation that needs them, and all of Kiln's do.
  llvm::Error checkBuiltins() const;

  DynamicLibrary library;
  std::unique_ptr<Api> api;
  int major = 0, minor = 0;
  std::string identityText;
  /// Compute capabilities it compiles for, times ten, ascending: 75, 80, ...
  std::vector<int> archs;
};

} // namespace kiln
