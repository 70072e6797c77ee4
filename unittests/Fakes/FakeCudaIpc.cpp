//===- FakeCudaIpc.cpp - memory that processes share by name --------------===//
//
// A process that opens the memory of another gets bytes of its own: launches
// compute nothing, so nothing would be seen there. The rules are the driver's.
//
//===----------------------------------------------------------------------===//
#include "Fakes/FakeCudaState.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <unistd.h>

using namespace kiln::fake;

namespace {

/// The contents of a CUipcMemHandle.
struct Name {
  uint64_t magic;
  int64_t process;
  uint64_t address, bytes;
};
static_assert(sizeof(Name) <= sizeof(CUipcMemHandle));
constexpr uint64_t kMagic = 0x4b494c4e49504331;

/// By address. Guarded by the state's mutex; leaks, as the state does.
std::map<uint64_t, std::unique_ptr<char[]>> &mappings() {
  static auto &made = *new std::map<uint64_t, std::unique_ptr<char[]>>;
  return made;
}

CUresult requireIpc() {
  if (!state.initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!current)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult sticky = stickyOf(current); sticky != CUDA_SUCCESS)
    return sticky;
  return std::getenv("KILN_FAKE_NO_IPC") ? CUDA_ERROR_NOT_SUPPORTED
                                         : CUDA_SUCCESS;
}

/// As the kernels of all-reduces do it.
void noteMissingRank(uint64_t address) {
  if (const char *rank = std::getenv("KILN_FAKE_MISSING_RANK")) {
    const auto word = static_cast<uint32_t>(1 + std::atoi(rank));
    std::memcpy(reinterpret_cast<void *>(address), &word, sizeof(word));
  }
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  if (!state.initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard lock(state.mutex);
  for (const CUdevice one : {device, peer})
    if (one < 0 || one >= state.deviceCount)
      return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer && !std::getenv("KILN_FAKE_NO_IPC");
  return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
  if (const CUresult result = requireIpc(); result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(state.mutex);
  const auto found = state.allocations.find(address);
  if (found == state.allocations.end())
    return CUDA_ERROR_INVALID_VALUE;
  noteMissingRank(address);
  const Name name = {kMagic, getpid(), address, found->second.bytes};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &name, sizeof(name));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
                            unsigned flags) {
  if (const CUresult result = requireIpc(); result != CUDA_SUCCESS)
    return result;
  Name name;
  std::memcpy(&name, &handle, sizeof(name));
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || name.magic != kMagic)
    return CUDA_ERROR_INVALID_VALUE;
  if (name.process == getpid()) // a process opens none of its own
    return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(state.mutex);
  auto bytes = std::make_unique<char[]>(name.bytes);
  *address = reinterpret_cast<CUdeviceptr>(bytes.get());
  mappings()[*address] = std::move(bytes);
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  if (!current)
    return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(state.mutex);
  return mappings().erase(address) == 1 ? CUDA_SUCCESS
                                        : CUDA_ERROR_INVALID_VALUE;
}

} // extern "C"
#pragma GCC visibility pop
