//===- StatisticsWriter.cpp - a file with an engine's counts --------------===//
#include "Runtime/StatisticsWriter.h"

#include "Runtime/Engine.h"
#include "Runtime/OpenMetrics.h"
#include "Support/AtomicFile.h"
#include "Support/Report.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/Path.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace kiln {

/// A count; as a string where readers that know only doubles would round it.
static llvm::json::Value countJson(uint64_t count) {
  constexpr uint64_t kExact = uint64_t(1) << 53;
  if (count <= kExact)
    return static_cast<int64_t>(count);
  return std::to_string(count);
}

static llvm::json::Object waitJson(const observe::WaitEntry &entry) {
  constexpr double kMsPerNs = 1e-6;
  const uint64_t phaseNs = entry.phaseNs[static_cast<size_t>(entry.phase)];
  return llvm::json::Object{
      {"call", entry.call},
      {"problem", llvm::json::fixUTF8(entry.problem)},
      {"phase", nameOf(entry.phase)},
      {"reason", entry.reason},
      {"start_unix_ns", std::to_string(entry.startUnixNs)},
      {"elapsed_ms", rounded(double(entry.elapsedNs) * kMsPerNs)},
      {"phase_ms", rounded(double(phaseNs) * kMsPerNs)},
      {"thread", entry.thread}};
}

std::string statisticsJson(Engine &engine) {
  const kiln_statistics statistics = engine.statistics();
  llvm::json::Object counts;
  for (const Metric &metric : metrics()) {
    llvm::StringRef name = metric.name;
    std::string key = name.str();
    if (name.consume_back("_seconds")) // in the struct they are nanoseconds
      key = name.str() + "_ns";
    counts[key] = countJson(statistics.*metric.field);
  }
  llvm::json::Array waits;
  uint64_t position = 0;
  for (const observe::WaitEntry &entry : engine.waits().entries(position))
    waits.push_back(waitJson(entry));
  const auto unixNs = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::json::Value(
             llvm::json::Object{{"kiln_statistics", 1},
                                {"version", KILN_VERSION},
                                {"pid", static_cast<int64_t>(::getpid())},
                                {"unix_ns", std::to_string(unixNs)},
                                {"statistics", std::move(counts)},
                                {"waits", std::move(waits)}})
      << "\n";
  return text;
}

StatisticsWriter::StatisticsWriter(Engine &engine, const std::string &path)
    : engine(engine),
      file(openOwned(FileOps::system(), absolutePath(processPath(path)),
                     /*isPlain=*/true)) {
  if (!file.fd) {
    fail(file.errnoValue);
    return;
  }
  constexpr std::chrono::seconds kInterval{1};
  if (!thread.start("kiln-statistics", kInterval, [this] { write(); }))
    engine.hooks().log().warning(
        "KILN_STATISTICS: the system refuses a thread; {} is written at the "
        "end of the engine",
        file.path);
}

StatisticsWriter::~StatisticsWriter() {
  thread.stop();
  write();
}

/// Replaces the file by \p text. Readers see the old text or the new one. The
/// file need not outlive a power cut, so nothing is synchronised. Returns 0 or
/// an errno.
int StatisticsWriter::replace(const std::string &text) {
  FileOps &ops = FileOps::system();
  const std::string fresh =
      (llvm::sys::path::parent_path(file.path) + "/" + temporaryName()).str();
  ScopedFd fd(ops, ops.open(AT_FDCWD, fresh.c_str(),
                            O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                            0644));
  if (!fd)
    return errno;
  (void)ops.tryLock(fd.get(), kWriterLockOffset);
  int failure = writeAllAt(ops, fd.get(), text, 0);
  if (!failure && ops.rename(AT_FDCWD, fresh.c_str(), file.path.c_str()) != 0)
    failure = errno;
  if (failure)
    ops.unlink(AT_FDCWD, fresh.c_str());
  else
    file.fd = std::move(fd); // the lock goes on with the name
  return failure;
}

void StatisticsWriter::fail(int errnoValue) {
  if (!std::exchange(hasFailed, true))
    engine.hooks().log().warning(
        "KILN_STATISTICS: {} cannot be written: {}", file.path,
        errnoValue == EINVAL ? "it is no plain file"
                             : std::strerror(errnoValue));
}

void StatisticsWriter::write() noexcept try {
  if (!file.fd)
    return;
  if (const int failure = replace(statisticsJson(engine)))
    fail(failure);
} catch (...) { // no memory, or a hook: the next write may succeed
}

} // namespace kiln
