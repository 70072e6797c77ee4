//===- gemm/PackedGemv.cuh - W4A16 and W8A16 past a vector ----------------===//
//
// Problem: past one vector, weights of 4 bits are read so fast that the rest
// takes longer: starts of blocks, the way of the vector to each of them, and
// the decoding.
//
// Choice: only as many blocks as run at once, of many warps. Each keeps the
// vector in shared memory, in the order in which mma.sync takes it, and goes
// from tile to tile. Each warp has a ring of weights of its own, which it fills
// ahead across tiles: no load waits for the end of a tile. warpsK warps share
// 16 rows and split k. Their sums meet in shared memory, in two places in turn,
// where one more warp adds them in a fixed order and finishes the tile while
// the others are at the next.
//
// mma.sync has eight columns, all of which are the vector here.
//
// int4. The bits of a code, where they lie, are numbers. An integer i in the
// lowest bits of a bf16 is i * 2^-133, also beyond the denormal numbers, up to
// 2^8 - 1 (fp16: i * 2^-24, up to 2^11 - 1). So a mask makes two elements of
// the fragment: with the lower four bits the codes, with the next four 16 times
// the codes, for which the sums of these rows make up. A vector of bf16 is
// moved to the upper end of the exponents to make up for 2^-133: for each step
// of k by a power of two, which is exact. A zero point z takes z times the sum
// of the vector's part, which is computed once in each block. Infinities would
// subtract each other there, so steps of the vector that have one, or a NaN,
// are multiplied by decoded weights.
//
// Others are decoded as by PackedGemm.cuh.
//
// The scale of a quantisation group is applied to its sums. A scale of whole
// rows is applied at the end.
//
// Padding: codes beyond n make rows that are never stored; codes beyond k are
// multiplied by zeros. So they may be any finite number, as all are.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Warp.cuh"
#include "gemm/PackedGemvConfig.h"
#include "gemm/PackedWeight.cuh"
#include "gemm/StreamedRows.cuh"
#include "gemm/WeightDecoder.cuh"

