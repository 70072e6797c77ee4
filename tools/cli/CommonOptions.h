//===- CommonOptions.h - the options that commands share ------------------===//
//
// Every command is a thin view over the libraries. Here the options that many
// commands share become a device model, a cache, a compiler and problems.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Cache/Store.h"
#include "Driver/Driver.h"
#include "Kernel/Allowance.h"
#include "Kernel/Space.h"
#include "Store/ArtifactStore.h"
#include "Store/DeviceAssembly.h"
#include "Support/Environment.h"
#include "cli/Options.h"
#include "cli/Suite.h"

#include <memory>
#include <string>
#include <vector>

namespace kiln::cli {

// Options that several commands share.
inline constexpr OptionSpec kDeviceOption = {
    "--device", "NAME|FILE|N|auto",
    "a GPU of the catalog (see kiln info), a JSON file of its numbers, the "
    "number of one that is here, or auto, the first one that is here "
    "(default)"};
inline constexpr OptionSpec kOverrideOption = {
    "--override", "FILE", "JSON whose numbers go in front of the device's own"};
inline constexpr OptionSpec kSuiteOption = {
    "--suite", "FILE", "JSON with the problems; see benchmarks/suites"};
inline constexpr OptionSpec kFilterOption = {
    "--filter", "TEXT", "only cases with TEXT in their names"};
inline constexpr OptionSpec kWorkspaceLimitOption = {
    "--workspace-limit", "BYTES",
    "workspace that a plan may need, as an engine's workspace_limit_bytes; "
    "default 256M, as there"};
inline constexpr OptionSpec kUnlimitedOption = {"--unlimited", nullptr,
                                                "plans may need any workspace"};
inline constexpr OptionSpec kCacheDirOption = {
    "--cache-dir", "DIR",
    "cache folder; default: $KILN_CACHE_DIR, else ~/.cache/kiln"};
inline constexpr OptionSpec kCacheReadDirOption = {
    "--cache-read-dir", "DIR",
    "a cache folder that is only read, behind the one that is written; may be "
    "repeated; default: $KILN_CACHE_READ_DIRS, between colons",
    true};
inline constexpr OptionSpec kNoCacheOption = {
    "--no-cache", nullptr, "neither read nor write the cache"};
inline constexpr OptionSpec kNvrtcOption = {
    "--nvrtc", "PATH",
    "NVRTC's library or its folder; default: it is searched"};
inline constexpr OptionSpec kThreadsOption = {
    "--threads", "N", "compile at most N kernels at once"};

// These together, as commands have them.
inline constexpr OptionSpec kDeviceOptions[] = {kDeviceOption, kOverrideOption};
inline constexpr OptionSpec kSuiteOptions[] = {kSuiteOption, kFilterOption};
inline constexpr OptionSpec kSubjectOptions[] = {kDeviceOption, kOverrideOption,
                                                 kSuiteOption, kFilterOption};
inline constexpr OptionSpec kAllowanceOptions[] = {kWorkspaceLimitOption,
                                                   kUnlimitedOption};
inline constexpr OptionSpec kCacheOptions[] = {
    kCacheDirOption, kCacheReadDirOption, kNoCacheOption};
inline constexpr OptionSpec kCompilerOptions[] = {
    kThreadsOption, kCacheDirOption, kCacheReadDirOption, kNoCacheOption,
    kNvrtcOption};

/// A device to plan for; the driver is there if the device is.
struct ChosenDevice {
  AssembledDevice assembled;
  std::shared_ptr<Driver> driver; ///< null unless live
  int ordinal = 0;                ///< of a live one

  const DeviceModel &model() const { return assembled.model; }
};

/// The device that one value of --device names. Errors: InvalidArgument for a
/// value that is neither a known name nor a file, DriverMissing where a live
/// device is meant and there is none.
llvm::Expected<ChosenDevice> chooseDevice(llvm::StringRef text,
                                          const ParsedOptions &options,
                                          const Environment &environment);

/// As above for the option, which may be given once.
llvm::Expected<ChosenDevice> chooseDevice(const ParsedOptions &options,
                                          const Environment &environment);

/// A live device; a catalog name is InvalidArgument. \p why says why it is
/// needed: "tune measures".
llvm::Expected<ChosenDevice> chooseLiveDevice(const ParsedOptions &options,
                                              const Environment &environment,
                                              llvm::StringRef why);

/// The allowance of plans: that of an engine without a limit in its options, or
/// the one that --workspace-limit or --unlimited give. Error: InvalidArgument.
llvm::Expected<Allowance> chooseAllowance(const ParsedOptions &options);

/// The place of the cache; \p notes gets its faults. No path: memory only.
/// Error: InvalidArgument for a --cache-dir that cannot be one.
llvm::Expected<cache::StoreOptions>
chooseCache(const ParsedOptions &options, const Environment &environment,
            std::vector<std::string> &notes);

/// Opens the cache; its faults, now and later, are warnings. A command evicts
/// nothing, and asks the folder for the default limit of an engine, so that an
/// engine with a small limit removes no entry that a command made. \p gauge,
/// which may be null, is that of cache::StoreOptions.
llvm::Expected<std::unique_ptr<cache::Store>>
openCache(const ParsedOptions &options, const Environment &environment,
          ByteGaugePtr gauge = nullptr);

/// Where NVRTC is searched: as the library does, and in the folder where set-up
/// leaves NVIDIA's packages, seen from the tool in its build folder.
NvrtcSearch nvrtcSearch(const ParsedOptions &options,
                        const Environment &environment);

/// Compiler and pool by the options.
llvm::Expected<ArtifactStoreOptions>
artifactOptions(const ParsedOptions &options, const Environment &environment);

/// The problems that are operands of a command, if any. Errors as below.
llvm::Expected<std::vector<Case>> readOperands(const ParsedOptions &options,
                                               const Registry &registry);

/// The problems of a command: operands ("gemm m=1 n=2 k=3 dtype=bf16 gemm ..."
/// in any number of words), then the cases of --suite that pass --filter.
/// Errors (InvalidArgument, Unsupported, Io) name file, case and key. It is an
/// error to have no problem at all.
llvm::Expected<std::vector<Case>> readCases(const ParsedOptions &options,
                                            const Registry &registry);

/// The input of most commands: problems, and the model and allowance to plan
/// them with.
struct Subject {
  Environment environment;
  Registry registry; ///< owns the families of the cases
  std::vector<Case> cases;
  /// As much as an engine's where the command has no option for it.
  Allowance allowance;

  /// Errors: those of chooseAllowance() and readCases().
  static llvm::Expected<Subject> read(const ParsedOptions &options);
};

/// kiln::isMemoryBound() of the problem.
bool isMemoryBound(const Case &which);

/// The problems of \p cases alone.
std::vector<Registry::NamedProblem> problemsOf(llvm::ArrayRef<Case> cases);

} // namespace kiln::cli
