//===- Nvtx.cpp - ranges for the tool that is attached to the process -----===//
#include "Observe/Nvtx.h"

#include "Observe/Watch.h"
#include "Support/DynamicLibrary.h"

#include <atomic>
#include <cstdint>

namespace kiln::observe {

//===----------------------------------------------------------------------===//
// The interface, version 3
//===----------------------------------------------------------------------===//

namespace {

/// nvtxEventAttributes_t.
struct EventAttributes {
  uint16_t version = 3;
  uint16_t size = sizeof(EventAttributes);
  uint32_t category = 0;
  int32_t colorType = 0; // none
  uint32_t color = 0;
  int32_t payloadType = 0; // none
  int32_t reserved = 0;
  uint64_t payload = 0;
  int32_t messageType = 0;
  const void *message = nullptr;
};
static_assert(sizeof(EventAttributes) == 48);
constexpr int32_t kAscii = 1, kRegistered = 3; // nvtxMessageType_t

using Function = void (*)();
using Domain = void *;

/// NvtxCallbackModule, and the number of functions of each.
enum Module : uint32_t { kCore = 1, kCore2 = 5, kModules = 7 };
constexpr unsigned kFunctions[kModules] = {0, 16, 9, 16, 7, 16, 7};
constexpr unsigned kMostFunctions = 16;

/// NvtxCallbackIdCore2.
enum Core2 : uint32_t {
  kPush = 4,
  kPop = 5,
  kNameCategory = 8,
  kRegisterString = 10,
  kCreateDomain = 12
};

/// The functions that the tool fills in, by module. Kiln calls a few, but tools
/// expect all of them.
constinit Function functions[kModules][kMostFunctions] = {};
/// For the tool: for each module an array of pointers to them.
constinit Function *slots[kModules][kMostFunctions] = {};

struct CallbackTable {
  size_t structSize;
  int (*moduleTable)(uint32_t module, Function ***table, unsigned *size);
};
struct VersionTable {
  size_t structSize;
  uint32_t version, reserved;
  void (*setToolVersion)(uint32_t version);
};

int moduleTable(uint32_t module, Function ***table, unsigned *size) {
  if (module == 0 || module >= kModules)
    return 0;
  if (table)
    *table = slots[module];
  if (size)
    *size = kFunctions[module];
  return 1;
}

const void *exportTable(uint32_t id) {
  static constexpr CallbackTable kCallbacks{sizeof(CallbackTable), moduleTable};
  static constexpr VersionTable kVersion{sizeof(VersionTable), 3, 0,
                                         [](uint32_t) {}};
  constexpr uint32_t kCallbacksId = 1, kVersionId = 3;
  return id == kCallbacksId ? static_cast<const void *>(&kCallbacks)
         : id == kVersionId ? static_cast<const void *>(&kVersion)
                            : nullptr;
}

using Initialise = int (*)(const void *(*exportTable)(uint32_t));

/// Kiln's own, from attachNvtx() on.
constinit Domain domain = nullptr;

template <class Type> Type core2(Core2 id) {
  return reinterpret_cast<Type>(functions[kCore2][id]);
}

void push(const EventAttributes &attributes) {
  using Push = int (*)(Domain, const EventAttributes *);
  if (auto call = core2<Push>(kPush))
    call(domain, &attributes);
}

/// 0 is no category.
uint32_t categoryOf(Phase phase) { return static_cast<uint32_t>(phase) + 1; }

} // namespace

//===----------------------------------------------------------------------===//
// Attaching
//===----------------------------------------------------------------------===//

static llvm::Error attach(const std::string &path) {
  for (unsigned module = 0; module < kModules; ++module)
    for (unsigned i = 0; i < kMostFunctions; ++i)
      slots[module][i] = &functions[module][i];
  // It stays loaded: its functions are called until the process ends.
  auto library = DynamicLibrary::openFirst({path}, "the NVTX tool's library",
                                           ErrorCode::Unsupported);
  if (!library)
    return library.takeError();
  auto initialise = library->find<Initialise>("InitializeInjectionNvtx2");
  if (!initialise)
    return makeError(ErrorCode::Unsupported, "{} is no library of an NVTX tool",
                     path);
  if (!initialise(exportTable))
    return makeError(ErrorCode::Unsupported, "{} does not attach", path);
  if (auto create = core2<Domain (*)(const char *)>(kCreateDomain))
    domain = create("kiln");
  if (auto name =
          core2<void (*)(Domain, uint32_t, const char *)>(kNameCategory))
    for (size_t i = 0; i < kPhaseCount; ++i) {
      const auto phase = static_cast<Phase>(i);
      name(domain, categoryOf(phase), nameOf(phase).data());
    }
  return llvm::Error::success();
}

llvm::Error attachNvtx(const std::string &injectionPath) {
  static constinit std::atomic<bool> isClaimed{false};
  static constinit std::atomic<bool> isAttached{false};
  if (isClaimed.exchange(true)) {
    if (isAttached) // again, in a child
      watch(kNvtx);
    return llvm::Error::success();
  }
  llvm::Error error = attach(injectionPath);
  if (error)
    return error;
  isAttached = true;
  watch(kNvtx);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

void nvtxPush(Phase phase, const char *name) noexcept {
  EventAttributes attributes;
  attributes.category = categoryOf(phase);
  attributes.messageType = kAscii;
  attributes.message = name;
  push(attributes);
}

void nvtxPush(Phase phase, NvtxName name) noexcept {
  EventAttributes attributes;
  attributes.category = categoryOf(phase);
  attributes.messageType = kRegistered;
  attributes.message = name;
  push(attributes);
}

void nvtxPop() noexcept {
  if (auto pop = core2<int (*)(Domain)>(kPop))
    pop(domain);
}

NvtxName nvtxRegister(const char *name) noexcept {
  auto keep = core2<NvtxName (*)(Domain, const char *)>(kRegisterString);
  return keep ? keep(domain, name) : nullptr;
}

} // namespace kiln::observe