namespace kiln {

template <GemmSignature kSignature, PackedGemvConfig kConfig> class PackedGemv {
  static_assert(kConfig.isValid(kSignature),
                "the config is not valid for this signature");
  static_assert(__CUDA_ARCH__ >= 800, "mma.sync with cp.async needs sm_80");

  static constexpr int kUnitRows = kConfig.kUnitRows, kStepK = kConfig.kStepK;
  static constexpr int kWarps = kConfig.warps, kWarpsK = kConfig.warpsK;
  static constexpr int kUnits = kConfig.units(), kStages = kConfig.stages;

  static constexpr DType kWeight = kSignature.typeB();
  static constexpr DType kScale = kSignature.scaleTypeB;
  static constexpr int kBits = bitsOf(kWeight);
  static constexpr int kBlocks = kStepK / PackedWeights::kDepth; // in a step
  static constexpr int kLoads = kBits / 4; // of 16 bytes for 64 k
  static constexpr int kRunBytes = 32 * PackedWeights::kLaneBytes;
  static constexpr int kBlockBytes = PackedWeights::blockBytes(kBits);

  static constexpr int kGroup = kSignature.groupB;
  static constexpr bool kHasGroups = kGroup != 0;
  static constexpr bool kHasZeros = kSignature.zeroB;
  static constexpr int kPartK = kConfig.partK(kSignature);
  static constexpr int kParts = kStepK / kPartK;
  static constexpr int kPartSteps = kPartK / 16; // products

  static constexpr bool kBf16 = kSignature.in == DType::BF16;
  /// Codes are used where they lie.
  static constexpr bool kUsesBits = kWeight == DType::INT4;

  // A slot of the ring: weights, scales, zero points.
  static constexpr int kSlotBytes = kConfig.stepBytes(kSignature);
  static constexpr int kWeightBytes = kBlocks * kLoads * kRunBytes;
  static constexpr int kScaleBytes =
      kHasGroups ? kUnitRows * bytesOf(kScale) : 0; // of a part
  static constexpr int kZerosAt = kWeightBytes + kParts * kScaleBytes;

  static constexpr int kRows = kConfig.rowsPerBlock();
  /// A tile as the warp that finishes it sees it.
  static constexpr StagedSums kStaged = {false, kRows, 1, kRows, 32};

  using Sums = float[2]; // of the rows lane / 4 and 8 more

public:
  static void run(const GemmParams &params) {
    extern __shared__ __align__(128) unsigned char sharedMemory[];
    allowSuccessor();
    PackedGemv(params, sharedMemory).run();
  }

private:
  const GemmParams &params;
  float *staged;
  const unsigned vector, parts, ring; // in shared memory
  const int blocksK, groups;          // of the problem
  const int steps;                    // along k, of the problem
  const int shortStep;                // of one block of weights, or none
  const unsigned tiles;

  PackedGemv(const GemmParams &params, unsigned char *shared)
      : params(params),
        staged(reinterpret_cast<float *>(
            shared + kConfig.ringBytes(kSignature) + kConfig.vectorBytes() +
            kConfig.partBytes(kSignature))),
        vector(ptx::sharedAddress(shared) + kConfig.ringBytes(kSignature)),
        parts(vector + kConfig.vectorBytes()),
        ring(ptx::sharedAddress(shared) + warp() * kStages * kSlotBytes),
        blocksK(static_cast<int>(PackedWeights::blocksOf(params.k))),
        groups(static_cast<int>(PackedWeights::groups(params.k, kGroup))),
        steps(static_cast<int>((params.k + kStepK - 1) / kStepK)),
        shortStep(blocksK % kBlocks == 0 ? -1 : steps - 1),
        tiles(tileCount(params.n, kRows)) {}

  /// The warp's number, behind that of the warp that finishes tiles.
  static int warp() { return static_cast<int>(threadIdx.x / 32) - 1; }
  static int lane() { return threadIdx.x % 32; }
  /// The warp's unit of 16 rows in a tile, and its turn along k.
  static int unitOfWarp() { return warp() % kUnits; }
  static int warpK() { return warp() / kUnits; }

  void run() const {
    if (warp() < 0) {
      awaitPredecessor();
      __syncthreads();
      finishTiles();
      return;
    }
    const bool isEarly = isStreamedEarly<false>(params);
    if (isEarly) {
      Cursor early(*this);
#pragma unroll 1
      for (int slot = 0; slot < kStages - 1; ++slot) {
        if (early.exists())
          loadWeights(early, slot);
        early.next();
      }
    }
    awaitPredecessor();
    // The vector comes first: everything waits for it.
    Held held[kHeld];
    request(held, 0);
    Cursor loading(*this);
#pragma unroll 1
    for (int slot = 0; slot < kStages - 1; ++slot) {
      if (!isEarly)
        load(loading, slot);
      else if (loading.exists())
        loadPairs(loading, slot);
      loading.next();
      ptx::cpAsyncCommit();
    }
    keep(held, 0);
    if constexpr (kConfig.depth > kHeld * kWarps)
#pragma unroll 1
      for (int first = kHeld * kWarps; first < steps; first += kHeld * kWarps) {
        request(held, first);
        keep(held, first);
      }
    __syncthreads(); // the vector is there
    multiplyTiles(loading);
    // No copy may arrive behind the end of the block.
    ptx::cpAsyncWait<0>();
  }

  //===--------------------------------------------------------------------===//
  // The vector
  //===--------------------------------------------------------------------===//

  /// The lane's operands in one of the eight products of a step, as a column
  /// (common/PackedWeights.h): lane % 4 is its place in product lane / 4.
  struct Held {
    unsigned pairs[2];
  };
  static constexpr int kHeld =
      kConfig.depth < 8 * kWarps ? (kConfig.depth + kWarps - 1) / kWarps : 8;

  /// Loads the warp's steps from \p first on, with zeros beyond k.
  void request(Held (&held)[kHeld], int first) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const long long k = firstOf(first + i * kWarps + warp());
#pragma unroll
      for (int half = 0; half < 2; ++half)
        held[i].pairs[half] = ptx::ldGlobalOrZero32(
            elementOf(k + half * 8), params.k - k - half * 8 >= 2);
    }
  }

  /// Stores what request() has loaded, in the order of products: each block of
  /// 64 k has two halves, with 16 bytes for each column.
  void keep(const Held (&held)[kHeld], int first) const {
    float factors[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int step = first + i * kWarps + warp();
      if (step >= steps)
        break;
      unsigned pairs[2] = {held[i].pairs[0], held[i].pairs[1]};
      // A last element has no neighbour.
      const long long k = firstOf(step);
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (params.k - k - half * 8 == 1)
          pairs[half] = ptx::ldGlobalOrZero16(elementOf(k + half * 8), true);
      if constexpr (kUsesBits)
        factors[i] = moveUp(pairs);
      ptx::stShared64(columnAt(step, lane() / 4), pairs[0], pairs[1]);
    }
    if constexpr (kUsesBits) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        if (const int step = first + i * kWarps + warp(); step < steps)
          storeParts(step, factors[i]);
    }
  }

  /// The lane's first element of a step.
  static long long firstOf(int step) {
    return static_cast<long long>(step) * kStepK + lane() / 4 * 16 +
           lane() % 4 * 2;
  }
  const char *elementOf(long long k) const {
    return static_cast<const char *>(params.a) + k * 2;
  }

  /// Where the lane's column of a product of a step lies, and then of the next
  /// product, if \p product is even.
  unsigned columnAt(int step, int product) const {
    return vector + step * (2 * kStepK) + product / 2 * 64 + lane() % 4 * 16 +
           product % 2 * 8;
  }
  unsigned partAt(int step, int part) const {
    return parts + (step * kParts + part) * 8;
  }

  /// The factor of steps with an infinity or a NaN.
  static constexpr float kOdd = 0;

  /// Multiplies the elements of a step, of bf16, by a power of two that brings
  /// the greatest exponent to the uppermost. Returns the factor of sums of
  /// products with codes, without kSumFactor; or kOdd.
  static float moveUp(unsigned (&pairs)[2]) {
    constexpr unsigned kExponent = kBf16 ? 0x7f80u : 0x7c00u;
    unsigned greatest = 0;
#pragma unroll
    for (unsigned pair : pairs)
      greatest = max(greatest, max(pair & kExponent, pair >> 16 & kExponent));
    greatest = greatestOfWarp(greatest);
    if (greatest == kExponent)
      return kOdd;
    if constexpr (!kBf16)
      return 1;
    constexpr unsigned kMinusZero = 0x80008000u;
    constexpr int kTop = 254, kBias = 127;
    const int shift = kTop - static_cast<int>(greatest >> 7);
    // No bf16 holds the largest powers; two factors do.
    const int part = shift / 2;
    const unsigned first = static_cast<unsigned>(kBias + part) << 7;
    const unsigned second = static_cast<unsigned>(kBias + shift - part) << 7;
#pragma unroll
    for (unsigned &pair : pairs)
      pair = ptx::fmaBf16x2(ptx::fmaBf16x2(pair, first * 0x10001u, kMinusZero),
                            second * 0x10001u, kMinusZero);
    // 2^(133 - 8 - shift), a denormal number at the lowest end.
    const int exponent = kBias + 125 - shift;
    return exponent > 0 ? __uint_as_float(static_cast<unsigned>(exponent) << 23)
                        : __uint_as_float(0x400000u >> -exponent);
  }
  /// The rest of the factor of all sums: 2^8 or 2^24.
  static constexpr float kSumFactor = !kUsesBits ? 1.0f
                                      : kBf16    ? 256.0f
                                                 : 16777216.0f;

  /// The sums of the parts of a step, as products with codes of 1 or, without
  /// zero points, of -8 have them; and the factor.
  void storeParts(int step, float factor) const {
    constexpr unsigned kOne = 0x10001u;
    const unsigned ones[4] = {kOne, kOne, kOne, kOne};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      float sums[2][4] = {};
#pragma unroll
      for (int i = 0; i < kPartSteps; i += 2) {
        const uint4 pairs =
            ptx::ldShared128(columnAt(step, part * kPartSteps + i));
        multiplyAdd(sums[0], ones, pairs.x, pairs.y);
        multiplyAdd(sums[1], ones, pairs.z, pairs.w);
      }
      const float sum = sums[0][0] + sums[1][0];
      if (lane() == 0)
        ptx::stShared64(partAt(step, part),
                        __float_as_uint(kHasZeros ? sum : -8 * sum),
                        __float_as_uint(factor));
    }
  }

  //===--------------------------------------------------------------------===//
  // Weights
  //===--------------------------------------------------------------------===//

  /// The lane's first bytes of the warp's first step in each unit.
  struct Pieces {
    const char *first; ///< of unit 0
    unsigned rowBytes; ///< from four units to the next
    unsigned unitBytes, stepBytes;

    const char *at(unsigned unit) const {
      return first + static_cast<unsigned long long>(unit / 4) * rowBytes +
             unit % 4 * unitBytes;
    }
  };

  /// A step of the warp, and where its weights and, for a lane that copies
  /// them, its scales or zero points lie. All steps of a tile precede those of
  /// the block's next.
  struct Cursor {
    const PackedGemv &gemv;
    const Pieces weightsOf, pairsOf;
    unsigned unit; ///< of 16 rows
    int step;
    const char *weights, *pair;

    explicit Cursor(const PackedGemv &gemv)
        : gemv(gemv), weightsOf(gemv.weights()), pairsOf(gemv.pairs()),
          unit(blockIdx.x * kUnits + unitOfWarp()) {
      if (warpK() >= gemv.steps)
        unit = gemv.tiles * kUnits;
      begin();
    }
    bool exists() const { return unit < gemv.tiles * kUnits; }

    void next() {
      step += kWarpsK;
      weights += kWarpsK * weightsOf.stepBytes;
      pair += kWarpsK * pairsOf.stepBytes;
      if (step >= gemv.steps) {
        unit += gridDim.x * kUnits;
        begin();
      }
    }

  private:
    void begin() {
      step = warpK();
      weights = weightsOf.at(unit);
      pair = pairsOf.at(unit);
    }
  };

  Pieces weights() const {
    constexpr unsigned kStepBytes = kBlocks * kBlockBytes;
    return {static_cast<const char *>(params.b) + warpK() * kStepBytes +
                lane() * PackedWeights::kLaneBytes,
            static_cast<unsigned>(blocksK) * kBlockBytes, kBlockBytes / 4,
            kStepBytes};
  }

  // Lanes that copy the pairs of a step, 16 bytes each: first the scales of all
  // parts, then their zero points.
  static constexpr int kPieces = kHasGroups ? kScaleBytes / 16 : 1;
  static constexpr int kScaleLanes = kHasGroups ? kParts * kPieces : 0;
  static constexpr int kPairLanes =
      kScaleLanes + (kHasGroups && kHasZeros ? kParts : 0);
  static_assert(kPairLanes <= 32, "each lane copies 16 bytes");

  static bool isOfZeros() { return kHasZeros && lane() >= kScaleLanes; }
  /// The part that the lane copies for.
  static int partOfLane() {
    return isOfZeros() ? lane() - kScaleLanes : lane() / kPieces;
  }

  Pieces pairs() const {
    if constexpr (!kHasGroups)
      return {};
    const unsigned bytes = isOfZeros() ? 1 : bytesOf(kScale);
    const unsigned groupBytes = PackedWeights::kRows * bytes;
    const char *first =
        isOfZeros() ? static_cast<const char *>(params.zeroB)
                    : reinterpret_cast<const char *>(params.scaleB.data) +
                          lane() % kPieces * 16;
    return {first + (warpK() * kParts + partOfLane()) * groupBytes,
            static_cast<unsigned>(groups) * groupBytes, kUnitRows * bytes,
            kParts * groupBytes};
  }

  /// Copies all of a step, if it exists. The copies follow one another without
  /// a branch: behind each, ptxas would repair the order of loads from shared
  /// memory with three more of them.
  void load(const Cursor &from, int slot) const {
    if (from.exists()) {
      loadPairs(from, slot);
      loadWeights(from, slot);
    }
  }

  /// The last step has one block of 64 k, which is copied for both.
  void loadWeights(const Cursor &from, int slot) const {
    const unsigned to =
        ring + slot * kSlotBytes + lane() * PackedWeights::kLaneBytes;
    const int blockBytes = from.step == shortStep ? 0 : kBlockBytes;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int load = 0; load < kLoads; ++load)
        ptx::cpAsync<16>(to + (block * kLoads + load) * kRunBytes,
                         from.weights + block * blockBytes + load * kRunBytes,
                         16);
  }

  /// Scales and zero points of groups beyond k are zeros.
  void loadPairs(const Cursor &from, int slot) const {
    if constexpr (kHasGroups)
      ptx::cpAsyncOrZero<16>(
          ring + slot * kSlotBytes + kWeightBytes + lane() * 16, from.pair,
          from.step * kParts + partOfLane() < groups, lane() < kPairLanes);
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  void multiplyTiles(Cursor loading) const {
    int slot = 0, freed = kStages - 1;
    unsigned number = 0;
#pragma unroll 1
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const RowFactors ofRows(params, tile * kUnits + unitOfWarp());
      Sums sums = {};
#pragma unroll 1
      for (int step = warpK(); step < steps; step += kWarpsK) {
        // Beyond this point the copies of all lanes are visible, and no lane
        // reads the slot before any more.
        ptx::cpAsyncWait<kStages - 2>();
        __syncwarp();
        const unsigned from = ring + slot * kSlotBytes;
        uint4 weights[kBlocks][kLoads];
        readWeights(weights, from);
        load(loading, freed);
        loading.next();
        ptx::cpAsyncCommit();
        multiplyStep(weights, from, step, ofRows, sums);
        freed = slot;
        slot = slot + 1 == kStages ? 0 : slot + 1;
      }
      const int place = number % 2;
      if (number >= 2)
        ptx::barSync(kFreed + place, kConfig.threads());
      ofRows.stage(sums, placeOf(place) + warpK() * kRows);
      ptx::barArrive(kStored + place, kConfig.threads());
      ++number;
    }
  }

  // Barriers of the two places of sums.
  static constexpr int kStored = 1, kFreed = 3;
  float *placeOf(int place) const { return staged + place * kWarpsK * kRows; }

  /// Adds up the sums of the warps that share rows, and finishes them. One warp
  /// calls it.
  void finishTiles() const {
    unsigned number = 0;
#pragma unroll 1
    for (unsigned tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const StreamWork work = workOf(tile);
      prefetchSums<kSignature, kStaged>(params, work);
      const int place = number % 2;
      float *parts = placeOf(place);
      ptx::barSync(kStored + place, kConfig.threads());
#pragma unroll 1
      for (int row = lane(); row < kRows; row += 32) {
        float sum = 0;
#pragma unroll
        for (int part = 0; part < kWarpsK; ++part)
          sum += parts[part * kRows + row];
        parts[row] = sum;
      }
      __syncwarp();
      finishSums<kSignature, kStaged>(params, work, parts, 1);
      // Another tile comes to this place.
      if (tile + 2 * gridDim.x < tiles)
        ptx::barArrive(kFreed + place, kConfig.threads());
      ++number;
    }
  }

  StreamWork workOf(unsigned tile) const {
    StreamWork work;
    work.batch = 0;
    work.row = static_cast<long long>(tile) * kRows;
    work.vector = 0;
    work.vectorEnd = params.m;
    work.tile = tile;
    work.split = 0;
    return work;
  }

  /// Scales and zero points of a lane's two rows that all k share, without
  /// quantisation groups; and the factor of all sums.
  struct RowFactors {
    float scales[2] = {kSumFactor, kSumFactor};
    unsigned zeros = 0;

    RowFactors(const GemmParams &params, unsigned unit) {
      if constexpr (!kHasGroups) {
        const long long at =
            static_cast<long long>(unit) * kUnitRows + lane() / 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          scales[i] *= packedScale<kSignature>(params, at + i);
        if constexpr (kHasZeros)
          zeros = *reinterpret_cast<const unsigned short *>(
              static_cast<const char *>(params.zeroB) + at);
      }
    }
    /// Writes the warp's sums, which the lanes of a row have all.
    void stage(const Sums &sums, float *parts) const {
      const int row = unitOfWarp() * kUnitRows + lane() / 4;
      if (lane() % 4 == 0) {
        parts[row] = sums[0] * scales[0];
        parts[row + 8] = sums[1] * scales[1];
      }
    }
  };

  static void readWeights(uint4 (&weights)[kBlocks][kLoads], unsigned from) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int load = 0; load < kLoads; ++load)
        weights[block][load] =
            ptx::ldShared128(from + (block * kLoads + load) * kRunBytes +
                             lane() * PackedWeights::kLaneBytes);
  }

  /// Adds the products of a step, whose scales are in the slot at \p from.
  void multiplyStep(const uint4 (&weights)[kBlocks][kLoads], unsigned from,
                    int step, const RowFactors &ofRows, Sums &sums) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      // Two sums alternate: a product takes longer than its issue.
      float products[2][4] = {};
