//===- NvrtcWheels.cpp - NVRTC in NVIDIA's Python wheels ------------------===//
//
// Inference engines in Python get NVRTC from a wheel. It lies below
// site-packages in nvidia/cu13/lib, up to CUDA 12 in nvidia/cuda_nvrtc/lib,
// where no loader looks. The libraries that the process has loaded already tell
// which site-packages it is (PyTorch, or Kiln itself, lie in the same one),
// else the variables that an activated environment sets.
//
//===----------------------------------------------------------------------===//
#include "Compile/Nvrtc.h"

#include <link.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>
#include <sys/auxv.h>

namespace kiln {

static constexpr llvm::StringLiteral kWheelFolders[] = {
    "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};
/// Debian's own packages have the second.
static constexpr llvm::StringLiteral kPackageFolders[] = {"site-packages",
                                                          "dist-packages"};

static void addOnce(std::vector<std::string> &list, std::string text) {
  if (!llvm::is_contained(list, text))
    list.push_back(std::move(text));
}

/// Adds the innermost site-packages folder that \p file lies in, if any.
static void addPackagesOf(llvm::StringRef file,
                          std::vector<std::string> &packages) {
  namespace path = llvm::sys::path;
  for (llvm::StringRef folder = path::parent_path(file);
       path::has_filename(folder); folder = path::parent_path(folder))
    if (llvm::is_contained(kPackageFolders, path::filename(folder)))
      return addOnce(packages, folder.str());
}

static int visitLoaded(dl_phdr_info *info, size_t, void *packages) {
  if (info->dlpi_name)
    addPackagesOf(info->dlpi_name,
                  *static_cast<std::vector<std::string> *>(packages));
  return 0;
}

/// Adds the site-packages folders of a Python prefix, of any version.
static void addPackagesOfPrefix(llvm::StringRef prefix,
                                std::vector<std::string> &packages) {
  namespace fs = llvm::sys::fs;
  std::vector<std::string> versions;
  std::error_code error;
  for (fs::directory_iterator it(prefix + "/lib", error), end;
       !error && it != end; it.increment(error))
    if (llvm::sys::path::filename(it->path()).starts_with("python3"))
      versions.push_back(it->path());
  llvm::sort(versions);
  for (const std::string &version : llvm::reverse(versions))
    addOnce(packages, version + "/site-packages");
}

std::vector<std::string> wheelFolders(bool asksProcess,
                                      llvm::ArrayRef<std::string> prefixes) {
  std::vector<std::string> packages, folders;
  // A program with rights of its own (setuid) runs no code from its own folder.
  if (asksProcess && !::getauxval(AT_SECURE)) {
    dl_iterate_phdr(visitLoaded, &packages);
    addPackagesOf(ownFile(), packages);
  }
  for (const std::string &prefix : prefixes)
    addPackagesOfPrefix(prefix, packages);
  for (const std::string &package : packages)
    for (llvm::StringRef wheel : kWheelFolders) {
      std::string folder = (package + "/" + wheel).str();
      if (llvm::sys::fs::is_directory(folder))
        folders.push_back(std::move(folder));
    }
  // Conda's own packages lie in the prefix itself.
  for (const std::string &prefix : prefixes)
    if (llvm::sys::fs::exists(prefix + "/conda-meta"))
      folders.push_back(prefix + "/lib");
  return folders;
}

} // namespace kiln
