//===- DynamicLibrary.cpp -------------------------------------------------===//
#include "Support/DynamicLibrary.h"

#include "Support/Elf.h"

#include <dlfcn.h>
#include <link.h>

namespace kiln {

/// What the loader calls the file behind \p handle, \p fallback if nothing.
static std::string pathOf(void *handle, const std::string &fallback) {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name ||
      !*map->l_name)
    return fallback;
  return map->l_name;
}

llvm::Expected<DynamicLibrary>
DynamicLibrary::openFirst(llvm::ArrayRef<std::string> candidates,
                          llvm::StringRef what, ErrorCode code) {
  std::string tried;
  for (const std::string &candidate : candidates) {
    std::optional<std::string> bad;
    if (llvm::StringRef(candidate).contains('/'))
      bad = describeBadLibrary(candidate);
    dlerror(); // forget what somebody else left behind
    void *handle =
        bad ? nullptr : dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      DynamicLibrary library;
      library.handle = handle;
      library.openedName = candidate;
      library.resolvedPath = pathOf(handle, candidate);
      return library;
    }
    const char *reason = bad ? bad->c_str() : dlerror();
    if (!tried.empty())
      tried += "; ";
    tried += fmt::format("'{}' ({})", candidate,
                         reason ? reason : "the loader gives no reason");
  }
  if (tried.empty())
    tried = "nothing";
  return makeError(code, "cannot load {}; tried {}", what, tried);
}

void *DynamicLibrary::find(const char *name) const {
  return handle ? dlsym(handle, name) : nullptr;
}

} // namespace kiln
