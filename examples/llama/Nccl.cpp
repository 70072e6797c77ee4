//===- Nccl.cpp -----------------------------------------------------------===//
#include "Nccl.h"

#include "Error.h"

#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <utility>

namespace llama {

namespace {

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

/// ncclSuccess, ncclInProgress, ncclFloat, ncclBfloat16 and ncclSum.
constexpr int kSuccess = 0, kInProgress = 7;
constexpr int kFloat = 7, kBf16 = 9, kSum = 0;
constexpr int kLeastVersion = 21000; // bf16

} // namespace

// Name in the library, member, parameters. Communicators are pointers.
#define LLAMA_NCCL_FUNCTIONS(X)                                                \
  X("ncclGetVersion", version, (int *))                                        \
  X("ncclGetUniqueId", uniqueId, (UniqueId *))                                 \
  X("ncclCommInitRank", init, (void **, int, UniqueId, int))                   \
  X("ncclCommDestroy", destroy, (void *))                                      \
  X("ncclCommAbort", abort, (void *))                                          \
  X("ncclCommGetAsyncError", asyncError, (void *, int *))                      \
  X("ncclAllReduce", allReduce,                                                \
    (const void *, void *, size_t, int, int, void *, CudaStreamHandle))        \
  X("ncclAllGather", allGather,                                                \
    (const void *, void *, size_t, int, void *, CudaStreamHandle))

struct NcclFunctions {
#define LLAMA_MEMBER(symbol, member, parameters) int(*member) parameters;
  LLAMA_NCCL_FUNCTIONS(LLAMA_MEMBER)
#undef LLAMA_MEMBER
  const char *(*errorString)(int);
};

static void *at(DeviceAddress address) {
  return reinterpret_cast<void *>(address);
}

Communicator::Communicator(const Gpu &gpu, const std::string &given)
    : gpu(gpu), functions(std::make_unique<NcclFunctions>()) {
  const std::string path = given.empty() ? "libnccl.so.2" : given;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error("NCCL cannot be opened, name it by --nccl: " +
                std::string(dlerror()));
  auto find = [&](const char *symbol) {
    void *address = dlsym(library, symbol);
    if (!address)
      throw Error(path + " has no " + symbol);
    return address;
  };
#define LLAMA_FIND(symbol, member, parameters)                                 \
  functions->member =                                                          \
      reinterpret_cast<decltype(functions->member)>(find(symbol));
  LLAMA_NCCL_FUNCTIONS(LLAMA_FIND)
#undef LLAMA_FIND
  functions->errorString = reinterpret_cast<decltype(functions->errorString)>(
      find("ncclGetErrorString"));
  int version = 0;
  check(functions->version(&version), "asking for its version");
  if (version < kLeastVersion)
    throw Error(path + " has the version " + std::to_string(version) +
                ", expected " + std::to_string(kLeastVersion) + " or later");
}

Communicator::~Communicator() {
  if (std::uncaught_exceptions() > 0)
    abort();
  gpu.drain();
  if (handle)
    functions->destroy(handle);
}

void Communicator::abort() noexcept {
  if (handle)
    functions->abort(std::exchange(handle, nullptr));
}

void Communicator::check(int result, const char *doing) const {
  if (result != kSuccess && result != kInProgress)
    throw Error(std::string("NCCL: ") + doing +
                " failed: " + functions->errorString(result));
}

std::string Communicator::makeId() const {
  UniqueId id;
  check(functions->uniqueId(&id), "naming a connection");
  return {id.bytes, sizeof(id.bytes)};
}

void Communicator::connect(const std::string &id, int64_t rank, int64_t count) {
  UniqueId name;
  if (id.size() != sizeof(name.bytes))
    throw Error("the name of a connection has " + std::to_string(id.size()) +
                " bytes, expected " + std::to_string(sizeof(name.bytes)));
  std::memcpy(name.bytes, id.data(), sizeof(name.bytes));
  check(functions->init(&handle, static_cast<int>(count), name,
                        static_cast<int>(rank)),
        "connecting the ranks");
}

void Communicator::sum(DeviceAddress data, int64_t count) const {
  check(functions->allReduce(at(data), at(data), static_cast<size_t>(count),
                             kBf16, kSum, handle, gpu.stream()),
        "summing over the ranks");
}

void Communicator::gather(DeviceAddress own, DeviceAddress all,
                          int64_t count) const {
  check(functions->allGather(at(own), at(all), static_cast<size_t>(count),
                             kFloat, handle, gpu.stream()),
        "gathering from the ranks");
}

std::string Communicator::failure() const {
  int result = kSuccess;
  if (!handle || functions->asyncError(handle, &result) != kSuccess ||
      result == kSuccess || result == kInProgress)
    return "";
  return functions->errorString(result);
}

} // namespace llama
