//===- FakeCudaState.h - the state of the stand-in driver -----------------===//
//
// Objects are never freed, only marked dead, so that a stale handle is an error
// and not a crash; they stay reachable from the state, which leaks on purpose
// so that exit handlers may still call the driver.
//
//===----------------------------------------------------------------------===//
#pragma once

// The functions of cuda.h are this library's exports.
#pragma GCC visibility push(default)
#include <cuda.h>

// <cudaProfiler.h>, which not every package of cuda.h has.
extern "C" CUresult CUDAAPI cuProfilerStart(void);
extern "C" CUresult CUDAAPI cuProfilerStop(void);
#pragma GCC visibility pop

#include "Fakes/FakeCuda.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace kiln::fake {

enum Symbol : int {
#define KILN_CUDA_SYMBOL(name) kSymbol_##name,
#include "Driver/CudaSymbols.def"
  kSymbolCount
};

/// First member of every object behind a handle.
enum class Kind : uint32_t {
  Dead = 0,
  Context = 0x4b434f4e,
  Stream,
  Event,
  Module,
  Function,
  Graph,
  GraphNode,
  GraphExec,
  UserObject,
  MemoryPool
};

struct Object {
  explicit Object(Kind kind) : kind(kind) {}
  virtual ~Object() = default;
  std::atomic<Kind> kind;
};

struct Node;

/// Work of a stream that is not done: a launch that was told to stay
/// unfinished, and the work enqueued behind it. Empty while nothing is held.
using WorkQueue = std::deque<Node>;

struct Context : Object {
  Context();
  ~Context() override;
  std::atomic<uint64_t> id{0};
  std::atomic<int> sticky{0}; ///< the CUresult of every call, 0 while alive
  int device = 0;
  int references = 0;                   ///< of a primary context
  std::unique_ptr<WorkQueue> legacy;    ///< of its default stream
  std::atomic<bool> kernelAhead{false}; ///< as Stream's, of the default ones
};

struct Callback {
  std::string pattern;
  KilnFakeKernel kernel = nullptr;
  void *user = nullptr;
  size_t paramBytes = 0;
};

struct Module : Object {
  Module() : Object(Kind::Module) {}
  Context *context = nullptr;
  std::string text;
  std::vector<CUfunction> functions;
};

struct Function : Object {
  Function() : Object(Kind::Function) {}
  std::string name;
  Module *module = nullptr;
  Context *context = nullptr;
  uint32_t maxDynamicShared = 48 << 10;
  // The attributes of these that launches look at.
  uint64_t maxThreads = 1024;
  bool takesLargeClusters = false;
  std::map<int, int> attributes;

  void set(int attribute, int value) {
    attributes[attribute] = value;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
      maxThreads = static_cast<uint64_t>(value);
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
      takesLargeClusters = value != 0;
  }
};

struct Event : Object {
  Event() : Object(Kind::Event) {}
  bool timing = true, recorded = false;
  std::atomic<bool> isCaptured{false}; ///< last recorded in a capture
  int pending = 0; ///< records that were enqueued and not reached
  Context *context = nullptr;
  uint64_t clockPs = 0;
};

/// Work in the order it was enqueued, kept while it is captured or held.
struct Node {
  enum class Type { Kernel, Memset, Copy, Event, Wait } type = Type::Kernel;
  Context *context = nullptr; ///< in which it runs
  KilnFakeLaunch launch = {};
  Function *function = nullptr;
  Callback callback;
  std::vector<std::byte> params;
  void *to = nullptr;
  const void *from = nullptr;
  uint64_t bytes = 0;
  uint8_t value = 0;
  Event *event = nullptr;
};

/// An object that a graph keeps; the destructor is called with the last
/// reference.
struct UserObject : Object {
  UserObject() : Object(Kind::UserObject) {}
  std::shared_ptr<void> reference; ///< the creator's
};
using KeptObjects = std::vector<std::shared_ptr<void>>;

struct Graph : Object {
  Graph() : Object(Kind::Graph) {}
  std::vector<Node> nodes;
  KeptObjects kept;
};

