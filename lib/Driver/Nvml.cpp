//===- Nvml.cpp -----------------------------------------------------------===//
#include "Driver/Nvml.h"

#include "Support/DynamicLibrary.h"

namespace kiln {

llvm::Expected<Nvml> Nvml::load(const Environment &environment) {
  llvm::Expected<DynamicLibrary> library = DynamicLibrary::openFirst(
      {environment.kilnNvml.value_or("libnvidia-ml.so.1")}, "NVML",
      ErrorCode::DriverMissing);
  if (!library)
    return library.takeError();
  Nvml nvml;
#define KILN_NVML_SYMBOL(name, returnType, arguments)                          \
  nvml.name = library->find<decltype(nvml.name)>(#name);
#include "Driver/NvmlSymbols.def"
  if (!nvml.nvmlInit_v2 || !nvml.nvmlShutdown)
    return makeError(ErrorCode::DriverMissing,
                     "{} is not NVML: it has no nvmlInit_v2", library->path());
  if (llvm::Error error = nvml.check(nvml.nvmlInit_v2(), "nvmlInit"))
    return addContext(std::move(error), library->path());
  nvml.initialised = true;
  return nvml;
}

Nvml::Nvml(Nvml &&other) noexcept
    :
#define KILN_NVML_SYMBOL(name, returnType, arguments) name(other.name),
#include "Driver/NvmlSymbols.def"
      initialised(std::exchange(other.initialised, false)) {
}

Nvml::~Nvml() {
  if (initialised)
    nvmlShutdown();
}

llvm::Error Nvml::check(NvmlResult result, const char *what) const {
  if (result == 0)
    return llvm::Error::success();
  const char *text = nvmlErrorString ? nvmlErrorString(result) : nullptr;
  return llvm::make_error<KilnError>(
      ErrorCode::DriverError,
      fmt::format("{}: {} ({})", what, text ? text : "no description", result),
      result);
}

} // namespace kiln
