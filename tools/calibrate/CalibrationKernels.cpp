//===- CalibrationKernels.cpp - the kernels of the micro-benchmarks -------===//
#include "calibrate/CalibrationKernels.h"

#include "Kernel/Sources.h"
#include "Support/Format.h"
#include "calibrate/CalibrateParams.h"

#include <llvm/ADT/StringExtras.h>

namespace kiln::cli {

namespace {

/// One entry of a unit: the function that it runs, with which parameters.
struct Entry {
  std::string name, function;
  const char *params = "RateParams";
  int threads = 0; ///< the most of a block
};

/// A type of mma.sync.
struct MmaType {
  const char *type;
  const char *instruction; ///< a struct of Lanes.cuh
  const char *sum;
  int sums;
  const char *element;
  int elements;
  double flops;
  int leastCapability;
  /// Compilers make conversions and products of fp16 of it there.
  bool isEmulatedOnHopper = false;
};

/// A type of wgmma.
struct WgmmaType {
  const char *type;
  const char *name; ///< of the DType
  const char *sum;
  int bytes;
};

} // namespace

static constexpr double kFlopsOf16x8 = 2.0 * 16 * 8;

/// A later line of one type takes the place of an earlier one.
static constexpr MmaType kMmaTypes[] = {
    {"Fp64", "MmaFp64", "double", 2, "double", 8, 2.0 * 8 * 8 * 4, 80},
    {"Tf32", "MmaTf32", "float", 4, "unsigned", 4, kFlopsOf16x8 * 8, 80},
    {"Fp16", "MmaFp16", "float", 4, "unsigned", 4, kFlopsOf16x8 * 16, 80},
    {"Bf16", "MmaBf16", "float", 4, "unsigned", 4, kFlopsOf16x8 * 16, 80},
    {"Int8", "MmaInt8", "int", 4, "unsigned", 4, kFlopsOf16x8 * 32, 80},
    {"Fp8", "MmaFp8", "float", 4, "unsigned", 4, kFlopsOf16x8 * 32, 89, true},
    {"Fp64", "MmaFp64Wide", "double", 4, "double", 8, kFlopsOf16x8 * 16, 90},
};

static constexpr WgmmaType kWgmmaTypes[] = {{"Tf32", "FP32", "float", 4},
                                            {"Fp16", "FP16", "float", 2},
                                            {"Bf16", "BF16", "float", 2},
                                            {"Fp8", "E4M3", "float", 1},
                                            {"Int8", "INT8", "int", 1}};

static constexpr int kWgmmaWidths[] = {8, 16, 32, 64, 96, 128, 192, 256};

llvm::ArrayRef<int> wgmmaWidths() { return kWgmmaWidths; }

static bool hasWgmma(const DeviceModel &device) {
  return device.computeCapability() == 90;
}

/// The lines of kMmaTypes that count for \p device.
static std::vector<MmaType> mmaTypesOf(const DeviceModel &device) {
  std::vector<MmaType> types;
  for (const MmaType &line : kMmaTypes) {
    const int capability = device.computeCapability();
    if (capability < line.leastCapability ||
        (line.isEmulatedOnHopper && capability >= 90 && capability < 120))
      continue;
    llvm::erase_if(types, [&](const MmaType &type) {
      return llvm::StringRef(type.type) == line.type;
    });
    types.push_back(line);
  }
  return types;
}

std::vector<TensorInstruction> mmaInstructions(const DeviceModel &device) {
  std::vector<TensorInstruction> instructions;
  for (const MmaType &type : mmaTypesOf(device))
    instructions.push_back(
        {type.type, fmt::format("kilnMma{}", type.type), type.flops});
  return instructions;
}

std::vector<TensorInstruction> wgmmaInstructions(const DeviceModel &device) {
  std::vector<TensorInstruction> instructions;
  if (!hasWgmma(device))
    return instructions;
  constexpr int kBytesAlongK = 32;
  for (const WgmmaType &type : kWgmmaTypes)
    for (int columns : kWgmmaWidths)
      instructions.push_back(
          {type.type, fmt::format("kilnWgmma{}N{}", type.type, columns),
           2.0 * 64 * columns * kBytesAlongK / type.bytes, columns});
  return instructions;
}

/// One cubin for all entries; resources are reported for the last one.
static TranslationUnit makeUnit(const DeviceModel &device, llvm::StringRef name,
                                llvm::StringRef header,
                                llvm::ArrayRef<Entry> entries,
                                bool archSpecific = false) {
  UnitParts unit;
  unit.name = fmt::format("kiln_calibrate_{}", name);
  unit.headers = kernelSources();
  unit.maySpill = true;
  unit.arch = device.archName(archSpecific);
  unit.entry = entries.back().name;
  std::string kernels;
  for (const Entry &entry : entries) {
    unit.source += fmt::format("// {}\n", entry.name);
    kernels += fmt::format(
        "\nextern \"C\" __global__ void __launch_bounds__({})\n"
        "{}(const __grid_constant__ kiln::calibrate::{} params) {{\n"
        "  using namespace kiln::calibrate;\n  {}(params);\n}}\n",
        entry.threads, entry.name, entry.params, entry.function);
  }
  unit.source += fmt::format("#include \"calibrate/{}\"\n", header) + kernels;
  return TranslationUnit(std::move(unit));
}

static TranslationUnit memoryUnit(const DeviceModel &device) {
  constexpr int kThreads = calibrate::kStreamThreads;
  return makeUnit(
      device, "memory", "Memory.cuh",
      {{"kilnNothing", "nothing", "RateParams", kThreads},
       {"kilnRead", "passChunks<Access::Read>", "PassParams", kThreads},
       {"kilnWrite", "passChunks<Access::Write>", "PassParams", kThreads},
       {"kilnCopy", "passChunks<Access::Copy>", "PassParams", kThreads},
       {"kilnMakeChain", "makeChain", "ChainParams", kThreads},
       {"kilnChase", "chase", "ChaseParams", kThreads}});
}

static TranslationUnit ratesUnit(const DeviceModel &device) {
  constexpr int kThreads = 32 * calibrate::kLaneWarps;
  std::vector<Entry> entries;
  for (auto [name, instruction] : {std::pair{"Fp32", "Fma32"},
                                   {"Fp64", "Fma64"},
                                   {"Fp16", "FmaPair"},
                                   {"Int32", "Mad32"},
                                   {"Special", "Exponential"}})
    entries.push_back({fmt::format("kilnLanes{}", name),
                       fmt::format("runLanes<{}>", instruction), "RateParams",
                       kThreads});
  entries.push_back({"kilnShared", "runShared", "RateParams", kThreads});
  entries.push_back(
      {"kilnStart", "start", "StartParams", calibrate::kStartThreads});
  entries.push_back({"kilnWatch", "watchClock", "RateParams", kThreads});
  for (const MmaType &type : mmaTypesOf(device))
    entries.push_back(
        {fmt::format("kilnMma{}", type.type),
         fmt::format("runMma<{}, {}, {}, {}, {}>", type.instruction, type.sum,
                     type.sums, type.element, type.elements),
         "RateParams", 32 * calibrate::kMmaWarps});
  return makeUnit(device, "rates", "Lanes.cuh", entries);
}

std::vector<TranslationUnit> calibrationUnits(const DeviceModel &device) {
  std::vector<TranslationUnit> units = {memoryUnit(device), ratesUnit(device)};
  if (!hasWgmma(device))
    return units;
  for (const WgmmaType &type : kWgmmaTypes) {
    std::vector<Entry> entries;
    for (int columns : kWgmmaWidths)
      entries.push_back({fmt::format("kilnWgmma{}N{}", type.type, columns),
                         fmt::format("runWgmma<kiln::DType::{}, {}, {}>",
                                     type.name, columns, type.sum),
                         "RateParams", 128 * calibrate::kWgmmaGroups});
    units.push_back(makeUnit(device,
                             "wgmma_" + llvm::StringRef(type.type).lower(),
                             "Wgmma.cuh", entries, /*archSpecific=*/true));
  }
  return units;
}

std::vector<std::string> entriesOf(const TranslationUnit &unit) {
  std::vector<std::string> entries;
  llvm::StringRef text = unit.source();
  while (text.consume_front("// ")) {
    auto [name, rest] = text.split('\n');
    entries.push_back(name.str());
    text = rest;
  }
  return entries;
}

} // namespace kiln::cli
