//===- GatherStep.cpp -----------------------------------------------------===//
#include "Families/Gemm/GatherStep.h"

#include "Families/KernelUnit.h"
#include "Model/MathUtil.h"
#include "gemm/GatherConfig.h"
#include "gemm/RepackConfig.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

static constexpr int64_t kAlign = 256; // of what lies in scratch

static int64_t pitchOf(const GemmProblem &problem) {
  constexpr int64_t kLine = 128;
  return roundUp(problem.k * bytesOf(problem.dtype), kLine);
}
static int64_t rowsBytes(const GemmProblem &problem) {
  return roundUp(problem.m * pitchOf(problem), kAlign);
}
/// Scales of a row; 0 where rows have none of their own.
static int64_t depthsOf(const GemmProblem &problem) {
  ScaleKind kind = problem.scaleA.kind;
  return kind == ScaleKind::Row || isBlockScale(kind)
             ? problem.scaleA.depthsOf(problem.k)
             : 0;
}

static constexpr int64_t kScaleBytes = 4;

int64_t gatheredRowBytes(const GemmProblem &problem) {
  return pitchOf(problem) + depthsOf(problem) * kScaleBytes;
}

int64_t gatherBytes(const GemmProblem &problem) {
  if (!problem.gathers)
    return 0;
  return rowsBytes(problem) +
         roundUp(problem.m * depthsOf(problem) * kScaleBytes, kAlign);
}

template <Number N>
N copyStepsNs(int steps, double bytes, const DeviceModel &device) {
  // A copy is a kernel of its own: its bytes both ways, and what passes before
  // its first store and behind its last one (120 x 1024 x 1024 of tf32, TN, on
  // an H100: 3.3 us more than the product).
  constexpr double kCopyNs = 2000;
  if (steps == 0)
    return 0;
  // A copy behind a copy is launched while that one runs (Sm90Plan.cpp).
  const N moved = given<N>(bytes, "bytes of copies", "B");
  return deviceValue<N>(device, &DeviceModel::launchNs) +
         deviceValue<N>(device, &DeviceModel::rampNs) +
         given<N>(steps, "copies") * fitted<N>(kCopyNs, "begin and end", "ns") +
         moved / deviceValue<N>(device, &DeviceModel::dramGBs) +
         moved / deviceValue<N>(device, &DeviceModel::dramWriteGBs);
}
template double copyStepsNs(int, double, const DeviceModel &);
template Figure copyStepsNs(int, double, const DeviceModel &);

template <Number N>
N gatherNs(const GemmProblem &problem, const DeviceModel &device) {
  if (!problem.gathers)
    return 0;
  double rows = double(problem.m) * double(problem.batch);
  return named(copyStepsNs<N>(1, rows * double(pitchOf(problem)), device),
               "gather of A's rows", "ns");
}
template double gatherNs(const GemmProblem &, const DeviceModel &);
template Figure gatherNs(const GemmProblem &, const DeviceModel &);

template <Number N>
N alignNs(const GemmProblem &problem, const DeviceModel &device) {
  double rows = double(problem.m) * double(problem.batchA);
  return named(copyStepsNs<N>(1, rows * double(pitchOf(problem)), device),
               "aligned copy of A's rows", "ns");
}
template double alignNs(const GemmProblem &, const DeviceModel &);
template Figure alignNs(const GemmProblem &, const DeviceModel &);

int64_t alignedBytes(const GemmProblem &problem) { return rowsBytes(problem); }

int64_t gatheredLda(const GemmProblem &problem) {
  return pitchOf(problem) / bytesOf(problem.dtype);
}

TranslationUnit gatherUnit(const GemmSignature &signature,
                           const DeviceModel &device) {
  constexpr GatherConfig kConfig{};
  const bool hasScales =
      signature.scaleA == ScaleKind::Row || isBlockScale(signature.scaleA);
  return makeKernelUnit(
      {"gemm/Gather.cuh", "GatherSignature", "GatherConfig", "GatherParams",
       "gatherRows"},
      {.name = stepName(gemmProblemSchema(), "gather"),
       .signature = fmt::format("{{.elementBytes = {}, .hasScales = {}}}",
                                bytesOf(signature.in), hasScales),
       .config = "{}",
       .threads = kConfig.threads(),
       .sharedBytes = 0},
      device);
}

