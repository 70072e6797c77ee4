//===- attention/Sm90MlaOutput.cuh - rows of O of MLA ---------------------===//
//
// Stores wgmma's sums of half of the columns, as Sm90AttentionOutput.cuh does.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/AttentionColumns.cuh"
#include "attention/Sm90MlaTiles.cuh"

namespace kiln {

template <AttentionSignature kSignature, Sm90MlaConfig kConfig>
class Sm90MlaOutput {
  static constexpr int kPieces = kConfig.pieces;
  static constexpr int kWidth = kConfig.pieceWidth(kSignature);

public:
  using Sums = float[kPieces][kWidth / 2];

  /// The output of consumer \p role.
  Sm90MlaOutput(const AttentionParams &params, const Sm90MlaWork &work,
                int role)
      : params(params), work(work), role(role),
        column(role * Sm90MlaConfig::width(kSignature)) {}

  /// Stores the two rows of a thread, \p sums times \p inverse, and their
  /// logarithms.
  void store(const AttentionRow (&rows)[2], const Sums &sums,
             const float (&inverse)[2], const float (&logSum)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bool exists = rows[i].token < work.queries.count;
      if (exists && role == 0 && lane() % 4 == 0)
        storeLogSum(rows[i], logSum[i]);
#pragma unroll
      for (int p = 0; p < kPieces; ++p)
        if (work.isPart)
          storePart(rows[i], sums[p] + 2 * i, inverse[i], column + p * kWidth,
                    exists);
        else
          storeRow(rows[i], sums[p] + 2 * i, inverse[i], column + p * kWidth,
                   exists);
    }
  }

private:
  static int lane() { return threadIdx.x % 32; }

  long long partOf(const AttentionRow &row) const {
    return work.split * partialRows<kSignature>(params) +
           partialRow<kSignature>(params, work.sequence, work.queries, row.head,
                                  row.token);
  }

  void storeLogSum(const AttentionRow &row, float value) const {
    if (work.isPart)
      params.partialLse[partOf(row)] = value;
    else if constexpr (kSignature.lse)
      params.lse[lseOffset<kSignature>(params, work.sequence, work.queries,
                                       row.head, row.token)] = value;
  }

  /// \p sums: the sums of a row of a piece; this lane has two of every eight
  /// columns.
  void storePart(const AttentionRow &row, const float *sums, float inverse,
                 int first, bool exists) const {
    if (!exists)
      return;
    float *part = params.partialO + partOf(row) * kSignature.valueDim + first +
                  lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < kWidth / 8; ++j)
      *reinterpret_cast<float2 *>(part + 8 * j) = {sums[4 * j] * inverse,
                                                   sums[4 * j + 1] * inverse};
  }

  void storeRow(const AttentionRow &row, const float *sums, float inverse,
                int first, bool exists) const {
    int quarter = lane() % 4;
    unsigned short *o =
        static_cast<unsigned short *>(params.o) +
        queryOffset<kSignature>(params.oStrides, work.sequence, work.queries,
                                row.head, row.token) +
        first + quarter * 8;
#pragma unroll
    for (int j = 0; j < kWidth / 8; j += 4) {
      unsigned bits[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        bits[i] = packPair<kSignature.out>(sums[4 * (j + i)] * inverse,
                                           sums[4 * (j + i) + 1] * inverse);
      exchangeColumns(bits, quarter);
      if (exists)
        ptx::stGlobal128(o + 8 * j, {bits[0], bits[1], bits[2], bits[3]});
    }
  }

  const AttentionParams &params;
  const Sm90MlaWork &work;
  int role, column;
};

} // namespace kiln
