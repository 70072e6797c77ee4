//===- CopyBaseline.cpp - the peer of memory-bound cases ------------------===//
#include "compare/CopyBaseline.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace kiln::cli {

/// How many variants the final run measures again.
static constexpr size_t kFinalists = 2;

/// Whether a copy moves the same: a weight or a scale beside two matrices does
/// not matter.
static bool isCopy(const StreamBytes &bytes) {
  constexpr int64_t kFraction = 100;
  return std::abs(bytes.read - bytes.written) * kFraction <= bytes.written;
}

/// Bytes read by a copy that moves as many bytes in all.
static uint64_t copiedBytes(const StreamBytes &bytes) {
  return llvm::alignDown(static_cast<uint64_t>(bytes.total()) / 2,
                         kStreamChunk);
}

CopyBaseline::CopyBaseline(const Driver &driver, const StreamTools &kernels,
                           const StreamBytes &bytes)
    : driver(driver), kernels(kernels), bytes(bytes) {
  constexpr uint64_t kAlignment = 256;
  uint64_t least = std::max<uint64_t>(copiedBytes(bytes), kStreamChunk);
  auto room = [&](int64_t size) {
    uint64_t wanted = static_cast<uint64_t>(size);
    return llvm::alignTo(isCopy(bytes) ? std::max(wanted, least) : wanted,
                         kAlignment) +
           kAlignment;
  };
  readBytes = room(bytes.read);
  copyBytes = readBytes + room(bytes.written);
}

llvm::Expected<std::unique_ptr<CopyBaseline>>
CopyBaseline::create(const Driver &driver, const TrialTools &tools,
                     const StreamTools &kernels, const StreamBytes &bytes,
                     unsigned copies, CudaStream stream) {
  std::unique_ptr<CopyBaseline> made(new CopyBaseline(driver, kernels, bytes));
  auto memory = DeviceMemory::allocate(driver, copies * made->copyBytes);
  if (!memory)
    return addContext(memory.takeError(), "memory of the copy baseline");
  made->memory = std::move(*memory);
  // Filled as the operands are: data of zeros costs the device less.
  FillNormalParams normal;
  normal.data = reinterpret_cast<void *>(made->memory.address());
  normal.count = static_cast<long long>(made->memory.bytes() / sizeof(float));
  normal.type = DType::FP32;
  if (llvm::Error error = tools.fillNormal(normal, stream))
    return error;
  made->addEntries();
  return made;
}

void CopyBaseline::addEntries() {
  if (isCopy(bytes))
    entries.push_back({"copy", [this](unsigned copy, CudaStream stream) {
                         return copyOnDevice(driver, target(copy), source(copy),
                                             copiedBytes(bytes), stream);
                       }});
  for (const StreamVariant &variant : streamVariants(bytes))
    entries.push_back(
        {variant.text(), [this, variant](unsigned copy, CudaStream stream) {
           return kernels.run(variant, bytes, source(copy), target(copy),
                              stream);
         }});
}

llvm::Error CopyBaseline::pickBest(CudaStream stream,
                                   SamplingOptions sampling) {
  sampling.minSamples = 3;
  sampling.maxSamples = 5;
  sampling.dropSlower = true;
  std::vector<TimedLaunch> launches;
  for (const Entry &entry : entries)
    launches.push_back(entry.launch);
  auto times = measureInterleaved(driver, stream, launches, sampling);
  if (!times)
    return times.takeError();
  std::vector<size_t> order;
  for (auto [i, time] : llvm::enumerate(*times))
    if (time.error.code == ErrorCode::Success && time.ns.count > 0)
      order.push_back(i);
  if (order.empty())
    return makeError(ErrorCode::Internal, "no copy baseline runs: {}",
                     times->front().error.message);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return (*times)[a].ns.median < (*times)[b].ns.median;
  });
  std::vector<Entry> sorted;
  for (size_t index : order)
    sorted.push_back(entries[index]);
  entries = std::move(sorted);
  return llvm::Error::success();
}

std::vector<TimedLaunch> CopyBaseline::finalists() const {
  std::vector<TimedLaunch> launches;
  for (const Entry &entry : llvm::ArrayRef(entries).take_front(kFinalists))
    launches.push_back(entry.launch);
  return launches;
}

llvm::Expected<BaselineResult>
CopyBaseline::result(llvm::ArrayRef<SampledTime> times) const {
  BaselineResult result;
  result.bytes = bytes;
  result.variants = entries.size();
  for (auto [i, time] : llvm::enumerate(times)) {
    if (time.error.code != ErrorCode::Success || time.ns.count == 0 ||
        (result.ns.count > 0 && time.ns.median >= result.ns.median))
      continue;
    result.ns = time.ns;
    result.variant = entries[i].name;
  }
  if (result.ns.count == 0)
    return makeError(ErrorCode::Internal, "the copy baseline: {}",
                     times.empty() ? "none" : times.front().error.message);
  return result;
}

//===----------------------------------------------------------------------===//
// Baselines of many cases
//===----------------------------------------------------------------------===//

llvm::Expected<const StreamTools *> CopyBaselines::kernelsOf(StreamMix mix) {
  auto known = loaded.find({mix.reads, mix.writes});
  if (known != loaded.end())
    return &known->second;
  auto kernels = StreamTools::load(driver, artifacts, device, mix);
  if (!kernels)
    return kernels.takeError();
  return &loaded.emplace(std::pair(mix.reads, mix.writes), std::move(*kernels))
              .first->second;
}

llvm::Expected<std::unique_ptr<CopyBaseline>>
CopyBaselines::make(const StreamBytes &bytes, const SamplingOptions &sampling,
                    CudaStream stream) {
  auto kernels = kernelsOf(bytes.mix());
  if (!kernels)
    return kernels.takeError();
  auto made = CopyBaseline::create(driver, tools, **kernels, bytes,
                                   sampling.copies, stream);
  if (!made)
    return made.takeError();
  if (llvm::Error error = (*made)->pickBest(stream, sampling))
    return error;
  return made;
}

} // namespace kiln::cli
