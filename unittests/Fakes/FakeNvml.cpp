//===- FakeNvml.cpp - the stand-in NVML -----------------------------------===//
#include "Fakes/FakeNvml.h"

#include "Driver/Nvml.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

using namespace kiln;

namespace {

constexpr NvmlResult kUninitialised = 1, kInvalidArgument = 2, kNotFound = 6;

struct State {
  std::mutex mutex;
  std::map<std::string, NvmlResult> failures;
  int users = 0;
  bool mig = false;
};

State &state() {
  static State *made = new State; // never destroyed: exit handlers may call
  return *made;
}

/// The answer of a call of \p symbol before it does anything.
NvmlResult enter(const char *symbol) {
  std::lock_guard lock(state().mutex);
  auto found = state().failures.find(symbol);
  if (found != state().failures.end())
    return found->second;
  bool starts = std::strcmp(symbol, "nvmlInit_v2") == 0;
  return starts || state().users > 0 ? 0 : kUninitialised;
}

} // namespace

#define KILN_NVML_ENTER()                                                      \
  if (NvmlResult entered = enter(__func__); entered != 0)                      \
  return entered

#pragma GCC visibility push(default)
extern "C" {

void kilnFakeNvmlFail(const char *symbol, int result) {
  std::lock_guard lock(state().mutex);
  if (result == 0)
    state().failures.erase(symbol);
  else
    state().failures[symbol] = result;
}

void kilnFakeNvmlSetMig(int enabled) {
  std::lock_guard lock(state().mutex);
  state().mig = enabled != 0;
}

void kilnFakeNvmlReset() {
  std::lock_guard lock(state().mutex);
  state().failures.clear();
  state().mig = false;
}

NvmlResult nvmlInit_v2() {
  KILN_NVML_ENTER();
  std::lock_guard lock(state().mutex);
  ++state().users;
  return 0;
}

NvmlResult nvmlShutdown() {
  KILN_NVML_ENTER();
  std::lock_guard lock(state().mutex);
  --state().users;
  return 0;
}

const char *nvmlErrorString(NvmlResult result) {
  return result == 3 ? "Not Supported" : "Unknown Error";
}

NvmlResult nvmlDeviceGetHandleByPciBusId_v2(const char *id,
                                            NvmlDevice *device) {
  KILN_NVML_ENTER();
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(id, "%x:%x:%x.0", &domain, &bus, &slot) != 3)
    return kInvalidArgument;
  if (bus < 0x10 || bus >= 0x18)
    return kNotFound;
  *device = reinterpret_cast<NvmlDevice>(static_cast<uintptr_t>(bus));
  return 0;
}

NvmlResult nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPciInfo *info) {
  KILN_NVML_ENTER();
  *info = {};
  info->bus = static_cast<unsigned>(reinterpret_cast<uintptr_t>(device));
  info->pciDeviceId = 0x233510de; // H200 SXM, NVIDIA
  return 0;
}

NvmlResult nvmlDeviceGetMaxClockInfo(NvmlDevice, NvmlClock clock,
                                     unsigned *mhz) {
  KILN_NVML_ENTER();
  *mhz = clock == NvmlClock::Memory ? 3201 : 1980;
  return 0;
}

NvmlResult nvmlDeviceGetMemoryBusWidth(NvmlDevice, unsigned *bits) {
  KILN_NVML_ENTER();
  *bits = 6016;
  return 0;
}

NvmlResult nvmlDeviceGetEnforcedPowerLimit(NvmlDevice, unsigned *milliwatts) {
  KILN_NVML_ENTER();
  *milliwatts = 700000;
  return 0;
}

NvmlResult nvmlDeviceGetMigMode(NvmlDevice, unsigned *current,
                                unsigned *pending) {
  KILN_NVML_ENTER();
  std::lock_guard lock(state().mutex);
  *current = *pending = state().mig;
  return 0;
}

} // extern "C"
#pragma GCC visibility pop
