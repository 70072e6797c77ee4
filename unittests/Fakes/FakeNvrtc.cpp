// A compiler that compiles nothing; see FakeNvrtc.h. The library exports the
// functions that both headers declare.
#pragma GCC visibility push(default)
#include "Fakes/FakeNvrtc.h"
#include <nvrtc.h>
#pragma GCC visibility pop

#include "Fakes/FakeCubin.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

struct _nvrtcProgram {
  std::string source, name, log, cubin;
  std::vector<std::string> kernels; ///< of the source and all headers
  bool compiled = false;
};

namespace {
struct State {
  std::mutex mutex;
  std::map<std::string, std::string> failures; ///< needle -> log
  std::map<std::string, int> delays;           ///< needle -> ms
  std::map<std::string, int> spills;           ///< needle -> bytes
  std::set<std::string> holds;                 ///< needles
  std::condition_variable released;
  int held = 0, releases = 0;
  std::string appended, lastOptions;
  std::optional<std::string> cubin; ///< the result of every compilation
  size_t claimedSize = 0;           ///< of cubins and logs, 0: the true one
  int registers = 40, spillBytes = 0, sharedBytes = 0;
  int major = 13, minor = 0;
  int compiles = 0, running = 0, mostConcurrent = 0;
};
} // namespace

/// Never destroyed: a compilation may outlive main().
static State &state() {
  static State *instance = new State;
  return *instance;
}

/// Compilations of this thread, which may end the process from inside of one.
static thread_local int ownRunning = 0;

/// Whether the destructors of this process have begun.
static std::atomic<pid_t> destroyedIn{0};

static void refuse(const char *why) {
  std::fprintf(stderr, "stand-in of NVRTC: %s\n", why);
  std::abort();
}

static void checkAlive() {
  if (destroyedIn == ::getpid() && ownRunning == 0)
    refuse("called after its destructors");
}

static const pid_t loadedIn = ::getpid();

/// As NVRTC's destructors, which pull its state from under a thread inside.
static void destroy() {
  if (loadedIn != ::getpid())
    return; // a forked child has no other threads
  // They take their time: a compilation may begin behind them.
  if (destroyedIn.exchange(loadedIn) != loadedIn)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::lock_guard lock(state().mutex);
  if (state().running > ownRunning)
    refuse("destroyed in the midst of a compilation");
}

/// Some of NVRTC's are registered when it is loaded.
[[maybe_unused]] static const int destroyedAtExit = std::atexit(destroy);

/// Takes \p ms. Others of NVRTC's are registered in the midst of its first
/// compilation, and here of each. The lock is not held.
static void work(int ms) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  for (;;) {
    (void)std::atexit(destroy);
    const auto now = std::chrono::steady_clock::now();
    if (now >= end)
      return;
    std::this_thread::sleep_until(
        std::min(end, now + std::chrono::milliseconds(5)));
  }
}

static const int kArchs[] = {75, 80,  86,  87,  88,  89,
                             90, 100, 103, 110, 120, 121};

static bool isKnownOption(const std::string &option) {
  static const char *const kPrefixes[] = {"--gpu-architecture=sm_",
                                          "--std=c++20",
                                          "-default-device",
                                          "--minimal",
                                          "--no-cache",
                                          "--no-source-include",
                                          "--ptxas-options=-v",
                                          "--time=-",
                                          "-lineinfo",
                                          "--use_fast_math",
                                          "--fmad=",
                                          "--maxrregcount="};
  return std::any_of(
      std::begin(kPrefixes), std::end(kPrefixes),
      [&](const char *prefix) { return option.rfind(prefix, 0) == 0; });
}

/// The name of the kernel at \p at, where __global__ stands in \p source: the
/// word before the first parentheses that do not belong to __launch_bounds__.
static std::string kernelAt(const std::string &source, size_t at) {
  while (at < source.size()) {
    const size_t open = source.find('(', at);
    if (open == std::string::npos || open == 0)
      break;
    const size_t end = source.find_last_not_of(" \n", open - 1) + 1;
    const size_t start = source.find_last_of(" *&\n)", end - 1) + 1;
    const std::string name = source.substr(start, end - start);
    if (name != "__launch_bounds__")
      return name;
    int depth = 0;
    for (at = open; at < source.size(); ++at) {
      depth += (source[at] == '(') - (source[at] == ')');
      if (depth == 0)
        break;
    }
    ++at;
  }
  return {};
}

/// The names of the kernels of \p source, in order.
static std::vector<std::string> kernelsOf(const std::string &source) {
  std::vector<std::string> names;
  for (size_t at = source.find("__global__"); at != std::string::npos;
       at = source.find("__global__", at + 1))
    if (std::string name = kernelAt(source, at); !name.empty())
      names.push_back(std::move(name));
  return names;
}

