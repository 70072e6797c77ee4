//===- DynamicLibrary.cpp -------------------------------------------------===//
#include "Support/DynamicLibrary.h"

#include "Support/Elf.h"
#include "Support/TrustedPath.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace kiln {

/// The loader's name for the file behind \p handle, \p fallback if it has none.
static std::string pathOf(void *handle, const std::string &fallback) {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name ||
      !*map->l_name)
    return fallback;
  return map->l_name;
}

/// The folders that the loader searches for the libraries of this code, in its
/// order, except for those that its cache names: LD_LIBRARY_PATH as it was when
/// the process began, run paths, the system's own.
static std::vector<std::string> loaderFolders() {
  static const int anchor = 0; // an address inside of this object
  std::vector<std::string> folders;
  Dl_info info;
  link_map *map = nullptr;
  if (!dladdr1(&anchor, &info, reinterpret_cast<void **>(&map),
               RTLD_DL_LINKMAP) ||
      !map)
    return folders;
  // The program itself has no name.
  void *self = dlopen(*map->l_name ? map->l_name : nullptr,
                      RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
  if (!self)
    return folders;
  Dl_serinfo size = {};
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<char> room(size.dls_size + sizeof(Dl_serinfo));
    auto *found = reinterpret_cast<Dl_serinfo *>(room.data());
    std::memcpy(found, &size, sizeof(size));
    if (dlinfo(self, RTLD_DI_SERINFO, found) == 0)
      for (unsigned i = 0; i < found->dls_cnt; ++i)
        folders.push_back(found->dls_serpath[i].dls_name);
  }
  dlclose(self);
  return folders;
}

namespace {
/// The name to give the loader for a candidate, or why there is none.
struct LoaderChoice {
  std::string path;
  std::string bad;
};
} // namespace

/// A name without a slash. The file that the loader would take by itself is
/// checked first, because a truncated one that is mapped ends the process. A
/// bad file is passed over; a good one behind it is named by its path.
static LoaderChoice chooseByName(const std::string &name) {
  LoaderChoice choice{name, ""};
  if (void *loaded = dlopen(name.c_str(), RTLD_NOLOAD | RTLD_NOW)) {
    dlclose(loaded);
    return choice;
  }
  for (const std::string &folder : loaderFolders()) {
    const std::string path = folder + "/" + name;
    if (::access(path.c_str(), F_OK) != 0)
      continue;
    auto bad = describeBadLibrary(path);
    if (!bad) {
      if (!choice.bad.empty())
        choice = {path, ""};
      return choice;
    }
    choice.bad +=
        fmt::format("{}{}: {}", choice.bad.empty() ? "" : ", ", path, *bad);
  }
  return choice;
}

static LoaderChoice chooseByPath(const std::string &path) {
  auto bad = describeBadLibrary(path);
  if (!bad)
    bad = describeUntrusted(path);
  return {path, bad.value_or("")};
}

llvm::Expected<DynamicLibrary>
DynamicLibrary::openFirst(llvm::ArrayRef<std::string> candidates,
                          llvm::StringRef what, ErrorCode code) {
  std::string tried;
  for (const std::string &candidate : candidates) {
    const LoaderChoice choice = llvm::StringRef(candidate).contains('/')
                                    ? chooseByPath(candidate)
                                    : chooseByName(candidate);
    dlerror(); // forget an earlier error
    void *handle = choice.bad.empty()
                       ? dlopen(choice.path.c_str(), RTLD_NOW | RTLD_LOCAL)
                       : nullptr;
    if (handle) {
      DynamicLibrary library;
      library.handle = handle;
      library.openedName = candidate;
      library.resolvedPath = pathOf(handle, candidate);
      return library;
    }
    const char *reason = choice.bad.empty() ? dlerror() : choice.bad.c_str();
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
