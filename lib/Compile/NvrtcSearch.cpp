//===- NvrtcSearch.cpp - finding libnvrtc and opening it ------------------===//
//
// Order: KILN_NVRTC alone when it is set, else the loader, the toolkits that
// the environment names, the usual folders, Python wheels, the extra folders. A
// relative toolkit is passed over: it would be taken from the working folder,
// which other users may be able to write. A file that exists but does not serve
// (too old, damaged) is remembered and the search goes on, so that the error
// tells the whole story.
//
//===----------------------------------------------------------------------===//
#include "Compile/Nvrtc.h"

#include "Compile/ProcessExit.h"
#include "Support/Elf.h"

#include <dlfcn.h>
#include <link.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Path.h>
#include <sys/auxv.h>

namespace kiln {

namespace fs = llvm::sys::fs;

/// Newest first: the name a release installs for its major version.
static constexpr llvm::StringLiteral kNames[] = {"libnvrtc.so.13",
                                                 "libnvrtc.so.12"};
/// The alternate build of the library, where a toolkit has it; its own builtins
/// have the same addition to their name.
static constexpr llvm::StringLiteral kAlternate = ".alt";
static constexpr llvm::StringLiteral kToolkitFolders[] = {
    "lib64", "lib", "targets/x86_64-linux/lib"};
/// The file that CMake leaves at the top of a build folder.
static constexpr llvm::StringLiteral kBuildTreeMark = "kiln-build-tree";

NvrtcSearch NvrtcSearch::fromEnvironment(const Environment &environment,
                                         std::vector<std::string> extras) {
  NvrtcSearch search;
  search.explicitPath = environment.kilnNvrtc;
  if (environment.cudaHome)
    search.toolkits.push_back(*environment.cudaHome);
  if (environment.cudaPath && environment.cudaPath != environment.cudaHome)
    search.toolkits.push_back(*environment.cudaPath);
  for (const auto &prefix : {environment.virtualEnv, environment.condaPrefix})
    if (prefix)
      search.pythonPrefixes.push_back(*prefix);
  search.extraFolders = std::move(extras);
  return search;
}

/// Paths of the files in \p folder with names that start with \p prefix,
/// sorted.
static std::vector<std::string> entriesWith(llvm::StringRef folder,
                                            llvm::StringRef prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (llvm::sys::path::filename(it->path()).starts_with(prefix))
      found.push_back(it->path());
  llvm::sort(found);
  return found;
}

static std::vector<std::string> foldersOf(const NvrtcSearch &search) {
  std::vector<std::string> folders;
  auto addToolkit = [&](llvm::StringRef root) {
    for (llvm::StringRef folder : kToolkitFolders)
      folders.push_back((root + "/" + folder).str());
  };
  for (const std::string &toolkit : search.toolkits)
    addToolkit(toolkit);
  if (search.usualFolders) {
    addToolkit("/usr/local/cuda");
    // Versioned toolkits, the newest first.
    const std::vector<std::string> versions =
        entriesWith("/usr/local", "cuda-");
    for (const std::string &toolkit : llvm::reverse(versions))
      addToolkit(toolkit);
    folders.push_back("/usr/lib/x86_64-linux-gnu");
    folders.push_back("/usr/lib64");
  }
  llvm::append_range(folders,
                     wheelFolders(search.loadedWheels, search.pythonPrefixes));
  for (const std::string &folder : search.extraFolders) {
    if (folder.empty())
      continue;
    folders.push_back(folder);
    folders.push_back(folder + "/lib");
  }
  return folders;
}

std::vector<std::string> nvrtcCandidates(const NvrtcSearch &search,
                                         std::vector<std::string> &searched) {
  std::vector<std::string> folders;
  if (search.explicitPath) {
    searched.push_back(*search.explicitPath);
    // The loader would look a name without a slash up in its own folders.
    llvm::SmallString<128> path(*search.explicitPath);
    fs::make_absolute(path);
    if (!fs::exists(path))
      return {};
    if (!fs::is_directory(path))
      return {path.str().str()};
    folders.push_back(path.str().str());
  } else {
    folders = foldersOf(search);
    searched.insert(searched.end(), folders.begin(), folders.end());
  }
  std::vector<std::string> files;
  for (const std::string &folder : folders)
    for (llvm::StringRef name : kNames) {
      std::string path = (folder + "/" + name).str();
      if (fs::exists(path))
        files.push_back(std::move(path));
    }
  return files;
}

/// The beginning of the names of the builtins of \p library, before the
/// version.
static std::string builtinsPrefix(llvm::StringRef library) {
  llvm::StringRef build;
  if (llvm::sys::path::filename(library).contains(kAlternate))
    build = kAlternate;
  return ("libnvrtc-builtins" + build + ".so.").str();
}

/// Opens the builtins beside \p library. NVRTC opens them by bare name at its
/// first compilation and has no search path of its own; a library that is
/// loaded already is found by its name wherever it came from.
static void openBuiltins(llvm::StringRef library) {
  for (const std::string &path : entriesWith(
           llvm::sys::path::parent_path(library), builtinsPrefix(library)))
    // Another version's builtins do no harm; a missing one shows in the log of
    // the compilation that needs it.
    llvm::consumeError(DynamicLibrary::openFirst({path}, "NVRTC's builtins",
                                                 ErrorCode::CompilerMissing)
                           .takeError());
}

/// Whether the file \p path holds \p text.
static bool fileHolds(const std::string &path, llvm::StringRef text) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  return file && (*file)->getBuffer().contains(text);
}

