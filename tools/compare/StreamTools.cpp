//===- StreamTools.cpp - the copy baseline of memory-bound kernels --------===//
#include "compare/StreamTools.h"

#include "Driver/Context.h"
#include "Driver/Launcher.h"
#include "Kernel/OperandLayout.h"
#include "Kernel/Sources.h"
#include "Support/Error.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cassert>

namespace kiln::cli {

static constexpr CacheHint kHints[] = {CacheHint::Plain, CacheHint::Streaming};

static int64_t wholeChunks(int64_t size) {
  return static_cast<int64_t>(
      llvm::alignTo(static_cast<uint64_t>(size), kStreamChunk));
}

StreamBytes streamBytesOf(const OperandTable &table) {
  StreamBytes bytes;
  for (const OperandSpec &operand : table.operands) {
    if (operand.bytes() == 0)
      continue;
    int64_t size = occupiedBytes(operand);
    if (operand.role != OperandRole::Out)
      bytes.read += size;
    if (operand.role == OperandRole::Out || operand.role == OperandRole::InOut)
      bytes.written += size;
  }
  return {wholeChunks(bytes.read), wholeChunks(bytes.written)};
}

StreamBytes streamBytesOf(const KernelFamily &family, const Problem &problem) {
  StreamBytes bytes = streamBytesOf(family.operands(problem));
  const auto compulsory = static_cast<int64_t>(family.compulsoryBytes(problem));
  const int64_t unread = std::max<int64_t>(bytes.total() - compulsory, 0);
  bytes.read = wholeChunks(std::max<int64_t>(bytes.read - unread, 0));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

std::string StreamVariant::text() const {
  std::string text = fmt::format("u{}.t{}", unroll, threads);
  if (blocksPerSm > 0)
    text += fmt::format(".b{}", blocksPerSm);
  return text + (hint == CacheHint::Streaming ? ".streaming" : "");
}

/// The unrolls that a mix allows, the least first.
static std::vector<int> unrollsOf(StreamMix mix) {
  std::vector<int> unrolls;
  for (int unroll : {1, 2, 4, 8})
    if (StreamConfig{mix, unroll, CacheHint::Plain}.isValid())
      unrolls.push_back(unroll);
  return unrolls;
}

std::vector<StreamVariant> streamVariants(const StreamBytes &bytes) {
  // So few bytes are moved before persistent grids, or many loads in flight,
  // pay.
  constexpr int64_t kSmallBytes = 8 << 20;
  const bool isSmall = bytes.total() < kSmallBytes;
  std::vector<StreamVariant> variants;
  std::vector<int> unrolls = unrollsOf(bytes.mix());
  for (int unroll : unrolls)
    for (int threads : {256, 512, kStreamThreads}) {
      if (isSmall && (unroll > 2 || threads == 512))
        continue;
      variants.push_back({unroll, CacheHint::Streaming, threads, 0});
      if (isSmall || threads == 512)
        variants.push_back({unroll, CacheHint::Plain, threads, 0});
    }
  if (isSmall)
    return variants;
  // Persistent grids need many loads in flight.
  constexpr struct {
    int threads, blocksPerSm;
  } kGrids[] = {{256, 8}, {512, 4}, {512, 2}, {1024, 2}, {1024, 1}};
  const size_t first = unrolls.size() > 2 ? unrolls.size() - 2 : 0;
  for (size_t i = first; i < unrolls.size(); ++i)
    for (auto [threads, blocksPerSm] : kGrids)
      variants.push_back(
          {unrolls[i], CacheHint::Streaming, threads, blocksPerSm});
  return variants;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static std::string entryOf(int unroll, CacheHint hint) {
  return fmt::format("kilnStream{}{}",
                     hint == CacheHint::Streaming ? "Streaming" : "Plain",
                     unroll);
}

TranslationUnit streamToolsUnit(const DeviceModel &device, StreamMix mix) {
  UnitParts unit;
  unit.name = fmt::format("kiln_stream_tools_{}_{}", mix.reads, mix.writes);
  unit.headers = kernelSources();
  unit.maySpill = true;
  unit.arch = device.archName();
  std::string kernels;
  // One cubin for all; resources are reported for the last, the largest.
  for (int unroll : unrollsOf(mix))
    for (CacheHint hint : kHints) {
      unit.entry = entryOf(unroll, hint);
      unit.source += fmt::format("// {}\n", unit.entry);
      kernels += fmt::format(
          "\nextern \"C\" __global__ void "
          "__launch_bounds__(kiln::kStreamThreads)\n"
          "{}(const __grid_constant__ kiln::StreamParams params) {{\n"
          "  kiln::trial::Stream<kiln::StreamConfig{{\n"
          "      .mix = {{.reads = {}, .writes = {}}}, .unroll = {},\n"
          "      .hint = kiln::CacheHint::{}}}>::run(params);\n"
          "}}\n",
          unit.entry, mix.reads, mix.writes, unroll,
          hint == CacheHint::Streaming ? "Streaming" : "Plain");
    }
  unit.source += "#include \"trial/StreamTools.cuh\"\n" + kernels;
  return TranslationUnit(std::move(unit));
}

llvm::Expected<StreamTools> StreamTools::load(const Driver &driver,
                                              ArtifactStore &artifacts,
                                              const DeviceModel &device,
                                              StreamMix mix) {
  auto artifact = artifacts.get(streamToolsUnit(device, mix));
  if (!artifact)
    return addContext(artifact.takeError(), "the copy baseline");
  CaptureModeGuard guard(driver);
  auto module = Module::load(driver, (*artifact)->cubin);
  if (!module)
    return addContext(module.takeError(), "the copy baseline");
  StreamTools tools(driver, std::move(*module), mix, device.smCount);
  for (int unroll : unrollsOf(mix))
    for (CacheHint hint : kHints) {
      auto function = tools.module.function(entryOf(unroll, hint).c_str());
      if (!function)
        return addContext(function.takeError(), "the copy baseline");
      tools.functions.push_back(*function);
    }
  return tools;
}

llvm::Error StreamTools::run(const StreamVariant &variant,
                             const StreamBytes &bytes, DeviceAddress from,
                             DeviceAddress to, CudaStream stream) const {
  StreamParams params = streamParams(theMix, bytes.read / kStreamChunk,
                                     bytes.written / kStreamChunk);
  if (params.steps == 0)
    return llvm::Error::success();
  params.read = reinterpret_cast<const void *>(from);
  params.write = reinterpret_cast<void *>(to);
  int64_t pieces = static_cast<int64_t>(llvm::divideCeil(
      static_cast<uint64_t>(params.steps), variant.threads * variant.unroll));
  if (variant.blocksPerSm > 0)
    pieces = std::min(pieces, smCount * variant.blocksPerSm);
  size_t index =
      llvm::Log2_32(static_cast<uint32_t>(variant.unroll)) * std::size(kHints) +
      (variant.hint == CacheHint::Streaming);
  assert(index < functions.size() && "a variant of another mix");
  LaunchSpec spec;
  KernelStep &step = spec.addKernel(params);
  step.function = static_cast<uint32_t>(index);
  step.grid.x = static_cast<uint32_t>(pieces);
  step.block.x = static_cast<uint32_t>(variant.threads);
  if (llvm::Error error = launch(*driver, spec, functions, stream))
    return addContext(std::move(error), "stream " + variant.text());
  return llvm::Error::success();
}

} // namespace kiln::cli