#pragma unroll
      for (int i = 0; i < kPartSteps; i += 2) {
        const int product = part * kPartSteps + i;
        const uint4 pairs = ptx::ldShared128(columnAt(step, product));
        unsigned fragment[4];
        fragmentOf(fragment, weights[product / 4], product % 4);
        multiplyAdd(products[0], fragment, pairs.x, pairs.y);
        fragmentOf(fragment, weights[product / 4], product % 4 + 1);
        multiplyAdd(products[1], fragment, pairs.z, pairs.w);
      }
      addPart(products, weights, from, step, part, ofRows, sums);
    }
  }

  /// The fragment of product \p product of a block of 64 k.
  static void fragmentOf(unsigned (&fragment)[4],
                         const uint4 (&weights)[kLoads], int product) {
    using Decoder = WeightDecoder<kWeight, kSignature.in>;
    if constexpr (kUsesBits) {
      constexpr unsigned kLower = 0x000f000fu, kUpper = 0x00f000f0u;
      const unsigned word = wordOf(weights[0], product), next = word >> 8;
      fragment[0] = word & kLower;
      fragment[1] = word & kUpper;
      fragment[2] = next & kLower;
      fragment[3] = next & kUpper;
    } else {
      const unsigned unused[2] = {};
      unsigned words[Decoder::kWords];
#pragma unroll
      for (int i = 0; i < Decoder::kWords; ++i) {
        const int at = product * Decoder::kWords + i;
        words[i] = wordOf(weights[at / 4], at % 4);
      }
      Decoder::decode(fragment, words, unused);
    }
  }
  static unsigned wordOf(const uint4 &vector, int index) {
    return index == 0   ? vector.x
           : index == 1 ? vector.y
           : index == 2 ? vector.z
                        : vector.w;
  }

  /// Adds the sums of a part of k, times its scales.
  void addPart(const float (&products)[2][4],
               const uint4 (&weights)[kBlocks][kLoads], unsigned from, int step,
               int part, const RowFactors &ofRows, Sums &sums) const {
    float scales[2] = {1, 1};
    unsigned zeros = ofRows.zeros;
    if constexpr (kHasGroups) {
      const int row = lane() / 4 * 2;
      readScales(scales, from + kWeightBytes + part * kScaleBytes +
                             row * bytesOf(kScale));
      if constexpr (kHasZeros)
        zeros = ptx::ldShared16(from + kZerosAt + part * kUnitRows + row);
    }
    // Columns are all the same.
    float values[2] = {products[0][0] + products[1][0],
                       products[0][2] + products[1][2]};
    if constexpr (kUsesBits) {
      const uint2 words = ptx::ldShared64(partAt(step, part));
      const float sum = __uint_as_float(words.x);
      const float factor = __uint_as_float(words.y);
      if (factor == kOdd) {
        multiplyDecoded(values, weights, step, part,
                        kHasZeros ? zeros : 0x808u);
        scales[0] *= 1 / kSumFactor;
        scales[1] *= 1 / kSumFactor;
      } else {
        const float zero0 = kHasZeros ? -static_cast<float>(zeros & 0xffu) : 1;
        const float zero1 = kHasZeros ? -static_cast<float>(zeros >> 8) : 1;
        values[0] = fmaf(zero0, sum, values[0]);
        // The other row's codes are 16 times as large.
        values[1] = fmaf(zero1, sum, values[1] * 0.0625f);
        scales[0] *= factor;
        scales[1] *= factor;
      }
    }
    sums[0] = fmaf(values[0], scales[0], sums[0]);
    sums[1] = fmaf(values[1], scales[1], sums[1]);
  }

  /// The sums of a part, of weights less their \p zeros.
  void multiplyDecoded(float (&values)[2],
                       const uint4 (&weights)[kBlocks][kLoads], int step,
                       int part, unsigned zeros) const {
    using Decoder = WeightDecoder<kWeight, kSignature.in>;
    const unsigned addends[2] = {Decoder::addendOf(zeros & 0xffu),
                                 Decoder::addendOf(zeros >> 8)};
    float products[4] = {};
#pragma unroll
    for (int i = 0; i < kPartSteps; ++i) {
      const int product = part * kPartSteps + i;
      const uint2 pairs = ptx::ldShared64(columnAt(step, product));
      const unsigned words[1] = {wordOf(weights[product / 4][0], product % 4)};
      unsigned fragment[4];
      Decoder::decode(fragment, words, addends);
      multiplyAdd(products, fragment, pairs.x, pairs.y);
    }
    values[0] = products[0];
    values[1] = products[2];
  }

  static void readScales(float (&scales)[2], unsigned from) {
    if constexpr (kScale == DType::FP32) {
      const uint2 both = ptx::ldShared64(from);
      scales[0] = __uint_as_float(both.x);
      scales[1] = __uint_as_float(both.y);
    } else if constexpr (kScale == DType::E8M0) {
      const unsigned both = ptx::ldShared16(from);
      scales[0] = selectedE8m0(both & 0xffu);
      scales[1] = selectedE8m0(both >> 8);
    } else
      unpackPair<kScale>(scales[0], scales[1], ptx::ldShared32(from));
  }

  static void multiplyAdd(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                          unsigned b1) {
    if constexpr (kBf16)
      ptx::mmaBf16(d, a, b0, b1);
    else
      ptx::mmaFp16(d, a, b0, b1);
  }
};

/// D = pointwise(alpha * A W^T + beta * C) on a one-dimensional grid of at most
/// kConfig.grid().blocks(m, n, batch) blocks, which share the tiles.
template <GemmSignature kSignature, PackedGemvConfig kConfig>
void packedGemv(const GemmParams &params) {
  PackedGemv<kSignature, kConfig>::run(params);
}

} // namespace kiln