llvm::Error Nvrtc::checkBuiltins() const {
  const std::string name =
      fmt::format("{}{}.{}", builtinsPrefix(path()), major, minor);
  bool isThere = false;
  for (const std::string &file :
       entriesWith(llvm::sys::path::parent_path(path()), name)) {
    if (auto bad = describeBadLibrary(file))
      return makeError(ErrorCode::CompilerMissing, "{}: {} ({})", path(), file,
                       *bad);
    isThere = true;
  }
  if (isThere)
    return llvm::Error::success();
  auto found = DynamicLibrary::openFirst({name}, "NVRTC's builtins",
                                         ErrorCode::CompilerMissing);
  if (found)
    return llvm::Error::success();
  ErrorSummary missing = summarize(found.takeError());
  // A build that has them inside does not name them. Looked for last: the file
  // has 100 MB.
  if (!fileHolds(path(), name))
    return llvm::Error::success();
  return makeError(ErrorCode::CompilerMissing, "{} needs {} beside it: {}",
                   path(), name, missing.message);
}

llvm::Expected<std::shared_ptr<const Nvrtc>>
Nvrtc::open(const std::string &candidate) {
  if (llvm::StringRef(candidate).contains('/'))
    openBuiltins(candidate);
  const CompilerLoading loading;
  auto library = DynamicLibrary::openFirst({candidate}, "NVRTC",
                                           ErrorCode::CompilerMissing);
  if (!library)
    return library.takeError();
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc);
  nvrtc->library = std::move(*library);
  // The library that the loader chose has its builtins beside it, too.
  if (llvm::StringRef(nvrtc->path()).contains('/') &&
      nvrtc->path() != candidate)
    openBuiltins(nvrtc->path());
  if (llvm::Error error = nvrtc->resolve())
    return error;
  if (llvm::Error error = nvrtc->checkBuiltins())
    return error;
  // Behind its destructors: since resolve() it registers no more of them.
  watchProcessExit();
  return std::shared_ptr<const Nvrtc>(std::move(nvrtc));
}

