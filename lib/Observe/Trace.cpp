//===- Trace.cpp - a file with what each thread did when ------------------===//
#include "Observe/Trace.h"

#include "Observe/Watch.h"
#include "Support/AtomicFile.h"
#include "Support/Error.h"
#include "Support/FileOps.h"
#include "Support/Format.h"

#include <llvm/Support/JSON.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/raw_ostream.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
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

int64_t threadId() noexcept {
  static thread_local const int64_t id = ::syscall(SYS_gettid);
  return id;
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

/// Opens and empties a file that no other process writes a trace to. Its name
/// is \p path or, if another process writes there, gets the number of this one.
llvm::Expected<ScopedFd> openOwn(std::string &path) {
  const std::string number = std::to_string(::getpid());
  for (size_t place; (place = path.find("%p")) != std::string::npos;)
    path.replace(place, 2, number);
  FileOps &ops = FileOps::system();
  for (bool isSecond : {false, true}) {
    ScopedFd fd(ops, ops.open(AT_FDCWD, path.c_str(),
                              O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
    if (!fd)
      return cannotWrite(path, errno);
    // A file system without locks has no such protection.
    if (ops.tryLock(fd.get(), kWriterLockOffset) == 0 ||
        (errno != EAGAIN && errno != EACCES)) {
      if (ops.truncate(fd.get(), 0) != 0)
        return cannotWrite(path, errno);
      return fd;
    }
    if (isSecond)
      break;
    const std::string extension = llvm::sys::path::extension(path).str();
    path.resize(path.size() - extension.size());
    path += "." + number + extension;
  }
  return makeError(ErrorCode::InProgress, "another process writes the trace {}",
                   path);
}

} // namespace

llvm::Expected<std::string> Trace::start(llvm::StringRef given) {
  std::lock_guard<std::mutex> lock(mutex);
  if (file)
    return makeError(ErrorCode::InProgress, "a trace is being written already");
  std::string path = given.str();
  auto opened = openOwn(path);
  if (!opened)
    return opened.takeError();
  file = std::move(*opened);
  process = ::getpid();
  written = lost = 0;
  static uint64_t lastNumber = 0;
  number = ++lastNumber;
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
    return cannotWrite(path, failure);
  }
  watch(kTrace);
  return path;
}

void Trace::stop() noexcept {
  unwatch(kTrace);
  std::lock_guard<std::mutex> lock(mutex);
  if (file && process == ::getpid()) {
    if (lost)
      append(fmt::format("{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"events "
                         "lost\",\"cat\":\"trace\",\"ts\":{},\"pid\":{},"
                         "\"tid\":0,\"args\":{{\"count\":{}}}}}",
                         double(monotonicNs()) * 1e-3, process, lost));
    flush();
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
  const size_t lines = buffer.size();
  buffer += kEnd;
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t step = FileOps::system().writeAt(
        file.get(), buffer.data() + done, buffer.size() - done,
        static_cast<off_t>(written + done));
    if (step < 0 && errno == EINTR)
      continue;
    failure = step < 0 ? errno : step == 0 ? ENOSPC : 0;
    if (step <= 0)
      break;
    done += static_cast<size_t>(step);
  }
  if (done == buffer.size()) {
    written += lines;
  } else {
    lost += llvm::StringRef(buffer).take_front(lines).count("\n,");
    // The disk is full. This much it held before.
    (void)FileOps::system().writeAt(file.get(), kEnd.data(), kEnd.size(),
                                    static_cast<off_t>(written));
    (void)FileOps::system().truncate(file.get(),
                                     static_cast<off_t>(written + kEnd.size()));
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
  if (const Trace *parents = current.exchange(nullptr))
    parents->closeInChild();
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

static double usOf(uint64_t ns) { return static_cast<double>(ns) * 1e-3; }

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
      interval.phase == Phase::Launch);
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
