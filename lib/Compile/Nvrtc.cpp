//===- Nvrtc.cpp ----------------------------------------------------------===//
#include "Compile/Nvrtc.h"

#include "Compile/EmbeddedSources.h"
#include "Compile/NvrtcBuild.h"
#include "Compile/NvrtcDestructors.h"
#include "Compile/ProcessExit.h"
#include "Compile/TranslationUnit.h"
#include "Support/Cubin.h"

#include <llvm/ADT/STLExtras.h>

#include <nvrtc.h>

namespace kiln {

static_assert(NVRTC_ERROR_OUT_OF_MEMORY == kNvrtcOutOfMemory);

struct Nvrtc::Api {
#define KILN_NVRTC_SYMBOL(name) decltype(&::name) name = nullptr;
#include "Compile/NvrtcSymbols.def"
};

Nvrtc::Nvrtc() : api(std::make_unique<Api>()) {}
Nvrtc::~Nvrtc() = default;

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

llvm::Error Nvrtc::resolve() {
#define KILN_NVRTC_SYMBOL(symbol)                                              \
  api->symbol = library.find<decltype(api->symbol)>(#symbol);                  \
  if (!api->symbol)                                                            \
    return makeError(ErrorCode::CompilerMissing, "{} has no symbol {}",        \
                     library.path(), #symbol);
#include "Compile/NvrtcSymbols.def"
  if (api->nvrtcVersion(&major, &minor) != NVRTC_SUCCESS)
    return makeError(ErrorCode::CompilerMissing, "{} tells no version",
                     library.path());
  if (std::pair(major, minor) < std::pair(kMinNvrtcMajor, kMinNvrtcMinor))
    return makeError(ErrorCode::CompilerMissing,
                     "{} is NVRTC {}.{}, older than {}.{}", library.path(),
                     major, minor, kMinNvrtcMajor, kMinNvrtcMinor);

  int count = 0;
  constexpr int kMostArchs = 1024; // a count beyond it is not believed
  if (api->nvrtcGetNumSupportedArchs(&count) == NVRTC_SUCCESS && count > 0 &&
      count <= kMostArchs) {
    archs.resize(count);
    if (api->nvrtcGetSupportedArchs(archs.data()) != NVRTC_SUCCESS)
      archs.clear();
  }
  NvrtcBuild build = findNvrtcBuild(
      reinterpret_cast<const void *>(api->nvrtcVersion), major, minor);
  identityText = fmt::format("nvrtc {}.{}{}{} {}", major, minor,
                             build.patch.empty() ? "" : ".", build.patch,
                             build.id.empty() ? "unknown-build" : build.id);

  // A file that only stands before the compiler, and links it, has few of the
  // functions itself.
#define KILN_NVRTC_SYMBOL(symbol)                                              \
  refuseDestructors(reinterpret_cast<const void *>(api->symbol));
#include "Compile/NvrtcSymbols.def"
  return llvm::Error::success();
}

llvm::Error Nvrtc::checkSupports(llvm::StringRef arch) const {
  if (llvm::Error error = checkArch(arch))
    return error;
  // A library that tells no list decides when it compiles.
  if (archs.empty() || llvm::is_contained(archs, capabilityOf(arch)))
    return llvm::Error::success();
  return makeError(ErrorCode::Unsupported,
                   "NVRTC {}.{} ({}) does not compile for {}; it supports "
                   "sm_{}",
                   major, minor, path(), arch, fmt::join(archs, ", sm_"));
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// More than any kernel or log has: a larger size is not believed.
static constexpr size_t kMaxResultBytes = 256 << 20;

/// Reads a text or binary result of a program by NVRTC's pair of functions.
template <class Size, class Get>
static nvrtcResult fetch(nvrtcProgram program, Size size, Get get,
                         std::string &result) {
  size_t bytes = 0;
  nvrtcResult status = size(program, &bytes);
  if (status != NVRTC_SUCCESS)
    return status;
  if (bytes > kMaxResultBytes)
    return NVRTC_ERROR_INTERNAL_ERROR;
  result.resize(bytes);
  return bytes ? get(program, result.data()) : NVRTC_SUCCESS;
}

NvrtcOutcome Nvrtc::compile(const std::string &name, const std::string &source,
                            const SourceClosure &headers,
                            llvm::ArrayRef<std::string> options) const {
  std::vector<const char *> arguments;
  for (const std::string &option : options)
    arguments.push_back(option.c_str());

  NvrtcOutcome outcome;
  const CompilerStay stay;
  outcome.isCancelled = !stay.isGranted();
  if (outcome.isCancelled)
    return outcome;
  nvrtcProgram program = nullptr;
  nvrtcResult result =
      api->nvrtcCreateProgram(&program, source.c_str(), name.c_str(),
                              static_cast<int>(headers.names.size()),
                              headers.texts.data(), headers.names.data());
  if (result == NVRTC_SUCCESS) {
    result = api->nvrtcCompileProgram(
        program, static_cast<int>(arguments.size()), arguments.data());
    // A log that cannot be read leaves the result as it is.
    fetch(program, api->nvrtcGetProgramLogSize, api->nvrtcGetProgramLog,
          outcome.log);
    if (result == NVRTC_SUCCESS)
      result = fetch(program, api->nvrtcGetCUBINSize, api->nvrtcGetCUBIN,
                     outcome.cubin);
    api->nvrtcDestroyProgram(&program);
  }
  outcome.result = result;
  const char *called = api->nvrtcGetErrorString(result);
  outcome.resultName =
      called ? called : fmt::format("NVRTC result {}", int(result));
  return outcome;
}

} // namespace kiln
