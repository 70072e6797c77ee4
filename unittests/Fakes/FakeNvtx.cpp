//===- FakeNvtx.cpp - the stand-in NVTX tool ------------------------------===//
#include "Fakes/FakeNvtx.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace {

/// nvtxEventAttributes_t.
struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved;
  uint64_t payload;
  int32_t messageType;
  const void *message;
};

struct Domain {
  std::string name;
  std::map<uint32_t, std::string> categories;
};

struct Tool {
  std::mutex mutex;
  std::vector<KilnFakeNvtxEvent> events;
  size_t names = 0;
  std::deque<std::string> strings; ///< registered; they stay
  std::deque<Domain> domains;
};
Tool &tool() {
  static Tool &only = *new Tool;
  return only;
}
std::atomic<bool> isQuiet{false};

template <size_t room> void copy(char (&to)[room], const std::string &from) {
  std::snprintf(to, room, "%s", from.c_str());
}

void note(KilnFakeNvtxKind kind, const Domain *domain,
          const Attributes *attributes) {
  KilnFakeNvtxEvent event = {};
  event.kind = kind;
  event.thread = ::syscall(SYS_gettid);
  std::lock_guard<std::mutex> lock(tool().mutex);
  if (domain)
    copy(event.domain, domain->name);
  if (attributes && attributes->version == 3 &&
      attributes->size == sizeof(Attributes)) {
    if (domain)
      if (auto found = domain->categories.find(attributes->category);
          found != domain->categories.end())
        copy(event.category, found->second);
    event.isRegistered = attributes->messageType == 3;
    if (event.isRegistered)
      copy(event.name, *static_cast<const std::string *>(attributes->message));
    else if (attributes->messageType == 1)
      copy(event.name, static_cast<const char *>(attributes->message));
  }
  tool().events.push_back(event);
}

int push(Domain *domain, const Attributes *attributes) {
  if (!isQuiet.load(std::memory_order_relaxed))
    note(kKilnFakeNvtxPush, domain, attributes);
  return 0;
}

int pop(Domain *domain) {
  if (!isQuiet.load(std::memory_order_relaxed))
    note(kKilnFakeNvtxPop, domain, nullptr);
  return 0;
}

void nameCategory(Domain *domain, uint32_t number, const char *name) {
  std::lock_guard<std::mutex> lock(tool().mutex);
  domain->categories[number] = name;
}

const void *registerString(Domain *domain, const char *text) {
  std::lock_guard<std::mutex> lock(tool().mutex);
  tool().names += domain && domain->name == "kiln";
  return &tool().strings.emplace_back(text);
}

Domain *createDomain(const char *name) {
  std::lock_guard<std::mutex> lock(tool().mutex);
  return &tool().domains.emplace_back(Domain{name, {}});
}

using Function = void (*)();
struct CallbackTable {
  size_t structSize;
  int (*moduleTable)(uint32_t module, Function ***table, unsigned *size);
};

} // namespace

extern "C" {

KILN_FAKE_API int
InitializeInjectionNvtx2(const void *(*exportTable)(uint32_t)) {
  auto *callbacks = static_cast<const CallbackTable *>(exportTable(1));
  Function **table = nullptr;
  unsigned size = 0;
  constexpr uint32_t kCore2 = 5;
  if (!callbacks || callbacks->structSize < sizeof(CallbackTable) ||
      !callbacks->moduleTable(kCore2, &table, &size) || size < 16)
    return 0;
  *table[4] = reinterpret_cast<Function>(push);
  *table[5] = reinterpret_cast<Function>(pop);
  *table[8] = reinterpret_cast<Function>(nameCategory);
  *table[10] = reinterpret_cast<Function>(registerString);
  *table[12] = reinterpret_cast<Function>(createDomain);
  return 1;
}

void kilnFakeNvtxReset(int quiet) {
  isQuiet = quiet;
  std::lock_guard<std::mutex> lock(tool().mutex);
  tool().events.clear();
}

size_t kilnFakeNvtxCount(void) {
  std::lock_guard<std::mutex> lock(tool().mutex);
  return tool().events.size();
}

int kilnFakeNvtxAt(size_t index, KilnFakeNvtxEvent *event) {
  std::lock_guard<std::mutex> lock(tool().mutex);
  if (index >= tool().events.size())
    return 0;
  *event = tool().events[index];
  return 1;
}

size_t kilnFakeNvtxNames(void) {
  std::lock_guard<std::mutex> lock(tool().mutex);
  return tool().names;
}

} // extern "C"
