//===- KernelUnit.cpp -----------------------------------------------------===//
#include "Families/KernelUnit.h"

#include "Kernel/Sources.h"
#include "Support/EnumName.h"
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
  using enum DType;
  static constexpr EnumName<DType> kNames[] = {
      {None, "None"},   {FP64, "FP64"},  {FP32, "FP32"}, {INT64, "INT64"},
      {INT32, "INT32"}, {FP16, "FP16"},  {BF16, "BF16"}, {E4M3, "E4M3"},
      {E5M2, "E5M2"},   {E8M0, "E8M0"},  {INT8, "INT8"}, {E2M1, "E2M1"},
      {INT4, "INT4"},   {UINT4, "UINT4"}};
  return nameIn(kNames, type, {});
}

llvm::StringRef enumeratorOf(ScaleKind kind) {
  using enum ScaleKind;
  static constexpr EnumName<ScaleKind> kNames[] = {
      {None, "None"},
      {Tensor, "Tensor"},
      {Row, "Row"},
      {Block1x128, "Block1x128"},
      {Block128x128, "Block128x128"}};
  return nameIn(kNames, kind);
}

} // namespace kiln
