//===- gemm/Sm90PackedConfig.h - knobs of wgmma on packed weights ---------===//
#pragma once

#include "common/PackedWeights.h"
#include "gemm/Sm90GemmConfig.h"

namespace kiln {

/// W4A16 and W8A16 by wgmma on packed weights (common/PackedWeights.h), sm_90a.
/// A tile has `rows` rows of the weight, wgmma's 64 rows an instruction, and
/// `vectors` rows of A, its columns. One producer feeds a ring of `stages` of
/// blockK steps of k; `consumers` warpgroups decode and multiply.
///
/// All parts except the products are those of Sm90GemmConfig with exchanged
/// sides, as frame() describes it.
struct Sm90PackedConfig {
  int rows = 128, vectors = 64;
  int blockK = 128;
  int stages = 6;
  int consumers = 2;
  int kShared = 0;     ///< 1: the two consumers alternate along k; else
                       ///< they divide the rows
  int splits = 0;      ///< blocks that share a tile's k, all at once; 0: one
  int staging = 0;     ///< as Sm90GemmConfig's, 0 or 1
  int rasterGroup = 8; ///< run-time value
  int hints = 0;       ///< run-time value; 1: weights leave L2 first, A stays
  int tilesFirst = 0;  ///< run-time value; as Sm90GemmConfig's

  static constexpr const char *kName = "packed90";
  static constexpr bool kTakesPacked = true; ///< for GemmTemplate.h
  static constexpr bool kTakesGroups = true; ///< likewise

  template <class F> static constexpr void forEachField(F &&f) {
    f("r", "rows", &Sm90PackedConfig::rows, 128);
    f("v", "vectors", &Sm90PackedConfig::vectors, 64);
    f("bk", "blockK", &Sm90PackedConfig::blockK, 128);
    f("st", "stages", &Sm90PackedConfig::stages, 6);
    f("wg", "consumers", &Sm90PackedConfig::consumers, 2);
    f("ks", "kShared", &Sm90PackedConfig::kShared, 0);
    f("sk", "splits", &Sm90PackedConfig::splits, 0);
    f("sg", "staging", &Sm90PackedConfig::staging, 0);
  }
  template <class F> static constexpr void forEachRuntimeField(F &&f) {
    f("rg", "rasterGroup", &Sm90PackedConfig::rasterGroup, 8);
    f("hi", "hints", &Sm90PackedConfig::hints, 0);
    f("tf", "tilesFirst", &Sm90PackedConfig::tilesFirst, 0);
  }

  /// Tiles, ring, splits and epilogue. Consumers that alternate along k also
  /// store in turns, as with pingPong.
  constexpr Sm90GemmConfig frame() const {
    Sm90GemmConfig frame;
    frame.blockM = vectors;
    frame.blockN = rows;
    frame.blockK = blockK;
    frame.stages = stages;
    frame.consumers = consumers;
    frame.pingPong = kShared;
    frame.swapAB = 1;
    frame.splits = splits;
    frame.staging = staging;
    frame.rasterGroup = rasterGroup;
    frame.hints = hints;
    frame.tilesFirst = tilesFirst;
    return frame;
  }

  constexpr int threads() const { return frame().threads(); }
  constexpr int minBlocks() const { return 1; }
  /// A producer with so many kinds of copies needs more registers than the
  /// frame's.
  constexpr int producerRegisters() const { return 56; }
  constexpr int consumerRegisters() const { return consumers > 2 ? 152 : 224; }
  constexpr int splitK() const { return splits > 1 ? splits : 1; }
  /// Units of 64 rows that one consumer has.
  constexpr int units() const { return frame().units(); }
  constexpr int accumulators() const { return units() * vectors / 2; }

