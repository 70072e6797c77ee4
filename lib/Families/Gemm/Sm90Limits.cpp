//===- Sm90Limits.cpp - the walls of the wgmma GEMM -----------------------===//
#include "Families/Gemm/Sm90Limits.h"

#include "Families/Gemm/ByteRates.h"
#include "Families/Gemm/Sm90Repack.h"
#include "Families/LaunchLimits.h"
#include "Model/MathUtil.h"

#include <algorithm>

namespace kiln {

// Beyond these, most kernels that ptxas 13.0 compiled spilled.
int mostAccumulators(const GemmSignature &signature,
                     const Sm90GemmConfig &config) {
  const PointwiseChain &chain = signature.pointwise;
  bool isThree = config.consumers > 2;
  int most = config.mostSums(signature);
  auto limit = [&](bool holds, int sumsOfTwo, int sumsOfThree) {
    if (holds)
      most = std::min(most, isThree ? sumsOfThree : sumsOfTwo);
  };
  bool isWide = signature.out == DType::FP32;
  bool shifts = !config.storesByTma(signature);
  bool hasResidual = chain.contains(PointwiseOp::Residual);
  bool hasMatrix = signature.readsC || hasResidual;
  bool hasChain = signature.readsC || chain.size() > 0;
  bool hasErf = chain.contains(PointwiseOp::GeluErf);
  bool hasActivation = hasErf || chain.contains(PointwiseOp::GeluTanh) ||
                       chain.contains(PointwiseOp::Silu);
  limit(isWide && hasChain, 160, 96);
  limit(signature.columnsPerOutput() == 2, 160, 88);
  limit(hasMatrix && hasActivation, 176, 96);
  limit(signature.readsC && hasResidual, 176, 88);
  limit(hasErf, 192, 80);
  limit(hasErf && config.swapAB, 128, 72);
  limit(hasErf && !chain.contains(PointwiseOp::Bias),
        config.pingPong ? 96 : 120, 72);
  limit(shifts && config.pingPong && !config.swapAB, 160, 100);
  limit(shifts && hasMatrix, 160, config.swapAB ? 80 : 88);
  limit(config.columnShared && hasActivation, hasErf ? 128 : 160, 96);
  if (config.swapAB && isWide) {
    limit(true, 160, 96);
    limit(hasActivation, 152, 92);
    limit(hasMatrix, 128, 88);
    limit(signature.readsC && hasResidual, 112, 72);
  }
  if (config.splitK() > 1) {
    limit(true, 128, 88);
    limit(signature.columnsPerOutput() == 2, 112, 56);
    limit(shifts && hasChain, 112, 88);
  }
  // Two sets of what two wgmmas read.
  if (config.rowsFromRegisters(signature)) {
    limit(hasMatrix, 144, 96);
    most -= isThree ? 4 : 16 * config.units();
  }
  return most;
}

/// The columns of a part of promoted sums that fit beside block scales: ptxas
/// 13.0 spilled wider ones of some layouts or numbers of splits.
static int mostScaledColumns(const Sm90GemmConfig &config) {
  const bool isSplit = config.splitK() > 1;
  if (config.consumers > 2)
    return isSplit ? 56 : 72;
  return isSplit ? 88 : 104;
}

/// Checks the registers of a product with promoted sums.
static std::optional<Rejection> checkPromotion(const GemmSignature &signature,
                                               const Sm90GemmConfig &config) {
  if (config.promotedParts(signature) == 0)
    return Rejection{PruneReason::Registers,
                     double(config.accumulators() + config.promotedSums(4)),
                     double(mostAccumulators(signature, config)),
                     "sums a thread, promoted"};
  if (!signature.hasBlockScales())
    return std::nullopt;
  const int columns = config.promotedColumns(signature),
            mostColumns = mostScaledColumns(config);
  if (columns > mostColumns)
    return Rejection{PruneReason::Registers, double(columns),
                     double(mostColumns), "columns a part, block scales"};
  const int mostSplitSums = config.consumers > 2 ? 112 : 160;
  if (config.splitK() > 1 && config.sums(signature) > mostSplitSums)
    return Rejection{PruneReason::Registers, double(config.sums(signature)),
                     double(mostSplitSums), "sums a thread, block scales"};
  return std::nullopt;
}

/// The columns that one consumer may have, in steps of \p step.
static llvm::StringRef columnsInStepsOf(int step, bool swapAB) {
  switch (step) {
  case 8:
    return swapAB ? "8 to 256 in steps of 8" : "16 to 256 in steps of 8";
  case 16:
    return "16 to 256 in steps of 16";
  case 32:
    return "32 to 256 in steps of 32";
  default:
    return "64 to 256 in steps of 64";
  }
}

/// Names the value of an invalid config that the instruction does not take.
static Rejection invalidShape(const GemmSignature &signature,
                              const Sm90GemmConfig &config) {
  auto shape = [](int value, llvm::StringRef unit, llvm::StringRef allowed) {
    return Rejection{PruneReason::InstructionShape, double(value), 0, unit,
                     allowed};
  };
  int slab = Sm90GemmConfig::slabElements(signature);
  if (config.blockK != slab && config.blockK != 2 * slab)
    return shape(config.blockK, "elements of k a stage",
                 slab == 128  ? "128 or 256"
                 : slab == 64 ? "64 or 128"
                              : "32 or 64");
  if (config.stages < 2 || config.stages > 16)
    return shape(config.stages, "stages", "2 to 16");
  if (config.consumers > 3)
    return shape(config.consumers, "consumers", "1 to 3");
  if (config.pingPong && config.consumers != 2)
    return shape(config.consumers, "consumers", "2 with turns");
  if (config.multicastBlocks() > 2)
    return shape(config.multicastBlocks(), "blocks a cluster", "1 or 2");
  if (signature.hasZeroPointsA() && config.splitK() > 1)
    return shape(config.splits, "splits", "0 with zero points of A");
  if (config.columnShared &&
      (config.consumers < 2 || config.pingPong || config.splitK() > 1))
    return shape(config.columnShared, "columnShared",
                 "0 with one consumer, turns or splits");
  int sharers = config.rowSharers();
  if (config.rows() > config.mostRows() ||
      config.rows() % (Sm90GemmConfig::kUnit * sharers) != 0)
    return shape(config.rows(), "rows",
                 config.columnShared ? "64 to 384 in steps of 64"
                 : sharers > 2       ? "192"
                 : sharers > 1       ? "128 or 256"
                                     : "64 to 256 in steps of 64");
  if (config.columns() > 256)
    return shape(config.columns(), "columns", "up to 256");
  int step = config.columnStep(signature) / config.columnSharers();
  if (config.columns() % config.columnSharers() != 0 ||
      config.consumerColumns() % step != 0 ||
      config.consumerColumns() < (config.swapAB ? 8 : step))
    return shape(config.consumerColumns(), "columns a consumer",
                 columnsInStepsOf(step, config.swapAB));
  if (config.pieceColumns(signature) > Sm90GemmConfig::kMostPiece)
    return shape(config.consumerColumns(), "columns a consumer",
                 "those that pieces of up to 128 divide");
  if (config.staging != 0 && config.fetchedOperands(signature) > 0)
    return shape(config.staging, "staging",
                 "0 where C or a residual comes in by TMA");
  if (config.staging > 1)
    return shape(config.staging, "staging",
                 "0 or 1 with turns, splits, clusters or a short ring");
  return Rejection{PruneReason::InstructionShape};
}

std::optional<Rejection> checkTensorMaps(const GemmProblem &problem,
                                         const GemmSignature &signature) {
  // A box that begins with the last element ends behind it.
  constexpr double kMostBox = 256;
  if (auto rejection =
          checkTmaExtent(double(std::max({problem.room, problem.n, problem.k})),
                         "elements", kMostBox))
    return rejection;
  double in = bytesOf(signature.in), out = bytesOf(signature.out);
  double rowsA = problem.rowsA(), rowsB = problem.rowsB(), rowsD = problem.room;
  if (problem.batch == 1)
    rowsA = rowsB = rowsD = 1;
  return checkTmaStrides({in * problem.lda * rowsA, in * problem.ldb * rowsB,
                          out * problem.ldd * rowsD, out * problem.ldc * rowsD,
                          out * problem.ldResidual * rowsD});
}

std::optional<Rejection> checkSplitWork(const GemmProblem &problem,
                                        const Sm90GemmConfig &config) {
  const int64_t ranges = ceilDiv(problem.k, config.blockK);
  if (ranges >= config.splitK())
    return std::nullopt;
  return Rejection{PruneReason::Dominated, double(config.splitK()),
                   double(ranges), "splits"};
}

std::optional<Rejection> checkSplitsRun(const Sm90GemmConfig &config,
                                        const DeviceModel &device) {
  if (config.splitK() <= device.smCount)
    return std::nullopt;
  return Rejection{PruneReason::Grid, double(config.splitK()),
                   double(device.smCount), "splits"};
}

std::optional<Rejection> checkRepack(const GemmProblem &problem,
                                     const GemmSignature &signature,
                                     const Sm90GemmConfig &config) {
  const double bytes = double(repackBytes(problem, signature, config));
  if (bytes <= kMaxRepackBytes)
    return std::nullopt;
  return Rejection{PruneReason::Workspace, bytes, kMaxRepackBytes, "B"};
}

std::optional<Rejection> checkSm90Limits(const GemmProblem &problem,
                                         const GemmSignature &signature,
                                         const Sm90GemmConfig &config,
                                         const DeviceModel &device) {
  if (auto rejection = checkWgmma(device))
    return rejection;
  if (!Sm90GemmConfig::hasInstruction(signature))
    return Rejection{PruneReason::Type};
  if (auto rejection = checkRate(
          device, tensorRateOf(rateTypeOf(signature.in, signature.compute))))
    return rejection;
  // A copy of A has as many rows as a launch has room for, which its plan does
  // not know.
  constexpr int kAligned = 16;
  if (signature.groups == GroupKind::Masked && signature.alignA < kAligned)
    return Rejection{PruneReason::Alignment, double(signature.alignA), kAligned,
                     "B of A's rows"};
  // The first wall, ahead of what else may be wrong with so large a tile.
  int accumulators = mostAccumulators(signature, config);
  if (config.accumulators() > accumulators)
    return Rejection{PruneReason::Registers, double(config.accumulators()),
                     double(accumulators), "accumulators a thread"};
  if (signature.isPromoted())
    if (auto rejection = checkPromotion(signature, config))
      return rejection;
  if (!config.isValid(signature))
    return invalidShape(signature, config);
  int64_t ranges = ceilDiv(problem.k, config.blockK);
  // Splits have whole stages.
  int64_t ownK = std::min(problem.k, ceilDiv(ranges, config.splitK()) *
                                         int64_t(config.blockK));
  const int64_t mostProducts = mostInt8Products(signature);
  if (signature.in == DType::INT8 && ownK > mostProducts)
    return Rejection{PruneReason::Registers, double(ownK), double(mostProducts),
                     "products a sum of int32"};
  if (auto rejection = checkSplitWork(problem, config))
    return rejection;
  if (config.multicastBlocks() > 1 &&
      device.maxClusters(config.multicastBlocks()) == 0)
    return Rejection{PruneReason::Cluster, double(config.multicastBlocks())};
  // A further tile of the block would wait for the stores of the one before it,
  // which lie in its ring (4304 x 1152 at m = 1758, H200: 33 us, by one buffer
  // beside the ring 28).
  const int64_t tiles =
      config.tilesM(problem.m) * config.tilesN(problem.n) * problem.batch;
  if (config.stagesInRing() && !signature.hasGroups() && tiles > device.smCount)
    return Rejection{PruneReason::Dominated, double(tiles),
                     double(device.smCount), "tiles"};
  if (auto rejection = checkSplitsRun(config, device))
    return rejection;
  if (auto rejection = checkTensorMaps(problem, signature))
    return rejection;
  if (auto rejection = checkBlockScales(problem))
    return rejection;
  return checkRepack(problem, signature, config);
}

} // namespace kiln