/// A node of a graph that was built by hand.
struct GraphNode : Object {
  GraphNode() : Object(Kind::GraphNode) {}
  Graph *graph = nullptr;
  size_t index = 0;
};

struct GraphExec : Object {
  GraphExec() : Object(Kind::GraphExec) {}
  Context *context = nullptr; ///< that it was made in
  std::vector<Node> nodes;
  KeptObjects kept;
};

struct Stream : Object {
  Stream() : Object(Kind::Stream) {}
  Context *context = nullptr;
  uint64_t id = 0;
  bool blocking = true; ///< synchronises with the default stream
  int priority = 0;     ///< the lower the sooner
  WorkQueue held;
  std::atomic<int> capture{CU_STREAM_CAPTURE_STATUS_NONE};
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id capturer;
  Graph *graph = nullptr;
  /// The work enqueued last is a kernel: the next one may depend on it.
  std::atomic<bool> kernelAhead{false};
};

struct MemoryPool : Object {
  MemoryPool() : Object(Kind::MemoryPool) {}
  Context *context = nullptr; ///< that it was made in; null: none
};

struct Device {
  std::string name;
  std::map<int, int> attributes;
  uint64_t memoryBytes = 0, bytesInUse = 0;
  uint64_t othersBytes = 0; ///< taken by other processes
  Context *primary = nullptr;
};

struct Failure {
  uint64_t atCall = 0; ///< value of the symbol's counter
  int result = 0;
  KilnFakeFailure kind = KilnFakeOnce;
};

struct Allocation {
  uint64_t bytes = 0;
  int device = 0;
  Context *context = nullptr;
  bool isHollow = false; ///< of addresses only
};

struct FunctionRule {
  std::string pattern;
  int attribute = 0, value = 0;
};

struct State {
  /// Needs the mutex.
  uint64_t bytesInUse() const {
    uint64_t bytes = 0;
    for (const Device &device : devices)
      bytes += device.bytesInUse;
    return bytes;
  }

  std::mutex mutex; ///< guards all but the atomics
  std::atomic<bool> initialised{false};
  std::atomic<int> driverVersion{13000};
  std::atomic<int> greenSms{0}; ///< SMs of all contexts; 0: the device's
  int deviceCount = 1;
  std::array<Device, 8> devices;
  std::vector<std::unique_ptr<Object>> objects;
  // Dead objects; their handles are given out again at once, the last one
  // first.
  std::vector<Context *> freeContexts;
  std::vector<Stream *> freeStreams;
  std::vector<Event *> freeEvents;
  std::vector<Stream *> captures;
  std::map<uint64_t, Allocation> allocations; ///< by address
  std::array<Failure, kSymbolCount> failures;
  std::vector<Callback> callbacks;
  std::vector<FunctionRule> functionRules;
  uint64_t modulesLoaded = 0, peakBytes = 0;
  uint64_t hollowFrom = 0; ///< bytes of allocations that are hollow; 0: none

  std::string heldPattern; ///< launches that stay unfinished; empty: none
  /// Where something is held: a stream, or a context's default stream.
  struct Holding {
    Context *context = nullptr;
    Stream *stream = nullptr; ///< null: the default one
    bool operator==(const Holding &) const = default;
  };
  std::vector<Holding> holdings;
  std::condition_variable released;
  uint64_t blockedCalls = 0;
  std::chrono::milliseconds blockLimit{1000};

  std::atomic<int> loadUs{0}; ///< 0: loads stall no thread
  std::shared_mutex loading; ///< held by a load, shared by threads that enqueue
  uint64_t stalledCalls = 0;
  using Clock = std::chrono::steady_clock;
  std::map<std::thread::id, Clock::time_point> lastEnqueued;
  std::vector<uint64_t> quietUs; ///< before each load

  std::atomic<bool> countsMisuse{false};
  std::atomic<uint64_t> misuses{0};

  struct LoggedStep {
    KilnFakeStep step;
    std::string function;
  };
  bool isLogging = false;
  std::deque<LoggedStep> steps;
  KilnFakeStepHook stepHook = nullptr;
  void *stepUser = nullptr;

