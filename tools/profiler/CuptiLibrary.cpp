//===- CuptiLibrary.cpp ---------------------------------------------------===//
//
// A process should have one CUPTI, and one that fits its CUDA. So a loaded copy
// goes first (PyTorch brings its own), then the ones that lie where the loaded
// libraries of NVIDIA lie. A wheel has it in nvidia/cu13/lib, up to CUDA 12 in
// nvidia/cuda_cupti/lib, beside the folders of the other libraries.
//
//===----------------------------------------------------------------------===//
#include "profiler/CuptiLibrary.h"

#include <algorithm>
#include <dlfcn.h>
#include <link.h>
#include <vector>

namespace kiln::profiler {

namespace {

constexpr const char *kNames[] = {"libcupti.so.13", "libcupti.so.12"};

using Folders = std::vector<std::string>;

void addOnce(Folders &folders, std::string folder) {
  if (std::find(folders.begin(), folders.end(), folder) == folders.end())
    folders.push_back(std::move(folder));
}

/// Adds the folders where CUPTI lies beside the loaded library \p file.
void addBeside(const std::string &file, Folders &folders) {
  const size_t slash = file.rfind('/');
  if (slash == std::string::npos)
    return;
  const std::string name = file.substr(slash + 1);
  const size_t wheel = file.rfind("/nvidia/");
  if (wheel != std::string::npos) {
    const std::string root = file.substr(0, wheel) + "/nvidia/";
    addOnce(folders, root + "cu13/lib");
    addOnce(folders, root + "cuda_cupti/lib");
  }
  // A program of site-packages, such as torch/lib, has the wheels beside it.
  const size_t packages = file.rfind("-packages/");
  if (packages != std::string::npos) {
    const std::string root = file.substr(0, packages) + "-packages/nvidia/";
    addOnce(folders, root + "cu13/lib");
    addOnce(folders, root + "cuda_cupti/lib");
  }
  if (name.rfind("libcudart.so", 0) == 0 || name.rfind("libnvrtc.so", 0) == 0) {
    const std::string folder = file.substr(0, slash);
    addOnce(folders, folder);
    addOnce(folders, folder + "/../extras/CUPTI/lib64");
  }
}

int visitLoaded(dl_phdr_info *info, size_t, void *folders) {
  if (info->dlpi_name)
    addBeside(info->dlpi_name, *static_cast<Folders *>(folders));
  return 0;
}

Folders searchedFolders(const Environment &environment) {
  Folders folders;
  dl_iterate_phdr(visitLoaded, &folders);
  for (const std::string &home : {environment.cudaHome, environment.cudaPath})
    if (!home.empty()) {
      addOnce(folders, home + "/extras/CUPTI/lib64");
      addOnce(folders, home + "/lib64");
    }
  return folders;
}

void *openFirst(const Environment &environment, std::string &path) {
  for (const char *name : kNames)
    if (void *loaded = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      path = name;
      return loaded;
    }
  auto open = [&](const std::string &file) {
    path = file;
    return dlopen(file.c_str(), RTLD_NOW);
  };
  for (const std::string &folder : searchedFolders(environment))
    for (const char *name : kNames)
      if (void *opened = open(folder + "/" + name))
        return opened;
  for (const char *folder :
       {"", "/usr/local/cuda/extras/CUPTI/lib64/", "/usr/local/cuda/lib64/"})
    for (const char *name : kNames)
      if (void *opened = open(folder + std::string(name)))
        return opened;
  return nullptr;
}

} // namespace

std::string CuptiLibrary::open(const Environment &environment) {
  void *library = nullptr;
  if (!environment.cupti.empty()) {
    path = environment.cupti;
    library = dlopen(path.c_str(), RTLD_NOW);
    if (!library)
      return std::string("KILN_CUPTI cannot be opened: ") + dlerror();
  } else {
    library = openFirst(environment, path);
    if (!library)
      return "libcupti.so.13 or libcupti.so.12 is not found: install the "
             "toolkit's package cuda-cupti or the wheel nvidia-cuda-cupti, or "
             "name the file by KILN_CUPTI";
  }
#define KILN_CUPTI_SYMBOL(name, arguments)                                     \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name));              \
  if (!name)                                                                   \
    return path + " has no symbol " #name;
  KILN_CUPTI_SYMBOLS(KILN_CUPTI_SYMBOL)
#undef KILN_CUPTI_SYMBOL
  return "";
}

std::string CuptiLibrary::nameOf(CuptiResult result) const {
  const char *text = nullptr;
  if (cuptiGetResultString(result, &text) == kCuptiSuccess && text)
    return text;
  return "CUPTI result " + std::to_string(result);
}

} // namespace kiln::profiler
