//===- KernelLibrary.cpp --------------------------------------------------===//
#include "Emulator/KernelLibrary.h"

#include "Kernel/Sources.h"
#include "Support/Error.h"

#include <llvm/Support/Program.h>

#include <dlfcn.h>
#include <filesystem>
#include <optional>
#include <regex>

#include <fmt/format.h>

namespace kiln::emulated {

/// Where the emulated instructions are.
static const char kEmulatorFolder[] = KILN_SOURCE_DIR "/unittests/Emulator";

KernelLibrary::~KernelLibrary() {
  for (auto &[key, unit] : units)
    for (void *handle : unit.handles)
      dlclose(handle);
}

/// Shared memory as the host has it: the part that a launch sizes is where the
/// machine says, the rest is static in the library, of which each block has a
/// copy.
static std::string hostText(const std::string &text) {
  static const std::regex sized(
      "extern __shared__ (?:__align__\\(\\d+\\) )?([\\w ]+) (\\w+)\\[\\];");
  static const std::regex fixed("\\b__shared__\\b");
  return std::regex_replace(
      std::regex_replace(text, sized,
                         "$1 *const $2 = reinterpret_cast<$1 *>("
                         "kilnMachine->thread->shared);"),
      fixed, "static");
}

llvm::Error KernelLibrary::writeSources(std::shared_ptr<const SourceSet> set) {
  if (sources == set)
    return llvm::Error::success();
  sources = std::move(set);
  sourceFolder = folder / fmt::format("src{}", files++);
  for (const SourceFile &file : sources->files())
    testing::writeBytes(sourceFolder + "/" + file.name,
                        hostText(file.contents));
  const std::filesystem::path own =
      std::filesystem::path(kEmulatorFolder) / "include" / "common";
  for (const auto &item : std::filesystem::directory_iterator(own))
    std::filesystem::copy_file(
        item.path(),
        sourceFolder + "/common/" + item.path().filename().string(),
        std::filesystem::copy_options::overwrite_existing);
  return llvm::Error::success();
}

/// The names of the kernels of \p text and of what it includes.
static std::vector<std::string> kernelsOf(const SourceSet &sources,
                                          llvm::StringRef text) {
  static const std::regex kernel(
      "extern \"C\" __global__ void\\s+(?:__launch_bounds__\\([^)]*\\)\\s*)?"
      "(\\w+)\\(");
  std::string all = text.str();
  for (const char *included : sources.closureOf(text).texts)
    all += included;
  std::vector<std::string> names;
  for (std::sregex_iterator it(all.begin(), all.end(), kernel), end; it != end;
       ++it)
    names.push_back((*it)[1]);
  return names;
}

/// \p text and what a block calls it by: kilnCall_<kernel>(parameter).
static std::string libraryText(const SourceSet &sources, llvm::StringRef text) {
  std::string all = text.str() + R"(
extern "C" {
kiln::emulated::Machine *kilnMachine;
// Below is what has addresses before the first: nothing may lie there.
alignas(1024) unsigned char
    kilnShared[kiln::emulated::kSharedBase + kiln::emulated::kSharedBytes];
}
template <class Params>
void kilnCall(void (*kernel)(Params), const void *params) {
  kernel(*static_cast<const Params *>(params));
}
)";
  for (const std::string &name : kernelsOf(sources, text))
    all += fmt::format("extern \"C\" void kilnCall_{0}(const void *params) {{ "
                       "kilnCall({0}, params); }}\n",
                       name);
  return all;
}

/// The lines of \p log that name errors.
static std::string errorsOf(const std::string &log) {
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(log).split(lines, '\n');
  std::string errors;
  for (llvm::StringRef line : lines)
    if (line.contains("error"))
      errors += (line + "\n").str();
  return errors;
}

/// Arguments of every compilation by the host compiler.
static llvm::SmallVector<llvm::StringRef, 20> commonArguments() {
  return {KILN_HOST_COMPILER, "-std=c++20", "-O1", "-g1", "-w", "-fPIC",
          "-fno-strict-aliasing",
          // Static memory of templates, too.
          "-fno-gnu-unique", "-fsanitize=alignment", "-DKILN_EMULATED_ARCH=900",
          "-I", kEmulatorFolder};
}

/// The header that stands for what NVRTC builds in, parsed once for all kernels
/// of this process: a third of the time of each. Where that fails, its text
/// serves.
static const std::string &precompiledBuiltins() {
  static const testing::TemporaryFolder folder{KILN_BINARY_DIR};
  static const std::string header = [] {
    const std::string path = folder / "Builtins.h";
    const std::string original =
        kEmulatorFolder + std::string("/include/Builtins.h");
    testing::writeBytes(path, "#include \"" + original + "\"\n");
    const std::string output = path + ".gch", log = path + ".log";
    auto arguments = commonArguments();
    arguments.append({"-x", "c++-header", path, "-o", output});
    const std::optional<llvm::StringRef> redirects[] = {std::nullopt, log, log};
    llvm::sys::ExecuteAndWait(KILN_HOST_COMPILER, arguments, std::nullopt,
                              redirects);
    return path;
  }();
  return header;
}

llvm::Expected<std::string> KernelLibrary::compile(llvm::StringRef text) {
  const std::string base = folder / fmt::format("unit{}", files++);
  const std::string source = base + ".cpp", library = base + ".so",
                    log = base + ".log";
  testing::writeBytes(source, libraryText(*sources, text));
  auto arguments = commonArguments();
  arguments.append({"-shared", "-include", precompiledBuiltins(), "-I",
                    sourceFolder, source, "-o", library});
  const std::optional<llvm::StringRef> redirects[] = {std::nullopt, log, log};
  if (llvm::sys::ExecuteAndWait(KILN_HOST_COMPILER, arguments, std::nullopt,
                                redirects) != 0)
    return makeError(ErrorCode::Internal, "{}",
                     errorsOf(testing::readBytes(log)));
  return library;
}

llvm::Error KernelLibrary::open(Unit &unit, unsigned ranks) {
  while (unit.handles.size() < ranks) {
    std::string file = unit.file;
    if (!unit.handles.empty()) {
      file += fmt::format(".{}", unit.handles.size());
      std::filesystem::copy_file(unit.file, file);
    }
    void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return makeError(ErrorCode::Internal, "{}", dlerror());
    unit.handles.push_back(handle);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<KernelImage>>
KernelLibrary::images(llvm::StringRef text, llvm::StringRef entry,
                      unsigned ranks) {
  // Behind the first NUL is what else a cubin holds.
  text = text.take_until([](char c) { return c == '\0'; });
  if (llvm::Error error = writeSources(kernelSources()))
    return error;
  Unit &unit = units[sources->closureOf(text).digest.hex() + "\n" + text.str()];
  if (unit.file.empty()) {
    auto file = compile(text);
    if (!file)
      return file.takeError();
    unit.file = *file;
  }
  if (llvm::Error error = open(unit, ranks))
    return error;
  std::vector<KernelImage> images;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    void *handle = unit.handles[rank];
    KernelImage &image = images.emplace_back();
    image.entry = reinterpret_cast<void (*)(const void *)>(
        dlsym(handle, ("kilnCall_" + entry).str().c_str()));
    image.shared =
        static_cast<unsigned char *>(dlsym(handle, "kilnShared")) + kSharedBase;
    image.machine = static_cast<Machine **>(dlsym(handle, "kilnMachine"));
    if (!image.entry)
      return makeError(ErrorCode::Internal, "there is no kernel {}", entry);
  }
  return images;
}

} // namespace kiln::emulated
