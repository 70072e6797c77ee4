//===- ResidentRegisters.cpp ----------------------------------------------===//
#include "Families/Rows/ResidentRegisters.h"

#include "Families/Rows/RowCosts.h"
#include "Model/MathUtil.h"
#include "Model/RegisterWall.h"

#include <algorithm>
#include <cmath>

namespace kiln {

/// Registers that hold the rows of a thread as loaded.
static int64_t loadedRegisters(const RowSignature &signature,
                               const ResidentRowsConfig &config) {
  int64_t words = ceilDiv(config.vector * bytesOf(signature.in), 4);
  int64_t matrices = 1 + signature.matrices();
  return config.rows * config.vectors * words * matrices;
}

int64_t keptRegisters(const RowSignature &signature,
                      const ResidentRowsConfig &config) {
  if (config.unpacked)
    return int64_t(config.rows) * config.vectors * config.vector;
  return loadedRegisters(signature, config);
}

/// Registers for a lane's ends after its first one, where lanes are few.
static int64_t severalEndsRegisters(const ResidentRowsConfig &config) {
  constexpr int64_t kEnd = 3, kBounds = 10;
  int64_t rounds = ceilDiv(2 * config.vector, config.rowThreads);
  return rounds > 1 ? kEnd * (rounds - 1) + kBounds : 0;
}

/// Registers for ends, and for vectors that are shifted.
static int64_t endRegisters(const RowSignature &signature,
                            const ResidentRowsConfig &config) {
  constexpr int64_t kEnds = 6, kManyKept = 16, kMore = 2, kAhead = 4;
  const int64_t kept = keptRegisters(signature, config);
  int64_t registers = kEnds + severalEndsRegisters(config);
  if (kept > kManyKept)
    registers += kMore;
  // Vectors in one basic block are loaded ahead of each other.
  bool isLayerNorm = signature.op == RowOp::LayerNorm;
  // Layer norms that fill their rows load four or five vectors of bf16 ahead of
  // the moments (ptxas 13.0 for sm_90, 700 kernels).
  constexpr int kFour = 4, kFive = 5, kAheadOfMoments = 7;
  const bool isAheadOfMoments =
      (config.vectors == kFour && signature.in == DType::BF16) ||
      (config.vectors == kFive && config.cluster == 1);
  if (config.exact == 2 && (!isLayerNorm || signature.residual))
    registers += kAhead;
  else if (config.exact == 2 && config.sharedVectors == 0 && isAheadOfMoments)
    registers += kAheadOfMoments;
  if (config.sharedVectors > 0)
    registers += kMore;
  // The greatest result is searched for in shifted vectors as well, or is known
  // with the statistics.
  constexpr int64_t kTwice = 12, kAtOnce = 6;
  if (isLayerNorm && signature.quantizes())
    registers += kTwice + kAhead * (config.rows - 1);
  else if (signature.preparesWithRow() ||
           (signature.op == RowOp::RmsNorm && signature.quantizes()))
    registers += kAtOnce;
  if (isLayerNorm && config.sharedVectors == 0)
    registers += kMore;
  constexpr int64_t kManyOfSoftmax = 24, kExponentials = 10;
  if (signature.op == RowOp::Softmax && config.sharedVectors > 0 &&
      kept >= kManyOfSoftmax)
    registers += kExponentials;
  return registers;
}

/// Registers for rows that are kept unpacked: the rows, their scaling and one
/// vector. Fitted as below, to 1100 more configs.
static int64_t unpackedRegisters(const RowSignature &signature,
                                 const ResidentRowsConfig &config) {
  constexpr int64_t kScaling = 16;
  int64_t registers = keptRegisters(signature, config) + kScaling;
  if (config.start != 0)
    registers += severalEndsRegisters(config);
  if (signature.op == RowOp::Softmax) {
    constexpr int64_t kMaskOfRow = 8;
    if (signature.mask == RowMask::Matrix)
      registers += kMaskOfRow * (config.rows - 1);
    if (signature.mask == RowMask::Row)
      registers += 2 * ceilDiv(config.vector * bytesOf(signature.in), 4);
    return registers;
  }
  if (signature.chain.size() > 0)
    registers += resultRegisters(signature, config.vector, config.rowThreads,
                                 config.rows);
  constexpr int64_t kBounds = 4, kVectorMore = 8, kFew = 3, kFewOfWarp = 4;
  constexpr int64_t kMany = 5;
  const bool isWide = signature.in == DType::FP32;
  if (config.start == 0) {
    registers += (config.rows - 1) * kBounds;
    if (isWide)
      return registers + kVectorMore + (signature.residual ? kBounds : 0);
    bool isFew = config.vectors <=
                 (config.rowThreads <= kWarpThreads ? kFewOfWarp : kFew);
    bool isPartOfWarp =
        config.vectors > kMany && config.rowThreads < kWarpThreads;
    return registers +
           (isFew || isPartOfWarp || config.cluster > 1 ? kBounds : 0);
  }
  registers += kBounds;
  if (config.vectors == 1)
    return registers + (config.rows > 1 ? kVectorMore : 0);
  bool isAlike = config.rowStart() == RowStart::Alike;
  if (isAlike && (config.rows > 1 || signature.residual || isWide))
    registers += kVectorMore;
  // The weights of two vectors are loaded before the row.
  if (config.vectors == 2 && (isWide || !(isAlike && signature.residual)))
    registers += kVectorMore;
  return registers;
}

/// The registers that a thread needs between load and store: the kept rows, and
/// one vector as fp32 and packed with the operands loaded beside it. It is the
/// least number with which no kernel spilled (ptxas 13.0 for sm_90; 600 configs
/// of norms, softmax and quantisations, in registers and shared memory, by
/// parts of a warp up to clusters).
static int64_t workingRegisters(const RowSignature &signature,
                                const ResidentRowsConfig &config) {
  if (config.unpacked)
    return unpackedRegisters(signature, config);
  constexpr int64_t kBase = 14, kLeastUnpacked = 4, kMoments = 8, kPlain = 4;
  const int64_t kept = keptRegisters(signature, config);
  const int64_t words = ceilDiv(config.vector * bytesOf(signature.in), 4);
  const bool hasMask = signature.matrices() > 0;
  int64_t operands = signature.sharedRows();
  // If each matrix has another alignment, two vectors cover one.
  int64_t covering = config.rowStart() == RowStart::Any ? 2 : 1;
  int64_t shared = operands * covering * words;
  int64_t registers =
      kept + kBase + shared +
      std::max<int64_t>(config.vector / 2, kLeastUnpacked) +
      resultRegisters(signature, config.vector, config.rowThreads, config.rows);
  bool isLayerNorm = signature.op == RowOp::LayerNorm;
  if (isLayerNorm)
    registers += kMoments + (signature.quantizes() ? kPlain : 0);
  else if (signature.op == RowOp::Quantize && config.sharedVectors == 0)
    registers -= kPlain;
  // With three vectors of fp16 the first two are unpacked ahead (48 registers
  // spill 72 bytes; bf16 spills none).
  constexpr int kPairAndOne = 3, kPairAhead = 3;
  if (isLayerNorm && signature.in == DType::FP16 && config.start == 0 &&
      config.vectors + config.sharedVectors == kPairAndOne &&
      (config.exact == 0 || config.rowThreads < kWarpThreads))
    registers += kPairAhead;
  // Further rows have statistics and scales of their own.
  constexpr int64_t kScaled = 5, kFew = 2;
  int64_t ofRow = isLayerNorm ? kMoments : signature.quantizes() ? kScaled : 0;
  registers += (config.rows - 1) * ofRow;
  const int64_t vectors = config.vectors + config.sharedVectors;
  if (signature.op == RowOp::RmsNorm && signature.quantizes() &&
      vectors <= kFew)
    registers += operands * (words * vectors - kFew);
  // A row that fills its threads needs no bounds. A kept rms norm is still
  // unpacked ahead.
  constexpr int64_t kAheadOfRms = 9;
  if (config.exact == 1) {
    if (signature.op == RowOp::RmsNorm && !signature.residual)
      registers += kAheadOfRms;
    return registers;
  }
  // Vectors come from shared memory ahead of their weights.
  constexpr int64_t kFewKept = 20, kWeightedAhead = 4;
  if (config.sharedVectors > 0 && kept <= kFewKept &&
      signature.scalesAtOnce() && (config.exact == 2 || config.cluster > 1))
    registers += kWeightedAhead;
  constexpr int64_t kManyShared = 5, kAddresses = 3, kManyKept = 32;
  constexpr int64_t kBounds = 3, kWindow = 4;
  // Weight and bias of both vectors wait for the statistics as well.
  if (operands == 2 && vectors == kFew)
    registers += shared;
  if ((signature.op == RowOp::RmsNorm && !signature.quantizes() &&
       kept >= kManyKept && signature.in != DType::FP32) ||
      (hasMask && kept > kManyKept))
    registers += kBounds;
  // Each element of row and mask has a load behind a branch.
  constexpr int64_t kManyNarrow = 4, kTwoLoads = 7;
  if (hasMask && config.vector == 1 && config.vectors >= kManyNarrow)
    registers += kTwoLoads;
  if (config.start != 0)
    registers += endRegisters(signature, config);
  if (config.cluster > 1)
    registers += kFew + (signature.residual ? kBounds : 0);
  constexpr int64_t kMostShared = 7, kUnpacked = 8;
  if (signature.op == RowOp::Softmax && config.cluster == 1 &&
      config.sharedVectors > kMostShared)
    registers += kUnpacked;
  // Vectors are processed one after the other, each behind a branch.
  if (config.exact == 0)
    registers += 2 * std::max(0, config.vectors - config.sharedVectors - 4);
  return registers + (config.sharedVectors > 0 ? kWindow : 0) +
         (config.sharedVectors >= kManyShared ? kAddresses : 0);
}

/// The registers at their peak: while a residual is in flight, it needs
/// registers, too. Architectures older than sm_90 take a few more.
int64_t peakRegisters(const RowSignature &signature,
                      const ResidentRowsConfig &config,
                      const DeviceModel &device) {
  int64_t loaded = loadedRegisters(signature, config);
  // Covering vectors are twice as many.
  if (config.rowStart() == RowStart::Any)
    loaded *= 2;
  constexpr int64_t kBase = 14, kEnds = 8;
  int64_t loading = loaded * (1 + signature.residual) + kBase +
                    (config.start != 0 ? kEnds : 0) +
                    (config.cluster > 1 ? kEnds : 0);
  // Sums are stored while other vectors are loaded.
  constexpr int64_t kSums = 4;
  if (signature.residual && config.rowStart() == RowStart::Alike &&
      (signature.in == DType::FP32 || signature.quantizes()))
    loading += kSums;
  constexpr int64_t kOlder = 8;
  return std::max(workingRegisters(signature, config), loading) +
         (device.ccMajor < 9 ? kOlder : 0);
}

/// Registers that the compiler takes without a limit: it unpacks half of the
/// kept rows ahead, and each vector of shared memory takes 3.7 (ptxas 13.0 for
/// sm_90, 420 kernels of all ops, most of them within 8 of this).
int64_t wantedRegisters(const RowSignature &signature,
                        const ResidentRowsConfig &config,
                        const DeviceModel &device) {
  constexpr double kMasked = 1.2, kOfShared = 3.7;
  constexpr int64_t kScaling = 20;
  if (config.unpacked)
    return std::max(roundUp(keptRegisters(signature, config) + kScaling, 8),
                    peakRegisters(signature, config, device));
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
  if (signature.matrices() > 0)
    each = kMasked;
  // Layer norms whose rows begin anywhere, or are shared by clusters.
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
