//===- Compiler.cpp -------------------------------------------------------===//
#include "Compile/Compiler.h"

#include "Compile/PtxasLog.h"
#include "Support/Cubin.h"

#include <algorithm>
#include <chrono>

namespace kiln {

char CompileError::ID = 0;

std::string cleanLog(llvm::StringRef log, size_t maxBytes) {
  std::string text;
  for (char c : log)
    if (c != '\0')
      text += c;
  if (text.size() <= maxBytes)
    return text;
  // Room for the longest count; cut before it, at a line's end if there is one.
  const size_t keep = maxBytes - std::min<size_t>(maxBytes, 64);
  size_t cut = llvm::StringRef(text).take_front(keep).rfind('\n');
  cut = cut == llvm::StringRef::npos ? keep : cut + 1;
  const size_t dropped = text.size() - cut;
  text.resize(cut);
  return text + fmt::format("... {} more bytes\n", dropped);
}

/// The line of a log that a message should quote: the first that says error,
/// else the first that says anything.
static std::string headline(llvm::StringRef log) {
  llvm::StringRef first;
  for (llvm::StringRef rest = log; !rest.empty();) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    line = line.trim();
    if (line.contains("error"))
      return line.take_front(400).str();
    if (first.empty())
      first = line;
  }
  return first.empty() ? "the compiler gave no log"
                       : first.take_front(400).str();
}

std::vector<std::string> compileOptions(const TranslationUnit &unit,
                                        const Nvrtc &compiler) {
  // canonicalText() counts on this list: it carries a number to raise when an
  // option here changes what the cubin does.
  std::vector<std::string> options = {"--gpu-architecture=" + unit.arch(),
                                      "--std=c++20", "-default-device"};
  // Kernels here name no textures, no device runtime and no host types of CUDA.
  // Without these (an option since NVRTC 12.4) the front end, which one thread
  // at a time passes, starts some 3 ms sooner.
  options.push_back("--minimal");
  // 12.9 brought a cache of NVRTC's own, and with it the way to turn it off:
  // left on it opens the driver library.
  if (std::pair(compiler.majorVersion(), compiler.minorVersion()) >=
      std::pair(12, 9))
    options.push_back("--no-cache");
  // A header that is missing from the unit is not read from the working
  // directory.
  options.push_back("--no-source-include");
  // Resources and phase times are read from the log.
  options.push_back("--ptxas-options=-v");
  options.push_back("--time=-");
  options.insert(options.end(), unit.options().begin(), unit.options().end());
  return options;
}

bool Compiler::isLoaded() const {
  std::lock_guard lock(mutex);
  return primary.nvrtc != nullptr;
}

llvm::Expected<std::shared_ptr<const Nvrtc>> Compiler::nvrtc() {
  std::lock_guard lock(mutex);
  if (!primary.nvrtc && !failure) {
    auto result = Nvrtc::load(search);
    if (result)
      primary.nvrtc = std::move(*result);
    else
      failure = summarize(result.takeError());
  }
  if (!primary.nvrtc)
    return errorOf(*failure);
  return primary.nvrtc;
}

//===----------------------------------------------------------------------===//
// Sharing compilations out
//===----------------------------------------------------------------------===//

/// A compilation that one of the libraries works on.
class Compiler::Turn {
public:
  explicit Turn(Compiler &compiler)
      : compiler(compiler), library(compiler.choose()) {}
  ~Turn() {
    std::lock_guard lock(compiler.mutex);
    --library.busy;
  }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

  const Nvrtc *operator->() const { return library.nvrtc.get(); }

private:
  Compiler &compiler;
  Library &library;
};

/// The library for one more compilation, which counts from here on.
Compiler::Library &Compiler::choose() {
  // On 16 cores one library compiled 16 kernels a second with 6 threads, 20
  // with 8 and 21 with 16.
  constexpr int kCrowd = 4;
  std::unique_lock lock(mutex);
  if (primary.busy >= kCrowd && !triedAlternate) {
    triedAlternate = true;
    lock.unlock(); // others go on meanwhile
    loadAlternate();
    lock.lock();
  }
  bool isCrowded = primary.busy >= kCrowd && alternate.busy < primary.busy;
  Library &library = alternate.nvrtc && isCrowded ? alternate : primary;
  ++library.busy;
  return library;
}

/// Without an alternate the primary does everything.
void Compiler::loadAlternate() {
  auto result = primary.nvrtc->loadAlternate();
  if (!result)
    return llvm::consumeError(result.takeError());
  std::lock_guard lock(mutex);
  alternate.nvrtc = std::move(*result);
}

llvm::Expected<Artifact> Compiler::compile(const TranslationUnit &unit) {
  if (llvm::Error error = validate(unit))
    return error;
  auto compiler = nvrtc();
  if (!compiler)
    return compiler.takeError();
  if (llvm::Error error = (*compiler)->checkSupports(unit.arch()))
    return error;

  std::vector<std::string> options = compileOptions(unit, **compiler);
  NvrtcOutcome outcome;
  std::chrono::duration<double, std::milli> total{};
  {
    Turn turn(*this);
    const auto start = std::chrono::steady_clock::now();
    outcome =
        turn->compile(unit.name(), unit.source(), unit.headers(), options);
    total = std::chrono::steady_clock::now() - start;
  }

  if (outcome.isCancelled)
    return makeError(ErrorCode::Cancelled,
                     "compilation of {} was cancelled: the process is ending",
                     unit.name());
  std::string log = cleanLog(outcome.log);
  if (outcome.result == kNvrtcOutOfMemory)
    return llvm::make_error<KilnError>(
        ErrorCode::OutOfMemory,
        fmt::format("out of memory compiling {} for {}", unit.name(),
                    unit.arch()),
        outcome.result);
  auto refuse = [&](llvm::StringRef why, llvm::StringRef result) {
    return llvm::make_error<CompileError>(
        fmt::format("cannot compile {} for {}: {} ({})", unit.name(),
                    unit.arch(), why, result),
        outcome.result, log, unit);
  };
  if (outcome.result != 0)
    return refuse(headline(log), outcome.resultName);
  // A library that says success may be a foreign or a broken one, so that only
  // a kernel for this device is handed on to caches and drivers.
  if (llvm::Error error = checkCubin(outcome.cubin, unit.arch(), unit.entry()))
    return refuse(summarize(std::move(error)).message,
                  "the result of NVRTC is no kernel");

  Artifact artifact;
  artifact.cubin = std::move(outcome.cubin);
  artifact.arch = unit.arch();
  artifact.entry = unit.entry();
  artifact.usage = parseResourceUsage(outcome.log, unit.entry());
  artifact.advisories = parseAdvisories(outcome.log);
  artifact.toolchain = (*compiler)->identity();
  artifact.phases = parsePhaseTimes(outcome.log);
  artifact.phases.totalMs = total.count();
  artifact.log = std::move(log);
  return artifact;
}

} // namespace kiln