  /// Groups of k in a stage, at least one.
  constexpr int groups(const GemmSignature &signature) const {
    return signature.groupB ? blockK / signature.groupB : 1;
  }
  /// Steps of k that one unit multiplies at a time: a quantisation group, whose
  /// sums are then scaled, or a block of weights.
  static constexpr int runDepth(const GemmSignature &signature) {
    return signature.groupB ? signature.groupB : PackedWeights::kDepth;
  }
  /// Sets of sums of quantisation groups. With two sets, the sums of one are
  /// scaled while the products of the next run. Wide tiles have no registers
  /// for two, and in narrow tiles the scaling is short; and between short
  /// groups ptxas (13.0) would wait for each product.
  constexpr int partialSets(const GemmSignature &signature) const {
    constexpr int kNarrow = 16, kWide = 64, kLong = 128;
    if (!signature.groupB)
      return 0;
    bool isEven = groups(signature) * units() % 2 == 0;
    bool isWorthIt = vectors > kNarrow && signature.groupB == kLong;
    return isWorthIt && vectors <= kWide && isEven ? 2 : 1;
  }
  /// Pairs of products that are in flight or being decoded; their fragments are
  /// in registers.
  constexpr int fragmentSets() const { return 2; }
  /// Registers of a consumer's thread for the products.
  constexpr int productRegisters(const GemmSignature &signature) const {
    constexpr int kPair = 8, kOfUnit = 4;
    // Scales and zero points of rows are kept to the end.
    int ofRows = signature.groupB ? 0 : units() * kOfUnit;
    return ofRows + accumulators() + partialSets(signature) * vectors / 2 +
           fragmentSets() * kPair + (units() - 1) * kOfUnit +
           2 * bitsOf(signature.typeB()); // words of 64 k, twice
  }

  constexpr int sharedBytes(const GemmSignature &signature) const {
    return frame().sharedBytes(signature);
  }

  constexpr bool isValid(const GemmSignature &signature) const {
    if (!signature.isWellFormed() || !signature.isPacked())
      return false;
    if (consumers < 1 || consumers > 3 || kShared > 1 ||
        (kShared && consumers != 2) || stages < 2 + kShared || stages > 16)
      return false;
    // Consumers that alternate have one unit each, of the same rows.
    constexpr int kUnit = Sm90GemmConfig::kUnit, kMostRows = 256;
    if (rows < kUnit || rows > kMostRows ||
        (kShared ? rows != kUnit : rows % (kUnit * consumers) != 0))
      return false;
    if (vectors < 8 || vectors > 256 || vectors % 8 != 0)
      return false;
    if ((blockK != 128 && blockK != 256) || splits < 0 || splits == 1 ||
        rasterGroup < 1 || hints > 1 || staging > 1 || tilesFirst > 1 ||
        (tilesFirst && splitK() == 1))
      return false;
    // The number of tiles is not known ahead.
    if (signature.hasGroups() && splitK() > 1)
      return false;
    if (staging == 1 && frame().fetchedOperands(signature) > 0)
      return false;
    // Splits divide a tile by pieces; joined columns have pieces of 32 sums.
    int piece = signature.columnsPerOutput() == 2 ? 32 : 16;
    if (splitK() > 1 && vectors > Sm90GemmConfig::kUnit && vectors % piece != 0)
      return false;
    if (splitK() > 1 && piece == 32 && vectors % piece != 0)
      return false;
    if (frame().pieceColumns(signature) > Sm90GemmConfig::kMostPiece)
      return false;
    return accumulators() <= frame().mostSums(signature);
  }

  // These make up a grid.
  constexpr long long blocks(long long m, long long n, long long batch) const {
    return frame().blocks(m, n, batch);
  }
  constexpr long long zeroedBytes(long long m, long long n,
                                  long long batch) const {
    return frame().zeroedBytes(m, n, batch);
  }
  constexpr long long partialBytes(long long, long long, long long) const {
    return 0;
  }

  friend constexpr bool operator==(const Sm90PackedConfig &,
                                   const Sm90PackedConfig &) = default;
};

} // namespace kiln