llvm::Expected<std::shared_ptr<const Nvrtc>> Nvrtc::loadAlternate() const {
  llvm::StringRef folder = llvm::sys::path::parent_path(path());
  std::string file =
      fmt::format("{}/libnvrtc{}.so.{}", folder, kAlternate, major);
  if (folder.empty() || !fs::exists(file))
    return makeError(ErrorCode::CompilerMissing,
                     "there is no alternate build beside {}", path());
  if (fs::equivalent(file, path()))
    return makeError(ErrorCode::CompilerMissing,
                     "{} is the alternate build itself", path());
  const CompilerStay stay;
  if (!stay.isGranted())
    return makeError(ErrorCode::Cancelled,
                     "{} was not loaded: the process is ending", file);
  auto other = open(file);
  if (!other)
    return other.takeError();
  if ((*other)->major != major || (*other)->minor != minor)
    return makeError(ErrorCode::CompilerMissing,
                     "{} is NVRTC {}.{} beside {}.{}", (*other)->path(),
                     (*other)->major, (*other)->minor, major, minor);
  return other;
}

llvm::Expected<std::shared_ptr<const Nvrtc>>
Nvrtc::load(const NvrtcSearch &search) {
  // Before its own handlers are, so that the process does not end while it is
  // loaded, and then goes on into a compilation.
  watchProcessExit();
  const CompilerStay stay;
  if (!stay.isGranted())
    return makeError(ErrorCode::Cancelled,
                     "NVRTC was not loaded: the process is ending");
  return find(search);
}

llvm::Expected<std::shared_ptr<const Nvrtc>>
Nvrtc::find(const NvrtcSearch &search) {
  std::vector<std::string> candidates, searched, failures;
  if (!search.explicitPath && search.askLoader) {
    candidates.assign(std::begin(kNames), std::end(kNames));
    searched.push_back("the loader's path");
  }
  for (std::string &file : nvrtcCandidates(search, searched))
    candidates.push_back(std::move(file));

  for (const std::string &candidate : candidates) {
    auto nvrtc = open(candidate);
    if (nvrtc)
      return nvrtc;
    // Usually the loader does not find a bare name; its error about a file is
    // worth telling.
    std::string message = summarize(nvrtc.takeError()).message;
    if (llvm::StringRef(candidate).contains('/') ||
        !llvm::StringRef(message).contains("No such file"))
      failures.push_back(std::move(message));
  }
  return makeError(
      ErrorCode::CompilerMissing,
      "cannot find NVRTC {}.{} or newer ({}); searched {}{}{}; install it or "
      "set KILN_NVRTC to the library or its folder",
      kMinNvrtcMajor, kMinNvrtcMinor, fmt::join(kNames, ", "),
      fmt::join(searched, ", "), failures.empty() ? "" : "; ",
      fmt::join(failures, "; "));
}

std::string ownFile() {
  static const int anchor = 0; // an address inside of this object
  Dl_info info;
  struct link_map *map = nullptr;
  if (!::dladdr1(&anchor, &info, reinterpret_cast<void **>(&map),
                 RTLD_DL_LINKMAP) ||
      !map)
    return {};
  // The program has no name there. Its caller chooses argv[0], but not the file
  // that the kernel runs.
  llvm::StringRef loaded =
      *map->l_name ? llvm::StringRef(map->l_name) : "/proc/self/exe";
  llvm::SmallString<256> file;
  if (!llvm::sys::path::is_absolute(loaded) || fs::real_path(loaded, file))
    return {};
  return file.str().str();
}

std::string buildTreeToolkit() {
  llvm::SmallString<256> tree(ownFile());
  // A program with rights of its own (setuid) runs no code from its own folder,
  // because a hard link to it may lie anywhere.
  if (tree.empty() || ::getauxval(AT_SECURE))
    return {};
  llvm::sys::path::remove_filename(tree);
  llvm::sys::path::append(tree, "..");
  llvm::sys::path::remove_dots(tree, /*remove_dot_dot=*/true);
  return toolkitOfTree(tree);
}

std::string toolkitOfTree(llvm::StringRef tree) {
  if (!fs::is_regular_file(tree + "/" + kBuildTreeMark))
    return {};
  return (llvm::sys::path::parent_path(tree) + "/cuda").str();
}

} // namespace kiln
