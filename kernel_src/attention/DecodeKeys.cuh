//===- attention/DecodeKeys.cuh - a warp's ring of keys and values --------===//
//
// Each warp copies the tiles that it will multiply into stages of its own and
// waits for its own copies alone: there is no barrier of the block and no
// producer warp. Rows behind the last key become zeros, because the memory
// there may hold NaN, and 0 * NaN is NaN.
//
// Copies are as wide as addresses and rows allow: 16, 8 or 4 bytes. In shared
// memory all rows are whole chunks of 16 bytes; the last chunk is filled up
// with zeros.
//
// With a paged KV cache every row has its own address. A lane looks up one row
// of the tile after the one that it copies, which hides the latency of the
// table; shuffles give the copies their addresses. So any page size works.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionRanges.h"
#include "attention/DecodeAttentionConfig.h"
#include "common/PtxSm90.cuh"

namespace kiln {

/// Copies the rows of a tile of K or V with one warp, in pieces of kBytes.
template <int kElements, DType kType, int kTile, int kBytes>
struct DecodeTileCopy {
  static constexpr int kPieces =
      DecodeAttentionConfig::chunks(kElements, kType) * 16 /
      kBytes; ///< of a row, padded
  static constexpr int kFilled = kElements * bytesOf(kType) / kBytes;
  static constexpr int kPitch = DecodeAttentionConfig::pitch(kElements, kType);
  static constexpr int kLanes =
      DecodeAttentionConfig::copyLanes(kElements, kType, kBytes); ///< on a row
  static constexpr int kParts = (kPieces + kLanes - 1) / kLanes;
  static constexpr int kRows = 32 / kLanes; ///< copied at once
  static constexpr int kCopies = kTile / kRows;
  static_assert(kTile % kRows == 0, "a warp's copies leave the tile");
  static_assert(
      kParts == 1 ||
          kLanes * kBytes %
                  (DecodeAttentionConfig::swizzleBits(kElements, kType) * 16 +
                   16) ==
              0,
      "parts of a row are permuted unlike each other");

  static int row() { return threadIdx.x % 32 / kLanes; }
  static int piece() { return threadIdx.x % kLanes; }
  /// Where this lane's part of the tile begins.
  static unsigned offset() {
    constexpr int kOfChunk = 16 / kBytes;
    return DecodeAttentionConfig::chunkOffset(kElements, kType, row(),
                                              piece() / kOfChunk) +
           piece() % kOfChunk * kBytes;
  }

  /// Copies this lane's part of row row() + copy * kRows to a tile in which the
  /// lane's part begins at \p shared.
  static void copyRow(unsigned shared, const char *source, int copy,
                      bool inside, unsigned long long policy) {
    // The first row of a copy is a multiple of kRows: the phases of its rows
    // differ from those of the first copy by an XOR.
    shared ^= DecodeAttentionConfig::phase(kElements, kType, copy * kRows) * 16;
    shared += copy * kRows * kPitch;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      bool exists = inside;
      if (part * kLanes + kLanes > kFilled)
        exists = inside && part * kLanes + piece() < kFilled;
      constexpr int kStep = kLanes * kBytes;
      if constexpr (kBytes == 16) {
        if (part * kLanes + kLanes <= kPieces ||
            part * kLanes + piece() < kPieces)
          ptx::cpAsyncOrZero16(shared + part * kStep, source + part * kStep,
                               exists, policy);
      } else
        ptx::cpAsyncOrZero<kBytes>(shared + part * kStep, source + part * kStep,
                                   exists, part * kLanes + piece() < kPieces);
    }
  }
};

/// The ring of one warp, or of several warps that share the columns of O. The
/// rings of a block take the tiles of a range of keys in turn.
template <AttentionSignature kSignature, DecodeAttentionConfig kConfig>
class DecodeRing {
  static constexpr int kTile = kConfig.tile;
  static constexpr int kStep = kConfig.rings() * kTile; ///< keys between tiles
  static constexpr int kParts = kConfig.partCount();
  static constexpr int kBytes = bytesOf(kSignature.kv);
  static constexpr bool kPaged = kSignature.pages != AttentionPages::None;
  static constexpr int kCopyBytes =
      DecodeAttentionConfig::copyBytes(kSignature);
  using KeyCopy =
      DecodeTileCopy<kSignature.headDim, kSignature.kv, kTile, kCopyBytes>;
  using ValueCopy =
      DecodeTileCopy<kSignature.valueDim, kSignature.kv, kTile, kCopyBytes>;

public:
  /// Ring \p number, in the memory from \p shared on. This warp makes the
  /// \p part-th of every kParts copies of a tile.
  DecodeRing(const AttentionParams &params, int sequence,
             AttentionTokens tokens, int kvHead, AttentionRange range,
             int number, int part, unsigned shared)
      : params(params), ring(shared), next(range.begin + number * kTile),
        end(range.end), number(number), part(part),
        policy(ptx::createPolicyEvictFirst()) {
    keys = static_cast<const char *>(params.k) + KeyCopy::piece() * kCopyBytes +
           params.kStrides.head * kvHead * kBytes;
    values = static_cast<const char *>(params.v) +
             ValueCopy::piece() * kCopyBytes +
             params.vStrides.head * kvHead * kBytes;
    if constexpr (kPaged) {
      if constexpr (kSignature.pages == AttentionPages::List)
        table = params.pageTable + params.pageOffsets[sequence];
      else
        table = params.pageTable + sequence * params.pageTableStride;
      if (range.size() > 0)
        lookUp(next);
    } else {
      long long first = next + static_cast<long long>(tokens.first);
      bool packed = kSignature.keyLengths == AttentionLengths::Packed;
      keys += ((packed ? 0 : sequence * params.kStrides.batch) +
               (first + KeyCopy::row()) * params.kStrides.token) *
              kBytes;
      values += ((packed ? 0 : sequence * params.vStrides.batch) +
                 (first + ValueCopy::row()) * params.vStrides.token) *
                kBytes;
    }
  }

