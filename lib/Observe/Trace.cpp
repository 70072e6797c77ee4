//===- Trace.cpp - a file with what each thread did when ------------------===//
#include "Observe/Trace.h"

#include "Observe/Watch.h"
#include "Support/Error.h"
#include "Support/FileOps.h"
#include "Support/Format.h"
#include "Support/OutputPath.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/raw_ostream.h>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

namespace kiln::observe {

uint64_t monotonicNs() noexcept {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<nanoseconds>(steady_clock::now().time_since_epoch())
          .count());
}

static constinit thread_local int64_t knownThread = 0;

int64_t threadId() noexcept {
  if (knownThread == 0)
    knownThread = ::syscall(SYS_gettid);
  return knownThread;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 30;
constexpr size_t kBufferBytes = 64 << 10;
constexpr llvm::StringLiteral kEnd = "\n]}\n";

class Trace {
public:
  llvm::Expected<std::string> start(llvm::StringRef path);
  void stop() noexcept;
  /// Adds one event, "{...}", of the calling thread. \p isFrequent: it may wait
  /// in the buffer.
  void add(llvm::StringRef event, bool isFrequent) noexcept;
  /// Else the child would hold the parent's lock of the file.
  void closeInChild() const noexcept {
    if (file)
      ::close(file.get());
  }

private:
  void append(llvm::StringRef event);
  void nameThread();
  void flush();
  void close();

  std::mutex mutex; ///< guards what follows
  ScopedFd file;
  pid_t process = 0;
  std::string buffer; ///< lines behind `written`
  uint64_t written = 0;
  uint64_t lost = 0;   ///< events that the file lacks
  int failure = 0;     ///< of the last write; 0: none
  uint64_t number = 0; ///< of the trace, in which threads are named
};

/// Never destroyed: threads may work while the process exits. A child has one
/// of its own, because threads of the parent may have held the lock.
constinit std::atomic<Trace *> current{nullptr};

Trace &trace() {
  Trace *known = current.load(std::memory_order_acquire);
  if (known)
    return *known;
  auto made = std::make_unique<Trace>();
  return current.compare_exchange_strong(known, made.get()) ? *made.release()
                                                            : *known;
}

std::string processName() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0)
    return "kiln";
  return llvm::sys::path::filename(
             llvm::StringRef(path, static_cast<size_t>(length)))
      .str();
}

double usOf(uint64_t ns) { return static_cast<double>(ns) * 1e-3; }

/// \p text as a JSON string with quotes.
std::string quoted(llvm::StringRef text) {
  std::string out;
  llvm::raw_string_ostream(out) << llvm::json::Value(llvm::json::fixUTF8(text));
  return out;
}

llvm::Error cannotWrite(llvm::StringRef path, int code) {
  return makeError(ErrorCode::Io, "the trace {} cannot be written: {}", path,
                   std::strerror(code));
}

} // namespace

llvm::Expected<std::string> Trace::start(llvm::StringRef given) {
  std::lock_guard<std::mutex> lock(mutex);
  if (file)
    return makeError(ErrorCode::InProgress, "a trace is being written already");
  OwnedFile opened =
      openOwned(FileOps::system(), processPath(given), /*isPlain=*/false);
  if (!opened.fd || FileOps::system().truncate(opened.fd.get(), 0) != 0)
    return cannotWrite(opened.path, opened.fd ? errno : opened.errnoValue);
  file = std::move(opened.fd);
  process = ::getpid();
  written = lost = 0;
  ++number;
  const auto unixNs = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  buffer = fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"kiln\":"
                       "\"{}\",\"pid\":\"{}\",\"unix_ns\":\"{}\","
                       "\"monotonic_ns\":\"{}\"}},\"traceEvents\":[\n"
                       "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},"
                       "\"tid\":0,\"args\":{{\"name\":{}}}}}",
                       KILN_VERSION, process, unixNs, monotonicNs(), process,
                       quoted(processName()));
  flush();
  if (written == 0) {
    close();
    return cannotWrite(opened.path, failure);
  }
  watch(kTrace);
  // Else the end of the buffer would be lost at the end of the process.
  static const int isExitWatched = std::atexit([] { stopTrace(); });
  (void)isExitWatched;
  return opened.path;
}

void Trace::stop() noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  unwatch(kTrace);
  if (!file || process != ::getpid())
    return;
  try {
    if (lost)
      append(fmt::format("{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"events "
                         "lost\",\"cat\":\"trace\",\"ts\":{:.3f},\"pid\":{},"
                         "\"tid\":0,\"args\":{{\"count\":{}}}}}",
                         usOf(monotonicNs()), process, lost));
    flush();
  } catch (const std::bad_alloc &) { // the file lacks its last events
  }
  close();
}

