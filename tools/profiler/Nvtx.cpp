//===- Nvtx.cpp - the helper as NVTX's tool -------------------------------===//
//
// NVTX version 3 is in the headers of a program: each library that uses it has
// its own table of functions, loads the tool that NVTX_INJECTION64_PATH names
// at its first call, and hands it that table to fill. Declarations are Kiln's
// own, as the NVTX documentation gives them; a test compares them with the
// headers of NVTX.
//
// Only ranges that are pushed and popped are followed. Ranges that start on one
// thread and end on another belong to no launch.
//
//===----------------------------------------------------------------------===//
#include "profiler/Nvtx.h"

#include "profiler/Injection.h"
#include "profiler/Ranges.h"

#include <pthread.h>

#include <mutex>
#include <set>

namespace kiln::profiler {

namespace {

/// Guards names; ranges have their own locks.
std::mutex &nameMutex() {
  static std::mutex *mutex = new std::mutex;
  return *mutex;
}

/// The domain called \p name, which lives for ever.
RangeDomain *domainCalled(const std::string &name) {
  static auto *domains = new std::map<std::string, RangeDomain>;
  std::lock_guard lock(nameMutex());
  auto [place, isNew] = domains->try_emplace(name);
  if (isNew)
    place->second.name = name;
  return &place->second;
}

RangeDomain *domainOf(void *handle) {
  static RangeDomain *const unnamed = domainCalled("");
  return handle ? static_cast<RangeDomain *>(handle) : unnamed;
}

std::string narrow(const wchar_t *text) {
  std::string utf8;
  for (; text && *text; ++text) {
    auto c = static_cast<uint32_t>(*text);
    if (c < 0x80) {
      utf8 += static_cast<char>(c);
    } else if (c < 0x800) {
      utf8 += static_cast<char>(0xc0 | c >> 6);
      utf8 += static_cast<char>(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      utf8 += static_cast<char>(0xe0 | c >> 12);
      utf8 += static_cast<char>(0x80 | (c >> 6 & 0x3f));
      utf8 += static_cast<char>(0x80 | (c & 0x3f));
    } else {
      utf8 += '?';
    }
  }
  return utf8;
}

std::string textOf(const char *text) { return text ? text : ""; }

std::string messageOf(const NvtxAttributes &attributes) {
  const void *message = attributes.message;
  switch (attributes.messageType) {
  case kNvtxAscii:
    return textOf(static_cast<const char *>(message));
  case kNvtxUnicode:
    return narrow(static_cast<const wchar_t *>(message));
  case kNvtxRegistered:
    return message ? *static_cast<const std::string *>(message) : "";
  default:
    return "";
  }
}

void push(RangeDomain *domain, uint32_t category, std::string name) {
  std::string categoryName;
  if (category) {
    std::lock_guard lock(nameMutex());
    auto found = domain->categories.find(category);
    if (found != domain->categories.end())
      categoryName = found->second;
  }
  pushRange(domain, categoryName, name.empty() ? "(no name)" : name);
  watchRanges();
}

// Answers of pushes and pops: NVTX's level of nesting, which tools need not
// count.
constexpr int kNotCounted = -2;

int rangePush(void *domain, const NvtxAttributes *attributes) {
  if (attributes)
    push(domainOf(domain), attributes->category, messageOf(*attributes));
  else
    push(domainOf(domain), 0, "");
  return kNotCounted;
}

int rangePop(void *domain) {
  popRange(domainOf(domain));
  return kNotCounted;
}

int plainPushEx(const NvtxAttributes *attributes) {
  return rangePush(nullptr, attributes);
}

int plainPushA(const char *message) {
  push(domainOf(nullptr), 0, textOf(message));
  return kNotCounted;
}

int plainPushW(const wchar_t *message) {
  push(domainOf(nullptr), 0, narrow(message));
  return kNotCounted;
}

int plainPop() { return rangePop(nullptr); }

void nameCategory(RangeDomain *domain, uint32_t category, std::string name) {
  std::lock_guard lock(nameMutex());
  domain->categories[category] = std::move(name);
}

void nameCategoryA(void *domain, uint32_t category, const char *name) {
  nameCategory(domainOf(domain), category, textOf(name));
}

void nameCategoryW(void *domain, uint32_t category, const wchar_t *name) {
  nameCategory(domainOf(domain), category, narrow(name));
}

void plainCategoryA(uint32_t category, const char *name) {
  nameCategoryA(nullptr, category, name);
}

void plainCategoryW(uint32_t category, const wchar_t *name) {
  nameCategoryW(nullptr, category, name);
}

const void *registered(std::string text) {
  static auto *texts = new std::set<std::string>;
  std::lock_guard lock(nameMutex());
  return &*texts->insert(std::move(text)).first;
}

const void *registerA(void *, const char *text) {
  return registered(textOf(text));
}
const void *registerW(void *, const wchar_t *text) {
  return registered(narrow(text));
}

void *createDomainA(const char *name) { return domainCalled(textOf(name)); }
void *createDomainW(const wchar_t *name) { return domainCalled(narrow(name)); }

/// Puts functions into the table of one module of NVTX.
class Module {
public:
  Module(const NvtxCallbacks &callbacks, int32_t module) {
    if (callbacks.getModuleFunctionTable(module, &table, &size) == 0)
      table = nullptr;
  }
  template <class Function> void set(uint32_t id, Function function) {
    if (table && id < size && table[id])
      *table[id] = reinterpret_cast<NvtxFunction>(function);
  }

private:
  NvtxFunction **table = nullptr;
  unsigned size = 0;
};

} // namespace

/// A child of a fork gets the locks of names and ranges free.
static void watchForks() {
  static const int once = ::pthread_atfork(
      [] {
        nameMutex().lock();
        rangeTree().lockForFork();
      },
      [] {
        rangeTree().unlockAfterFork();
        nameMutex().unlock();
      },
      [] {
        rangeTree().unlockAfterFork();
        nameMutex().unlock();
      });
  (void)once;
}

bool attachToNvtx(NvtxGetExportTable getExportTable) {
  const auto *callbacks =
      static_cast<const NvtxCallbacks *>(getExportTable(kNvtxCallbacksTable));
  if (!callbacks || callbacks->structSize < sizeof(NvtxCallbacks))
    return false;
  watchForks();
  Module core(*callbacks, kNvtxCore);
  core.set(kNvtxPushEx, plainPushEx);
  core.set(kNvtxPushA, plainPushA);
  core.set(kNvtxPushW, plainPushW);
  core.set(kNvtxPop, plainPop);
  core.set(kNvtxNameCategoryA, plainCategoryA);
  core.set(kNvtxNameCategoryW, plainCategoryW);
  Module domains(*callbacks, kNvtxCore2);
  domains.set(kNvtxDomainPushEx, rangePush);
  domains.set(kNvtxDomainPop, rangePop);
  domains.set(kNvtxDomainNameCategoryA, nameCategoryA);
  domains.set(kNvtxDomainNameCategoryW, nameCategoryW);
  domains.set(kNvtxDomainRegisterStringA, registerA);
  domains.set(kNvtxDomainRegisterStringW, registerW);
  domains.set(kNvtxDomainCreateA, createDomainA);
  domains.set(kNvtxDomainCreateW, createDomainW);
  return true;
}

} // namespace kiln::profiler