  std::atomic<uint64_t> nextContextId{1}, nextStreamId{16}, nextThread{1};
  std::atomic<int> armedFailures{0}, callbackCount{0}, captureCount{0};
  /// Counts the observers of single launches: a log, a hook, held work.
  std::atomic<int> observers{0};
  std::atomic<uint64_t> clockPs{0}, launchPs{1000 * 1000};
  std::array<std::atomic<uint64_t>, kSymbolCount> calls{};

  /// Makes an object that the state owns. The mutex is held.
  template <class T> T *make() {
    auto object = std::make_unique<T>();
    T *raw = object.get();
    objects.push_back(std::move(object));
    return raw;
  }
};

extern State &state;

/// Contexts of a thread. It has no destructor: exit() would run it before its
/// handlers, which may destroy engines.
struct ContextStack {
  static constexpr size_t kMost = 256;
  Context *entries[kMost];
  size_t count;

  bool empty() const { return count == 0; }
  void clear() { count = 0; }
  Context *back() const { return entries[count - 1]; }
  void pop_back() { --count; }
  void push_back(Context *context) {
    if (count == kMost)
      std::abort();
    entries[count++] = context;
  }
};

/// Context stack of this thread; `current` is its top.
extern thread_local ContextStack contextStack;
extern thread_local Context *current;
extern thread_local CUstreamCaptureMode threadMode;

enum class Needs {
  Nothing, ///< answers before cuInit and on a dead context
  Init,
  Context, ///< a live current context
  Quiet,   ///< as Context, and may be refused beside a capture
};

CUresult enterSlow(Symbol symbol, uint64_t call);
/// The answer of running captures to a call of \p symbol: FakeCudaCapture.cpp.
CUresult refuseBesideCapture(Symbol symbol);
/// Invalidates the capture of \p stream and returns \p result.
CUresult ruinCapture(Stream &stream, CUresult result);
/// As above for work of the default stream, whatever enqueues it.
CUresult refuseLegacyWork();

/// Counts the call and says whether it may go on. Ten ns at most.
inline CUresult enter(Symbol symbol, Needs needs) {
  uint64_t call =
      state.calls[symbol].fetch_add(1, std::memory_order_relaxed) + 1;
  if (state.armedFailures.load(std::memory_order_relaxed) != 0)
    if (CUresult result = enterSlow(symbol, call); result != CUDA_SUCCESS)
      return result;
  if (needs == Needs::Nothing)
    return CUDA_SUCCESS;
  if (!state.initialised.load(std::memory_order_relaxed))
    return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::Init)
    return CUDA_SUCCESS;
  if (!current)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (int sticky = current->sticky.load(std::memory_order_relaxed))
    return static_cast<CUresult>(sticky);
  if (needs == Needs::Quiet &&
      state.captureCount.load(std::memory_order_relaxed) != 0)
    return refuseBesideCapture(symbol);
  return CUDA_SUCCESS;
}

