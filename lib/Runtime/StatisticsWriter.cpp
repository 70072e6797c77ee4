//===- StatisticsWriter.cpp - a file with an engine's counts --------------===//
#include "Runtime/StatisticsWriter.h"

#include "Compile/ProcessExit.h"
#include "Observe/Observe.h"
#include "Runtime/Engine.h"
#include "Runtime/OpenMetrics.h"
#include "Support/FileOps.h"
#include "Support/Report.h"
#include "Support/Signals.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/Path.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
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

std::string statisticsJson(Engine &engine, uint64_t number) {
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
  uint64_t next = 0;
  for (const observe::WaitEntry &entry : engine.waits().entries(0, next))
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
                                {"engine", static_cast<int64_t>(number)},
                                {"statistics", std::move(counts)},
                                {"waits", std::move(waits)}})
      << "\n";
  return text;
}

/// The file of engine \p number of this process.
static std::string fileOf(std::string path, uint64_t number) {
  const std::string process = std::to_string(::getpid());
  for (size_t place; (place = path.find("%p")) != std::string::npos;)
    path.replace(place, 2, process);
  if (number == 1)
    return path;
  const std::string extension = llvm::sys::path::extension(path).str();
  path.resize(path.size() - extension.size());
  return path + "." + std::to_string(number) + extension;
}

StatisticsWriter::StatisticsWriter(Engine &engine, std::string path)
    : engine(engine) {
  static std::atomic<uint64_t> count{0};
  number = ++count;
  file = fileOf(std::move(path), number);
  SignalsBlocked whileItStarts;
  try {
    thread = std::thread([this] { work(); });
  } catch (const std::system_error &) {
    engine.hooks().log().warning(
        "KILN_STATISTICS: the system refuses a thread; {} is written at the "
        "end of the engine",
        file);
  }
}

StatisticsWriter::~StatisticsWriter() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
  write();
}

void StatisticsWriter::work() noexcept {
  constexpr std::chrono::seconds kInterval{1};
  observe::nameThread("kiln-statistics");
  std::unique_lock<std::mutex> lock(mutex);
  while (!changed.wait_for(lock, kInterval, [&] { return isEnding; })) {
    lock.unlock();
    write();
    lock.lock();
  }
}

/// Replaces \p path by \p text. Readers see the old text or the new one. The
/// file need not outlive a power cut, so nothing is synchronised.
/// Returns 0 or an errno.
static int replaceText(const std::string &path, const std::string &text) {
  FileOps &ops = FileOps::system();
  const std::string fresh = path + ".tmp";
  ScopedFd fd(ops,
              ops.open(AT_FDCWD, fresh.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                       0644));
  if (!fd)
    return errno;
  for (size_t done = 0; done < text.size();) {
    const ssize_t step =
        ops.write(fd.get(), text.data() + done, text.size() - done);
    if (step < 0 && errno == EINTR)
      continue;
    if (step <= 0)
      return step < 0 ? errno : ENOSPC;
    done += static_cast<size_t>(step);
  }
  return ops.rename(AT_FDCWD, fresh.c_str(), path.c_str()) == 0 ? 0 : errno;
}

void StatisticsWriter::write() noexcept try {
  const int failure = replaceText(file, statisticsJson(engine, number));
  if (failure && !std::exchange(hasFailed, true))
    engine.hooks().log().warning("KILN_STATISTICS: {} cannot be written: {}",
                                 file, std::strerror(failure));
} catch (...) { // no memory, or a hook: the next write may succeed
}

} // namespace kiln