/// The name of the last kernel.
static std::string entryOf(const std::string &source) {
  std::vector<std::string> names = kernelsOf(source);
  return names.empty() ? "kilnEntry" : names.back();
}

/// NVRTC's log for --ptxas-options=-v and --time=-, with its NULs.
static std::string successLog(const State &s, const nvrtcProgram program,
                              const std::string &arch) {
  const std::string entry = entryOf(program->source);
  int spillBytes = s.spillBytes;
  for (const auto &[needle, bytes] : s.spills)
    if (program->source.find(needle) != std::string::npos)
      spillBytes = bytes;
  const std::string spills = std::to_string(spillBytes);
  std::string log;
  log += "ptxas info    : 0 bytes gmem\n";
  log += "ptxas info    : Compiling entry function '" + entry + "' for '" +
         arch + "'\n";
  log += "ptxas info    : Function properties for " + entry + "\n";
  log += "ptxas         .     " + spills + " bytes stack frame, " + spills +
         " bytes spill stores, " + spills + " bytes spill loads\n";
  log += "ptxas info    : Used " + std::to_string(s.registers) +
         " registers, used 1 barriers, " + std::to_string(s.sharedBytes) +
         " bytes smem, 400 bytes cmem[0]\n";
  log += s.appended;
  log += std::string(1, '\0');
  log += "\nFile name, phase name, metric, unit\n";
  log += program->name + ", CUDA C++ Frontend, 1, ms\n";
  log += program->name + ", NVVM Optimizer, 2, ms\n";
  log += program->name + ", PTX Translation, 3, ms\n";
  return log;
}

/// The behaviour that the environment asks for.
static void misbehave() {
  const char *how = std::getenv("KILN_FAKE_NVRTC");
  if (!how)
    return;
  if (const char *mark = std::getenv("KILN_FAKE_NVRTC_MARK"))
    std::fclose(std::fopen(mark, "w"));
  if (std::string(how) == "exit") {
    ++ownRunning; // its thread is the one that ends it
    std::exit(0);
  }
  while (std::string(how) == "hang")
    std::this_thread::sleep_for(std::chrono::hours(1));
}

/// Waits while \p source is held. The lock is held.
static void waitForRelease(std::unique_lock<std::mutex> &lock,
                           const std::string &source) {
  State &s = state();
  auto isHeld = [&] {
    return std::any_of(s.holds.begin(), s.holds.end(),
                       [&](const std::string &needle) {
                         return source.find(needle) != std::string::npos;
                       });
  };
  // A release counts though the same is held again before this thread sees it.
  const int before = s.releases;
  ++s.held;
  s.released.wait(lock, [&] { return s.releases != before || !isHeld(); });
  --s.held;
}

extern "C" {

/// As in NVRTC, which has no function for the third number. It is there for the
/// version 13.0 alone.
[[gnu::used, gnu::retain]] static const char kToolsVersion[] =
    "Cuda compilation tools, release 13.0, V13.0.99";

nvrtcResult nvrtcVersion(int *major, int *minor) {
  std::lock_guard lock(state().mutex);
  *major = state().major;
  *minor = state().minor;
  return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
  case NVRTC_SUCCESS:
    return "NVRTC_SUCCESS";
  case NVRTC_ERROR_INVALID_OPTION:
    return "NVRTC_ERROR_INVALID_OPTION";
  case NVRTC_ERROR_COMPILATION:
    return "NVRTC_ERROR_COMPILATION";
  default:
    return "NVRTC_ERROR unknown";
  }
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
  *count = static_cast<int>(std::size(kArchs));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *archs) {
  std::copy(std::begin(kArchs), std::end(kArchs), archs);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source,
                               const char *name, int headerCount,
                               const char *const *headers,
                               const char *const *headerNames) {
  if (!program || !source || headerCount < 0 ||
      (headerCount > 0 && (!headers || !headerNames)))
    return NVRTC_ERROR_INVALID_INPUT;
  checkAlive();
  *program = new _nvrtcProgram;
  (*program)->source = source;
  (*program)->name = name ? name : "default_program";
  std::vector<std::string> &kernels = (*program)->kernels;
  kernels = kernelsOf(source);
  for (int i = 0; i < headerCount; ++i)
    for (std::string &kernel : kernelsOf(headers[i]))
      kernels.push_back(std::move(kernel));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  if (!program || !*program)
    return NVRTC_ERROR_INVALID_PROGRAM;
  checkAlive();
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                const char *const *options) {
  checkAlive();
  misbehave();
  State &s = state();
  std::unique_lock lock(s.mutex);
  ++s.compiles;
  s.lastOptions.clear();
  std::string arch;
  const std::string archOption = "--gpu-architecture=";
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    s.lastOptions += option + "\n";
    if (!isKnownOption(option)) {
      program->log = "nvrtc: error: unrecognized option " + option + " found\n";
      return NVRTC_ERROR_INVALID_OPTION;
    }
    if (option.rfind(archOption, 0) == 0)
      arch = option.substr(archOption.size());
  }

  int delay = 0;
  for (const auto &[needle, ms] : s.delays)
    if (program->source.find(needle) != std::string::npos)
      delay = std::max(delay, ms);
  s.mostConcurrent = std::max(s.mostConcurrent, ++s.running);
  ++ownRunning;
  lock.unlock();
  work(delay);
  lock.lock();
  waitForRelease(lock, program->source);
  --s.running;
  --ownRunning;

  for (const auto &[needle, log] : s.failures)
    if (program->source.find(needle) != std::string::npos) {
      program->log = log;
      return NVRTC_ERROR_COMPILATION;
    }
  if (program->source.find("#error") != std::string::npos) {
    program->log = program->name + "(1): catastrophic error: #error directive\n"
                                   "1 catastrophic error detected.\n";
    return NVRTC_ERROR_COMPILATION;
  }
  program->log = successLog(s, program, arch);
  program->cubin = kiln::makeFakeCubin(
      program->source, arch.empty() ? 0 : std::stoi(arch.substr(3)),
      program->kernels);
  if (s.cubin)
    program->cubin = *s.cubin;
  program->compiled = true;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size) {
  if (!program->compiled)
    return NVRTC_ERROR_INVALID_PROGRAM;
  std::lock_guard lock(state().mutex);
  *size = state().claimedSize ? state().claimedSize : program->cubin.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  program->cubin.copy(cubin, program->cubin.size());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size) {
  std::lock_guard lock(state().mutex);
  *size = state().claimedSize ? state().claimedSize : program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  program->log.copy(log, program->log.size());
  log[program->log.size()] = '\0';
  return NVRTC_SUCCESS;
}