void Trace::close() {
  file = ScopedFd();
  buffer = std::string();
}

void Trace::append(llvm::StringRef event) {
  buffer += "\n,";
  buffer.append(event.data(), event.size());
}

/// Gives the calling thread its name at its first event.
void Trace::nameThread() {
  static thread_local uint64_t namedIn = 0;
  if (std::exchange(namedIn, number) == number)
    return;
  char name[16] = "";
  if (::pthread_getname_np(::pthread_self(), name, sizeof(name)) != 0)
    return;
  append(fmt::format("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},"
                     "\"tid\":{},\"args\":{{\"name\":{}}}}}",
                     process, threadId(), quoted(name)));
}

void Trace::add(llvm::StringRef event, bool isFrequent) noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  if (!file || process != ::getpid())
    return;
  if (written + buffer.size() + event.size() > kMostBytes) {
    ++lost;
    return;
  }
  try {
    nameThread();
    append(event);
    if (!isFrequent || buffer.size() >= kBufferBytes)
      flush();
  } catch (const std::bad_alloc &) {
    ++lost;
  }
}

/// Writes the buffer and the end of the file, over the former end. Lines that
/// cannot be written are lost, and the file stays unchanged.
void Trace::flush() {
  FileOps &ops = FileOps::system();
  const size_t lines = buffer.size();
  buffer += kEnd;
  failure = writeAllAt(ops, file.get(), buffer, static_cast<off_t>(written));
  if (!failure) {
    written += lines;
  } else {
    // Names of threads are told again.
    const auto all = llvm::StringRef(buffer).take_front(lines);
    lost += all.count("\n,") - all.count("\n,{\"ph\":\"M\"");
    ++number;
  }
  // The disk is full. This much the file held before.
  if (failure && written > 0) {
    (void)writeAllAt(ops, file.get(), kEnd, static_cast<off_t>(written));
    (void)ops.truncate(file.get(), static_cast<off_t>(written + kEnd.size()));
  }
  buffer.clear();
}

llvm::Expected<std::string> startTrace(llvm::StringRef path) {
  return trace().start(path);
}

void stopTrace() noexcept {
  if (watching() & kTrace)
    trace().stop();
}

void forgetTrace() noexcept {
  knownThread = 0;
  if (const Trace *parents = current.exchange(nullptr))
    parents->closeInChild();
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

static std::string argsOf(const TracedInterval &interval) {
  std::string args;
  auto add = [&](const char *key, llvm::StringRef value) {
    if (!value.empty())
      args += fmt::format("{}\"{}\":{}", args.empty() ? "" : ",", key,
                          quoted(value));
  };
  add("what", interval.what);
  add("reason", interval.reason);
  return args;
}

void traceInterval(const TracedInterval &interval) noexcept try {
  const llvm::StringRef phase = nameOf(interval.phase);
  trace().add(
      fmt::format("{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"ts\":{:.3f},"
                  "\"dur\":{:.3f},\"pid\":{},\"tid\":{},\"args\":{{{}}}}}",
                  quoted(interval.name.empty() ? phase : interval.name),
                  phase.str(), usOf(interval.startNs),
                  usOf(interval.endNs - interval.startNs), ::getpid(),
                  threadId(), argsOf(interval)),
      interval.phase == Phase::Launch || interval.phase == Phase::Wait);
} catch (const std::bad_alloc &) {
}

Flow Flow::here() noexcept {
  Flow flow;
  if (watching() & kTrace) {
    flow.ns = monotonicNs();
    flow.thread = threadId();
  }
  return flow;
}

void Flow::arrive(const char *name) noexcept try {
  if (!ns || !(watching() & kTrace))
    return;
  static std::atomic<uint64_t> lastId{0};
  const uint64_t id = ++lastId;
  const pid_t process = ::getpid();
  // Both ends are written together, so that every arrow has both.
  trace().add(
      fmt::format("{{\"ph\":\"s\",\"id\":{},\"name\":\"{}\",\"cat\":\"flow\","
                  "\"ts\":{:.3f},\"pid\":{},\"tid\":{}}}\n"
                  ",{{\"ph\":\"f\",\"bp\":\"e\",\"id\":{},\"name\":\"{}\","
                  "\"cat\":\"flow\",\"ts\":{:.3f},\"pid\":{},\"tid\":{}}}",
                  id, name, usOf(ns), process, thread, id, name,
                  usOf(monotonicNs()), process, threadId()),
      false);
  ns = 0;
} catch (const std::bad_alloc &) {
}

} // namespace kiln::observe
