//===- KernelUnit.cpp -----------------------------------------------------===//
#include "Families/KernelUnit.h"

#include "Kernel/Sources.h"
#include "Support/Format.h"

namespace kiln {

TranslationUnit makeKernelUnit(const KernelEntry &entry,
                               const KernelInstance &instance,
                               const DeviceModel &device) {
  UnitParts unit;
  unit.name = tagged(instance.name, instance.signature);
  unit.entry = unit.name;
  unit.arch = device.archName(entry.archSpecific);
  unit.headers = kernelSources();
  unit.maySpill = instance.maySpill;
  std::string check =
      instance.sharedBytes
          ? fmt::format("sharedBytes(kSignature) == {}", *instance.sharedBytes)
          : fmt::format("minBlocks(kSignature) == {}", instance.minBlocks);
  unit.source = fmt::format(
      R"(#include "{header}"

namespace {{
constexpr kiln::{signatureType} kSignature{signature};
constexpr kiln::{configType} kConfig{config};
static_assert(kConfig.isValid(kSignature), "the config does not fit");
static_assert(kConfig.threads() == {threads} && kConfig.{check},
              "host and device disagree about the config");
}} // namespace

extern "C" __global__ void __launch_bounds__({threads}, {minBlocks})
{entry}(const __grid_constant__ kiln::{params} params) {{
  kiln::{function}<kSignature, kConfig>(params);
}}
)",
      fmt::arg("header", entry.header),
      fmt::arg("signatureType", entry.signatureType),
      fmt::arg("signature", instance.signature),
      fmt::arg("configType", entry.configType),
      fmt::arg("config", instance.config),
      fmt::arg("threads", instance.threads), fmt::arg("check", check),
      fmt::arg("minBlocks", instance.minBlocks), fmt::arg("entry", unit.entry),
      fmt::arg("params", entry.paramsType),
      fmt::arg("function", entry.function));
  return TranslationUnit(std::move(unit));
}

llvm::StringRef enumeratorOf(DType type) {
  switch (type) {
  case DType::None:
    return "None";
  case DType::FP64:
    return "FP64";
  case DType::FP32:
    return "FP32";
  case DType::INT32:
    return "INT32";
  case DType::FP16:
    return "FP16";
  case DType::BF16:
    return "BF16";
  case DType::E4M3:
    return "E4M3";
  case DType::E5M2:
    return "E5M2";
  case DType::E8M0:
    return "E8M0";
  case DType::INT8:
    return "INT8";
  case DType::E2M1:
    return "E2M1";
  case DType::INT4:
    return "INT4";
  case DType::UINT4:
    return "UINT4";
  }
  return {};
}

} // namespace kiln