TranslationUnit repackUnit(int bytes, bool transposes,
                           const DeviceModel &device) {
  constexpr RepackConfig kRepack{};
  return makeKernelUnit(
      {.header = "gemm/Repack.cuh",
       .signatureType = "RepackSignature",
       .configType = "RepackConfig",
       .paramsType = "RepackParams",
       .function = transposes ? "repackTransposed" : "repack"},
      {.name = stepName(gemmProblemSchema(),
                        transposes ? "repack_transposed" : "repack"),
       .signature = fmt::format("{{.elementBytes = {}}}", bytes),
       .config = "{}",
       .threads = kRepack.threads(),
       .sharedBytes = 0},
      device);
}

void addAlignedCopy(const GemmProblem &problem, DeviceAddress scratch,
                    int function, bool depends, GemmParams &params,
                    LaunchSpec &spec) {
  const int64_t bytes = bytesOf(problem.dtype);
  RepackParams copy;
  copy.source = params.a;
  copy.target = reinterpret_cast<void *>(scratch);
  copy.rows = copy.rowsPerBatch = problem.m;
  copy.rowBytes = problem.k * bytes;
  copy.sourcePitch = params.lda * bytes;
  copy.targetPitch = pitchOf(problem);
  params.a = copy.target;
  params.lda = copy.targetPitch / bytes;
  constexpr RepackConfig kRepack{};
  KernelStep &step = spec.addKernel(copy);
  step.dependentLaunch = depends;
  step.function = function;
  step.grid.x = static_cast<uint32_t>(
      std::max<int64_t>(1, kRepack.blocks(copy.rows, copy.targetPitch)));
  step.block.x = static_cast<uint32_t>(kRepack.threads());
}

void addGather(const GemmProblem &problem, DeviceAddress scratch, int function,
               bool depends, GemmParams &params, LaunchSpec &spec) {
  const int64_t bytes = bytesOf(problem.dtype), depths = depthsOf(problem);
  GatherParams gather;
  gather.source = params.a;
  gather.target = reinterpret_cast<void *>(scratch);
  gather.groups = params.groups;
  gather.groupCount = static_cast<int>(problem.batch);
  gather.rows = problem.m;
  gather.rowBytes = problem.k * bytes;
  gather.sourcePitch = params.lda * bytes;
  gather.targetPitch = pitchOf(problem);
  params.a = gather.target;
  params.lda = gather.targetPitch / bytes;
  // Where several tiles of rows share a weight, blocks that begin as others
  // leave, one here and one there, share less in L2 for all of the product
  // (32768 rows of 128 groups, n = 3072, k = 4096, H200: by tiles of 64 x 256
  // 3.0 ms, and 1.9 where only the last blocks of the copy let them begin;
  // 1.46 behind the whole copy).
  constexpr int64_t kFewRows = 64;
  gather.letsNextBegin = problem.m <= kFewRows * problem.batch;
  if (depths > 0) {
    gather.scales = params.scaleA;
    gather.targetScales = reinterpret_cast<float *>(
        scratch + static_cast<DeviceAddress>(rowsBytes(problem)));
    gather.depths = depths;
    params.scaleA = {gather.targetScales, depths, 1, 0};
  }
  constexpr GatherConfig kConfig{};
  KernelStep &step = spec.addKernel(gather);
  step.dependentLaunch = depends;
  step.function = function;
  step.grid.x = static_cast<uint32_t>(
      std::max<int64_t>(1, kConfig.blocks(problem.m, gather.targetPitch)));
  step.block.x = static_cast<uint32_t>(kConfig.threads());
}

} // namespace kiln