void kilnFakeNvrtcReset() {
  State &s = state();
  std::lock_guard lock(s.mutex);
  s.failures.clear();
  s.delays.clear();
  s.holds.clear();
  ++s.releases;
  s.released.notify_all();
  s.spills.clear();
  s.appended.clear();
  s.cubin.reset();
  s.claimedSize = 0;
  s.lastOptions.clear();
  s.registers = 40;
  s.spillBytes = s.sharedBytes = 0;
  s.major = 13;
  s.minor = 0;
  s.compiles = s.mostConcurrent = 0;
}

void kilnFakeNvrtcFailWhen(const char *needle, const char *log) {
  std::lock_guard lock(state().mutex);
  state().failures[needle] = log;
}

void kilnFakeNvrtcDelayWhen(const char *needle, int ms) {
  std::lock_guard lock(state().mutex);
  state().delays[needle] = ms;
}

void kilnFakeNvrtcHoldWhen(const char *needle) {
  std::lock_guard lock(state().mutex);
  state().holds.insert(needle);
}

void kilnFakeNvrtcRelease() {
  std::lock_guard lock(state().mutex);
  state().holds.clear();
  ++state().releases;
  state().released.notify_all();
}

int kilnFakeNvrtcHeldCount() {
  std::lock_guard lock(state().mutex);
  return state().holds.empty() ? 0 : state().held;
}

void kilnFakeNvrtcAppendLog(const char *text) {
  std::lock_guard lock(state().mutex);
  state().appended += text;
}

void kilnFakeNvrtcSetUsage(int registers, int spillBytes, int sharedBytes) {
  std::lock_guard lock(state().mutex);
  state().registers = registers;
  state().spillBytes = spillBytes;
  state().sharedBytes = sharedBytes;
}

void kilnFakeNvrtcSpillWhen(const char *needle, int bytes) {
  std::lock_guard lock(state().mutex);
  state().spills[needle] = bytes;
}

void kilnFakeNvrtcReturnCubin(const char *cubin, size_t bytes) {
  std::lock_guard lock(state().mutex);
  state().cubin.emplace(cubin, bytes);
}

void kilnFakeNvrtcClaimSize(size_t bytes) {
  std::lock_guard lock(state().mutex);
  state().claimedSize = bytes;
}

void kilnFakeNvrtcSetVersion(int major, int minor) {
  std::lock_guard lock(state().mutex);
  state().major = major;
  state().minor = minor;
}

int kilnFakeNvrtcCompileCount() {
  std::lock_guard lock(state().mutex);
  return state().compiles;
}

int kilnFakeNvrtcRunning() {
  std::lock_guard lock(state().mutex);
  return state().running;
}

int kilnFakeNvrtcMostConcurrent() {
  std::lock_guard lock(state().mutex);
  return state().mostConcurrent;
}

const char *kilnFakeNvrtcLastOptions() {
  std::lock_guard lock(state().mutex);
  return state().lastOptions.c_str();
}

} // extern "C"
