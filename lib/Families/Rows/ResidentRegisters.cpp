//===- ResidentRegisters.cpp ----------------------------------------------===//
#include "Families/Rows/ResidentRegisters.h"

#include "Model/MathUtil.h"
#include "Model/RegisterWall.h"

#include <algorithm>
#include <cmath>

namespace kiln {

/// Registers that hold the rows of a thread between load and store.
static int64_t keptRegisters(const RowSignature &signature,
                             const ResidentRowsConfig &config) {
  int64_t words = ceilDiv(config.vector * bytesOf(signature.in), 4);
  int64_t matrices = 1 + (signature.mask == RowMask::Matrix);
  return config.rows * config.vectors * words * matrices;
}

/// Registers that bounds, ends and addresses of a row take that does not fill
/// its threads: see workingRegisters().
static int64_t boundsRegisters(const RowSignature &signature,
                               const ResidentRowsConfig &config) {
  constexpr int64_t kBounds = 3, kEnds = 6, kEnd = 3, kManyKept = 32;
  constexpr int64_t kShared = 4, kAddresses = 3, kMostAddresses = 10;
  constexpr int64_t kManyShared = 5, kMostShared = 7;
  int64_t kept = keptRegisters(signature, config);
  int64_t held = config.vectors + config.sharedVectors;
  bool hasEnds = config.start != 0, isCluster = config.cluster > 1;
  int64_t registers = 0;
  if ((signature.op == RowOp::RmsNorm && !signature.quantizes() &&
       kept >= kManyKept && signature.in != DType::FP32) ||
      (isReduction(signature.op) && kept >= kManyKept) ||
      (signature.mask == RowMask::Matrix && kept > kManyKept))
    registers += kBounds;
  if (hasEnds) // several of them where lanes are few
    registers +=
        kEnds + kEnd * (ceilDiv(2 * config.vector, config.rowThreads) - 1);
  if (config.sharedVectors >= kManyShared)
    registers += kAddresses;
  if (isCluster) {
    registers += config.vectors + (signature.residual ? kBounds : 0);
    bool isTight = signature.in == DType::FP32 && hasEnds;
    if (isTight ||
        (config.sharedVectors > 0 && (hasEnds || signature.quantizes())))
      registers += kShared;
    if (hasEnds && config.sharedVectors >= kMostShared)
      registers += 3 * kShared;
  } else if (signature.op == RowOp::LayerNorm) {
    if (config.sharedVectors >= kMostShared)
      registers += 2 * kShared;
  } else {
    registers += config.vectors / 2;
    if (config.sharedVectors > 0)
      registers += std::min(held, kMostAddresses);
  }
  return registers;
}

/// Registers that a thread cannot do without between load and store: what it
/// keeps, and one vector as fp32 and packed with what is loaded beside it. The
/// least that no kernel spilled with (ptxas 13.0 for sm_90; 2 to 20 vectors, in
/// registers and shared memory, by one block and by clusters).
static int64_t workingRegisters(const RowSignature &signature,
                                const ResidentRowsConfig &config) {
  constexpr int64_t kBase = 14, kLeastUnpacked = 4, kMoments = 6, kPlain = 4;
  int64_t kept = keptRegisters(signature, config);
  int64_t held = config.vectors + config.sharedVectors;
  int64_t operands =
      signature.weight + signature.bias + (signature.mask == RowMask::Row);
  // Where each matrix lies elsewhere two vectors cover one.
  int64_t covering = config.rowStart() == RowStart::Any ? 2 : 1;
  int64_t shared =
      operands * covering * ceilDiv(config.vector * bytesOf(signature.in), 4);
  int64_t registers = kept + kBase + shared +
                      std::max<int64_t>(config.vector / 2, kLeastUnpacked);
  if (signature.op == RowOp::LayerNorm)
    registers += kMoments;
  else if (signature.op == RowOp::Quantize)
    registers -= kPlain;
  // Several rows have as many statistics, and scales.
  if (config.rows > 1)
    registers += config.rows * (signature.quantizes() ? 9 : 5) / 2;
  // The weights of both vectors wait for the statistics as well, as do weight
  // and bias.
  bool waits = signature.quantizes() ? operands > 0 && held <= 2
                                     : operands == 2 && held == 2;
  // A row that fills its threads asks for no bounds.
  if (config.exact)
    return registers + (waits && signature.quantizes() ? shared : 0);
  return registers + (waits ? shared : 0) + boundsRegisters(signature, config);
}

/// The same at its most: while a residual is in flight, it is there too. Older
/// architectures than sm_90 take a few more.
int64_t peakRegisters(const RowSignature &signature,
                      const ResidentRowsConfig &config,
                      const DeviceModel &device) {
  int64_t kept = keptRegisters(signature, config);
  // What covers vectors that lie anywhere is twice as much as these.
  int64_t loaded = config.rowStart() == RowStart::Any ? 2 * kept : kept;
  constexpr int64_t kBase = 14, kEnds = 8;
  int64_t loading = loaded * (1 + signature.residual) + kBase +
                    (config.start != 0 ? kEnds : 0) +
                    (config.cluster > 1 ? kEnds : 0);
  constexpr int64_t kOlder = 8;
  return std::max(workingRegisters(signature, config), loading) +
         (device.ccMajor < 9 ? kOlder : 0);
}

/// Registers that the compiler takes where nothing limits it: half of what it
/// keeps it unpacks ahead, and each vector of shared memory takes 3.7 (ptxas
/// 13.0 for sm_90, 420 kernels of all ops, most of them within 8 of this).
int64_t wantedRegisters(const RowSignature &signature,
                        const ResidentRowsConfig &config,
                        const DeviceModel &device) {
  constexpr double kMasked = 1.2, kOfShared = 3.7;
  double base = 24, each = 1.6;
  switch (signature.op) {
  case RowOp::LayerNorm:
    base = 36;
    each = 1.55;
    break;
  case RowOp::Softmax:
    base = 22;
    break;
  case RowOp::Quantize:
    base = 20;
    each = 1.4;
    break;
  case RowOp::RmsNorm:
    break;
  default: // reductions
    base = 20;
    each = 1.1;
  }
  if (signature.mask == RowMask::Matrix)
    each = kMasked;
  // Layer norms of rows that begin anywhere, or that clusters share.
  constexpr double kMoments = 8;
  if (signature.op == RowOp::LayerNorm &&
      (config.start != 0 || config.cluster > 1))
    base += kMoments;
  double wanted = base +
                  each * static_cast<double>(keptRegisters(signature, config)) +
                  kOfShared * config.sharedVectors;
  return std::max<int64_t>(roundUp(static_cast<int64_t>(std::ceil(wanted)), 8),
                           peakRegisters(signature, config, device));
}

int64_t boundRegisters(const ResidentRowsConfig &config,
                       const DeviceModel &device) {
  return registerLimit(device, config.blockThreads, config.minBlocks());
}

} // namespace kiln