#define KILN_FAKE_ENTER(symbol, needs)                                         \
  if (CUresult entered =                                                       \
          kiln::fake::enter(kiln::fake::kSymbol_##symbol, needs);              \
      entered != CUDA_SUCCESS)                                                 \
  return entered

/// The error that killed \p context; success while it lives. Every call in the
/// context, and on a handle of it whatever context is current, answers it. So
/// nothing that such a call would destroy, free or unload goes, and a device
/// whose primary context is dead gets no other one. Enqueued work does not run
/// any more. Calls about graphs, which are of no context, go on, and so do
/// questions that the host answers: a thread's contexts, their ids and devices.
inline CUresult stickyOf(const Context *context) {
  return context ? static_cast<CUresult>(
                       context->sticky.load(std::memory_order_relaxed))
                 : CUDA_SUCCESS;
}

/// The object behind \p handle if it is a live \p kind, else null.
template <class T> T *objectOf(void *handle, Kind kind) {
  auto *object = static_cast<Object *>(handle);
  if (!object || object->kind.load(std::memory_order_relaxed) != kind)
    return nullptr;
  return static_cast<T *>(object);
}

/// The same for an object of a context. Null where that is dead, too; \p result
/// is the answer then.
template <class T> T *objectOf(void *handle, Kind kind, CUresult &result) {
  T *object = objectOf<T>(handle, kind);
  result = object ? stickyOf(object->context) : CUDA_ERROR_INVALID_HANDLE;
  return result == CUDA_SUCCESS ? object : nullptr;
}

/// Handles carry the address of the Object.
template <class Handle> Handle handleOf(Object *object) {
  return reinterpret_cast<Handle>(object);
}

/// Whether \p handle is one of the streams that always exist.
inline bool isDefaultStream(CUstream handle) {
  return reinterpret_cast<uintptr_t>(handle) <= 2;
}

/// Whether \p handle is the default stream that waits for blocking streams.
inline bool isLegacyStream(CUstream handle) {
  return reinterpret_cast<uintptr_t>(handle) <= 1;
}
/// The stream object behind \p handle; null for the default ones. A \p result
/// other than success is the answer of a call.
Stream *streamOf(CUstream handle, CUresult &result);

/// Executes \p node, records it if \p stream is being captured, or keeps it
/// behind the work that is held there. In a dead context nothing runs.
CUresult enqueue(CUstream stream, Node &&node, bool isFromGraph = false);
CUresult execute(const Node &node);
/// Keeps the parameters of a kernel beyond the call that brought them.
void keepParams(Node &node);
/// Writes the launch of \p config and \p params into \p node.
CUresult describe(const CUlaunchConfig &config, Function &function,
                  void **params, Node &node);
CUresult describeAttribute(const CUlaunchAttribute &attribute,
                           const Function &function, KilnFakeLaunch &launch);
/// The error of a real driver for a geometry, and for all of a launch.
CUresult checkGeometry(const CUlaunchConfig &config, const Function &function);
CUresult checkResidency(const KilnFakeLaunch &launch, const Function &function);
Callback callbackOf(const Function &function);

/// Waits until nothing is held of \p stream, of the default stream and all
/// blocking ones (Legacy), or of the current context: for a limited time, after
/// which the call fails. Counts the calls that waited.
enum class Awaits { Stream, Legacy, Context };
CUresult awaitHeld(Awaits what, Stream *stream = nullptr);

/// The wait of calls that load, unload or free: for held work of the current
/// context, and for the time that was set, in which no thread enqueues.
CUresult awaitDevice();

/// The live context behind \p handle, or null. A destroyed one is misuse: \p
/// result gets the answer, if there is one.
Context *liveContext(CUcontext handle, CUresult &result);

/// Blocks of \p threads that the whole device holds at once.
uint64_t residentBlocks(int threads, size_t sharedBytes,
                        const Function &function);
/// Success where [address, address + bytes) lies inside one allocation, of a
/// context that lives.
CUresult checkMemory(uint64_t address, uint64_t bytes);
/// Whether a copy or memset of \p bytes there is skipped.
bool isHollow(const void *address, uint64_t bytes);
void freeAllocation(uint64_t address, const Allocation &allocation);

/// Loads the library of CUDA_INJECTION64_PATH, once a process.
void loadInjection();
/// Takes \p stream out of everything; the mutex is held.
void endStream(Stream &stream);
/// Updates State::observers; the mutex is held.
void countObservers();
/// Makes a context of a new id; the mutex is held.
Context *makeContext(int device);
/// Ends a context and what it owns; the mutex is held.
void endContext(Context &context);
/// Makes all devices H200s, one of them visible.
void resetDevices(State &of);
/// SMs that contexts of \p device may use.
int visibleSms(int device);
// Whether a function matches: see kilnFakeOnLaunch.
inline bool matches(const std::string &pattern, const std::string &name,
                    const std::string &text) {
  if (pattern.ends_with('*'))
    return name.compare(0, pattern.size() - 1, pattern, 0,
                        pattern.size() - 1) == 0;
  return name == pattern || text.find(pattern) != std::string::npos;
}

} // namespace kiln::fake