  /// Whether the next tile has keys from \p key on, or behind it.
  bool reaches(int key) const { return next < end && next + kTile > key; }

  /// Starts this warp's copies of the next tile, if there is one, to the next
  /// stage.
  void load() {
    if (next < end) {
      unsigned stage = ring + filled * kConfig.stageBytes(kSignature);
      unsigned valueStage = stage + kConfig.keyTileBytes(kSignature);
      if constexpr (kPaged)
        copyPaged(stage, valueStage);
      else {
        copyRows<KeyCopy>(stage, keys, params.kStrides.token * kBytes);
        if (!sharesTiles())
          copyRows<ValueCopy>(valueStage, values,
                              params.vStrides.token * kBytes);
      }
    }
    next += kStep;
    filled = filled + 1 == kConfig.stages ? 0 : filled + 1;
    ptx::cpAsyncCommit();
  }

  /// Waits for the oldest tile and returns its stage: K, and behind its
  /// keyTileBytes V, unless V is a part of K. The stage before is free.
  unsigned wait() {
    ptx::cpAsyncWait<kConfig.stages - 2>();
    if constexpr (kParts == 1)
      __syncwarp();
    else
      ptx::barSync(1 + number, kParts * 32);
    unsigned stage = ring + read * kConfig.stageBytes(kSignature);
    read = read + 1 == kConfig.stages ? 0 : read + 1;
    return stage;
  }

  /// Whether V is the first columns of K, so that it is loaded already.
  bool sharesTiles() const {
    if constexpr (kConfig.mayShareTiles(kSignature))
      return params.v == params.k &&
             params.vStrides.token == params.kStrides.token &&
             params.vStrides.head == params.kStrides.head &&
             params.vStrides.batch == params.kStrides.batch;
    return false;
  }

private:
  template <class Copy>
  void copyRows(unsigned stage, const char *&source, long long tokenBytes) {
    const char *at = source;
#pragma unroll
    for (int copy = 0; copy < Copy::kCopies; ++copy) {
      bool inside = next + copy * Copy::kRows + Copy::row() < end;
      if (kParts == 1 || copy % kParts == part)
        Copy::copyRow(stage + Copy::offset(), at, copy, inside, policy);
      at += Copy::kRows * tokenBytes;
    }
    source += kStep * tokenBytes;
  }

  /// Looks up the address of this lane's row of the tile at \p first. Rows
  /// behind the last key get the address of the last key.
  void lookUp(int first) {
    int key = first + static_cast<int>(threadIdx.x) % kTile;
    key = key < end ? key : end - 1;
    int entry = key / params.pageSize;
    within = key - entry * params.pageSize;
    page = table[entry];
  }

  void copyPaged(unsigned stage, unsigned valueStage) {
    long long keyRow =
        (page * params.kStrides.batch + within * params.kStrides.token) *
        kBytes;
    long long valueRow =
        (page * params.vStrides.batch + within * params.vStrides.token) *
        kBytes;
    lookUp(next + kStep);
    copyPagedRows<KeyCopy>(stage, keys, keyRow);
    if (!sharesTiles())
      copyPagedRows<ValueCopy>(valueStage, values, valueRow);
  }

  template <class Copy>
  void copyPagedRows(unsigned stage, const char *base, long long rowOfLane) {
#pragma unroll
    for (int copy = 0; copy < Copy::kCopies; ++copy) {
      int row = copy * Copy::kRows + Copy::row();
      long long offset = __shfl_sync(0xffffffffu, rowOfLane, row);
      if (kParts == 1 || copy % kParts == part)
        Copy::copyRow(stage + Copy::offset(), base + offset, copy,
                      next + row < end, policy);
    }
  }

  const AttentionParams &params;
  const char *keys, *values; // this lane's, in the next tile or in the pages
  const int *table = nullptr;
  int page = 0, within = 0; // of this lane's row of the next tile
  unsigned ring;
  int filled = 0, read = 0; // stages
  int next, end;            // keys
  int number, part;
  unsigned long long policy;
};

} // namespace kiln
