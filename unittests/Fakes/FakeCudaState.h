//===- FakeCudaState.h - what the stand-in driver keeps -------------------===//
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
#pragma GCC visibility pop

#include "Fakes/FakeCuda.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
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
  GraphExec
};

struct Object {
  explicit Object(Kind kind) : kind(kind) {}
  virtual ~Object() = default;
  std::atomic<Kind> kind;
};

struct Context : Object {
  Context() : Object(Kind::Context) {}
  std::atomic<uint64_t> id{0};
  std::atomic<int> sticky{0}; ///< the CUresult of every call, 0 while alive
  int device = 0;
  int references = 0; ///< of a primary context
};

struct Callback {
  std::string pattern;
  KilnFakeKernel kernel = nullptr;
  void *user = nullptr;
  size_t paramBytes = 0;
};

struct Module : Object {
  Module() : Object(Kind::Module) {}
  uint64_t contextId = 0;
  std::string text;
  std::vector<CUfunction> functions;
};

struct Function : Object {
  Function() : Object(Kind::Function) {}
  std::string name;
  Module *module = nullptr;
  uint64_t contextId = 0;
  uint32_t maxDynamicShared = 48 << 10;
  std::map<int, int> attributes;
};

struct Event : Object {
  Event() : Object(Kind::Event) {}
  bool timing = true, recorded = false;
  uint64_t clockPs = 0;
};

/// Work in the order it was enqueued, kept while it is captured.
struct Node {
  enum class Type { Kernel, Memset, Copy, Event } type = Type::Kernel;
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

struct Graph : Object {
  Graph() : Object(Kind::Graph) {}
  std::vector<Node> nodes;
};

struct GraphExec : Object {
  GraphExec() : Object(Kind::GraphExec) {}
  std::vector<Node> nodes;
};

struct Stream : Object {
  Stream() : Object(Kind::Stream) {}
  Context *context = nullptr;
  bool blocking = true; ///< synchronises with the default stream
  std::atomic<int> capture{CU_STREAM_CAPTURE_STATUS_NONE};
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id capturer;
  Graph *graph = nullptr;
};

struct Device {
  std::string name;
  std::map<int, int> attributes;
  uint64_t memoryBytes = 0, bytesInUse = 0;
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
  uint64_t contextId = 0;
};

struct FunctionRule {
  std::string pattern;
  int attribute = 0, value = 0;
};

struct State {
  std::mutex mutex; ///< guards all but the atomics
  std::atomic<bool> initialised{false};
  std::atomic<int> driverVersion{13000};
  std::atomic<int> greenSms{0}; ///< SMs of all contexts; 0: the device's
  int deviceCount = 1;
  std::array<Device, 8> devices;
  std::vector<std::unique_ptr<Object>> objects;
  std::vector<Context *> freeContexts;
  std::vector<Stream *> captures;
  std::map<uint64_t, Allocation> allocations; ///< by address
  std::array<Failure, kSymbolCount> failures;
  std::vector<Callback> callbacks;
  std::vector<FunctionRule> functionRules;
  uint64_t modulesLoaded = 0;

  std::atomic<uint64_t> nextContextId{1};
  std::atomic<int> armedFailures{0}, callbackCount{0}, captureCount{0};
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

/// Context stack of this thread; `current` is its top.
extern thread_local std::vector<Context *> contextStack;
extern thread_local Context *current;
extern thread_local CUstreamCaptureMode threadMode;

enum class Needs {
  Nothing, ///< answers before cuInit and on a dead context
  Init,
  Context, ///< a live current context
  Quiet,   ///< as Context, and refused beside an unsafe capture
};

CUresult enterSlow(Symbol symbol, uint64_t call);
CUresult refuseInCapture();

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
    return refuseInCapture();
  return CUDA_SUCCESS;
}

#define KILN_FAKE_ENTER(symbol, needs)                                         \
  if (CUresult entered =                                                       \
          kiln::fake::enter(kiln::fake::kSymbol_##symbol, needs);              \
      entered != CUDA_SUCCESS)                                                 \
  return entered

/// The object behind \p handle if it is a live \p kind, else null.
template <class T> T *objectOf(void *handle, Kind kind) {
  auto *object = static_cast<Object *>(handle);
  if (!object || object->kind.load(std::memory_order_relaxed) != kind)
    return nullptr;
  return static_cast<T *>(object);
}

/// Handles carry the address of the Object.
template <class Handle> Handle handleOf(Object *object) {
  return reinterpret_cast<Handle>(object);
}

/// Whether \p handle is one of the streams that always exist.
inline bool isDefaultStream(CUstream handle) {
  return reinterpret_cast<uintptr_t>(handle) <= 2;
}

/// Executes or, if \p stream is being captured, records \p node.
CUresult enqueue(CUstream stream, Node &&node);
CUresult execute(const Node &node);
/// Blocks of \p function that the whole device holds at once.
uint64_t residentBlocks(const CUlaunchConfig &config, const Function &function);
/// Whether [address, address + bytes) lies inside one allocation.
bool isAllocated(uint64_t address, uint64_t bytes);
/// Makes a context of a new id; the mutex is held.
Context *makeContext(int device);
/// Ends a context and what it owns; the mutex is held.
void endContext(Context &context);
/// Makes all devices H200s, one of them visible.
void resetDevices(State &of);
/// SMs that contexts of \p device may use.
int visibleSms(int device);
inline bool matches(const std::string &pattern, const std::string &name,
                    const std::string &text) {
  return name == pattern || text.find(pattern) != std::string::npos;
}

} // namespace kiln::fake
