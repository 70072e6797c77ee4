//===- FakeCudaControl.cpp - the functions that tests call ----------------===//
#include "Fakes/FakeCudaHazards.h"
#include "Fakes/FakeCudaState.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

using namespace kiln::fake;

static constexpr double kPsPerNs = 1000;

/// The symbol called \p name, as in CudaSymbols.def or as cuda.h renames it;
/// kSymbolCount without one.
static Symbol symbolOf(std::string_view name) {
#define KILN_FAKE_TEXT(name) #name
#define KILN_FAKE_EXPANDED(name) KILN_FAKE_TEXT(name)
#define KILN_CUDA_SYMBOL(symbol)                                               \
  if (name == #symbol || name == KILN_FAKE_EXPANDED(symbol))                   \
    return kSymbol_##symbol;
#include "Driver/CudaSymbols.def"
#undef KILN_FAKE_EXPANDED
#undef KILN_FAKE_TEXT
  return kSymbolCount;
}

/// A test that names a function that does not exist proves nothing: stop it.
static Symbol requireSymbol(const char *name) {
  Symbol symbol = symbolOf(name);
  if (symbol == kSymbolCount)
    std::abort();
  return symbol;
}

extern "C" {

void kilnFakeReset() {
  std::lock_guard lock(state.mutex);
  for (const auto &[address, allocation] : state.allocations)
    freeAllocation(address, allocation);
  state.allocations.clear();
  for (const auto &object : state.objects)
    object->kind = Kind::Dead;
  state.freeContexts.clear();
  state.freeStreams.clear();
  state.freeEvents.clear();
  state.holdings.clear();
  state.heldPattern.clear();
  state.blockedCalls = 0;
  state.blockLimit = std::chrono::milliseconds(1000);
  state.hollowFrom = 0;
  state.loadUs = 0;
  state.stalledCalls = 0;
  state.lastEnqueued.clear();
  state.quietUs.clear();
  state.countsMisuse = false;
  state.misuses = 0;
  state.isLogging = false;
  state.steps.clear();
  state.stepHook = nullptr;
  countObservers();
  state.captures.clear();
  state.callbacks.clear();
  state.functionRules.clear();
  state.failures.fill({});
  state.modulesLoaded = state.peakBytes = 0;
  state.initialised = false;
  state.driverVersion = 13000;
  state.greenSms = 0;
  state.armedFailures = state.callbackCount = state.captureCount = 0;
  state.clockPs = 0;
  state.launchPs = 1000 * 1000;
  for (auto &count : state.calls)
    count = 0;
  contextStack.clear();
  current = nullptr;
  threadMode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  resetDevices(state);
}

void kilnFakeLimitSms(int count) { state.greenSms = count; }
void kilnFakeSetDriverVersion(int version) { state.driverVersion = version; }

void kilnFakeSetDeviceCount(int count) {
  std::lock_guard lock(state.mutex);
  state.deviceCount = count;
}

void kilnFakeSetDeviceName(int device, const char *name) {
  std::lock_guard lock(state.mutex);
  state.devices.at(device).name = name;
}

void kilnFakeSetDeviceAttribute(int device, int attribute, int value) {
  std::lock_guard lock(state.mutex);
  state.devices.at(device).attributes[attribute] = value;
}

void kilnFakeSetDeviceMemory(int device, uint64_t bytes) {
  std::lock_guard lock(state.mutex);
  state.devices.at(device).memoryBytes = bytes;
}

void kilnFakeSetFreeMemory(int device, uint64_t bytes) {
  std::lock_guard lock(state.mutex);
  Device &changed = state.devices.at(device);
  uint64_t rest = changed.memoryBytes - changed.bytesInUse;
  changed.othersBytes = rest - std::min(rest, bytes);
}

void kilnFakeSetHollowMemory(uint64_t bytes) {
  std::lock_guard lock(state.mutex);
  state.hollowFrom = bytes;
}

CUcontext kilnFakeCreateContext(int device) {
  std::lock_guard lock(state.mutex);
  return handleOf<CUcontext>(makeContext(device));
}

void kilnFakeDestroyContext(CUcontext handle) {
  std::lock_guard lock(state.mutex);
  Context *context = objectOf<Context>(handle, Kind::Context);
  if (!context)
    return;
  endContext(*context);
  state.freeContexts.push_back(context);
}

void kilnFakeKillContext(int result) {
  if (current)
    current->sticky = result;
}

void kilnFakeOnLaunch(const char *pattern, KilnFakeKernel kernel, void *user,
                      size_t paramBytes) {
  std::lock_guard lock(state.mutex);
  state.callbacks.push_back({pattern, kernel, user, paramBytes});
  ++state.callbackCount;
}

void kilnFakeSetLaunchNs(double ns) {
  state.launchPs = static_cast<uint64_t>(ns * kPsPerNs);
}

void kilnFakeSetFunctionAttribute(const char *pattern, int attribute,
                                  int value) {
  std::lock_guard lock(state.mutex);
  state.functionRules.push_back({pattern, attribute, value});
}

uint64_t kilnFakeThread() {
  thread_local const uint64_t number = state.nextThread++;
  return number;
}

void kilnFakeLogSteps(int on) {
  std::lock_guard lock(state.mutex);
  state.isLogging = on != 0;
  if (!on)
    state.steps.clear();
  countObservers();
}

size_t kilnFakeStepCount() {
  std::lock_guard lock(state.mutex);
  return state.steps.size();
}

KilnFakeStep kilnFakeStepAt(size_t index) {
  std::lock_guard lock(state.mutex);
  return state.steps.at(index).step;
}

void kilnFakeOnStep(KilnFakeStepHook hook, void *user) {
  std::lock_guard lock(state.mutex);
  state.stepHook = hook;
  state.stepUser = user;
  countObservers();
}

void kilnFakeHoldWork(const char *pattern) {
  std::lock_guard lock(state.mutex);
  state.heldPattern = pattern;
  countObservers();
}

uint64_t kilnFakeBlockedCalls() {
  std::lock_guard lock(state.mutex);
  return state.blockedCalls;
}

void kilnFakeSetBlockLimit(int ms) {
  std::lock_guard lock(state.mutex);
  state.blockLimit = std::chrono::milliseconds(ms);
}

void kilnFakeSetLoadTime(int us) {
  std::lock_guard lock(state.mutex);
  state.loadUs = us;
  countObservers();
}

uint64_t kilnFakeStalledCalls() {
  std::lock_guard lock(state.mutex);
  return state.stalledCalls;
}

size_t kilnFakeStallingLoads() {
  std::lock_guard lock(state.mutex);
  return state.quietUs.size();
}

uint64_t kilnFakeQuietUsBefore(size_t index) {
  std::lock_guard lock(state.mutex);
  return state.quietUs.at(index);
}

void kilnFakeCountMisuse(int on) { state.countsMisuse = on != 0; }
uint64_t kilnFakeMisuses() { return state.misuses; }

double kilnFakeClockNs() {
  return static_cast<double>(state.clockPs) / kPsPerNs;
}

void kilnFakeAdvanceClock(double ns) {
  state.clockPs += static_cast<uint64_t>(ns * kPsPerNs);
}

void kilnFakeFailCall(const char *symbol, uint64_t nth, int result,
                      KilnFakeFailure kind) {
  Symbol index = requireSymbol(symbol);
  std::lock_guard lock(state.mutex);
  Failure &failure = state.failures[index];
  state.armedFailures += (result != 0) - (failure.result != 0);
  failure =
      result == 0 ? Failure{} : Failure{state.calls[index] + nth, result, kind};
}

uint64_t kilnFakeCallCount(const char *symbol) {
  return state.calls[requireSymbol(symbol)];
}

uint64_t kilnFakeTotalCalls() {
  uint64_t total = 0;
  for (const auto &count : state.calls)
    total += count;
  return total;
}

uint64_t kilnFakeBytesInUse() {
  std::lock_guard lock(state.mutex);
  return state.bytesInUse();
}

uint64_t kilnFakePeakBytes() {
  std::lock_guard lock(state.mutex);
  return state.peakBytes;
}

uint64_t kilnFakeModulesLoaded() {
  std::lock_guard lock(state.mutex);
  return state.modulesLoaded;
}

} // extern "C"
