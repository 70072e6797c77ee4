//===- LaunchedAttention.h - an attention in the form of a launch ---------===//
//
// The fields of a problem that binders read, and the parameters of their
// kernels. All of it is inline: a binder computes the fields that it uses, and
// the parameters lie where the launch takes them from. Nanoseconds; allocates
// nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "Kernel/Operand.h"

#include <algorithm>

namespace kiln {

/// readAttentionProblem() without strides and scale, which are in the arguments
/// of a launch.
inline AttentionProblem readLaunchedAttention(const int64_t *values) {
  using F = AttentionField;
  auto resolve = [&](int field, int64_t derived) {
    return values[field] ? values[field] : derived;
  };
  AttentionProblem p;
  p.batch = values[F::Batch];
  p.queries = values[F::Sq];
  p.keys = values[F::Sk];
  p.heads = values[F::Heads];
  p.kvHeads = resolve(F::KvHeads, p.heads);
  p.headDim = values[F::D];
  p.valueDim = resolve(F::Dv, p.headDim);
  p.dtype = static_cast<DType>(values[F::DType]);
  auto type = [&](int field, DType derived) {
    return static_cast<DType>(resolve(field, static_cast<int64_t>(derived)));
  };
  p.kv = type(F::Kv, p.dtype);
  p.out = type(F::Out, p.dtype == DType::E4M3 ? DType::BF16 : p.dtype);
  p.mask = static_cast<AttentionMask>(values[F::Mask]);
  p.left = values[F::Left];
  p.right = values[F::Right];
  p.softcap = decodeReal(values[F::Softcap]);
  p.sinks = values[F::Sinks] != 0;
  p.alibi = values[F::Alibi] != 0;
  p.lse = values[F::Lse] != 0;
  p.queryLengths = static_cast<AttentionLengths>(values[F::QLen]);
  p.keyLengths = static_cast<AttentionLengths>(values[F::KvLen]);
  p.typicalKeys = std::min(resolve(F::SkHint, p.keys), p.keys);
  p.pages = static_cast<AttentionPages>(values[F::Pages]);
  p.scales = static_cast<AttentionProblem::Scales>(values[F::Scales]);
  p.fixedSplit = values[F::Split];
  p.latent = values[F::Latent] != 0;
  if (p.isPaged()) {
    p.pageSize = values[F::Page];
    p.pageCount = values[F::PoolPages];
    p.pageTableCols = values[F::TableCols];
    if (!p.pageCount || !p.pageTableCols) {
      int64_t pages = p.pagesOfSequence();
      bool isList = p.pages == AttentionPages::List;
      p.pageCount = resolve(F::PoolPages, p.batch * pages);
      p.pageTableCols = resolve(F::TableCols, isList ? p.batch * pages : pages);
    }
  }
  p.totalQueries = resolve(F::TotalQ, p.batch * p.queries);
  p.totalKeys = resolve(F::TotalK, p.batch * p.keys);
  p.align = values[F::Align];
  return p;
}

inline HeadStrides stridesOf(const OperandArgument &operand) {
  return {operand.leadingDimension, operand.planeStride, operand.batchStride};
}

/// Whether a launch may read the keys of a cache, and all that leads to them,
/// before the kernel ahead has ended.
inline bool hasEarlyKeys(const AttentionProblem &p,
                         const Arguments &arguments) {
  using Operand = AttentionOperand;
  auto allows = [&](bool isRead, int operand) {
    return !isRead || arguments.isEarly(operand);
  };
  return arguments.isEarly(Operand::K) &&
         arguments.isEarly(valueOperandOf(p)) &&
         allows(p.queryLengths != AttentionLengths::Uniform,
                Operand::QueryOffsets) &&
         allows(p.keyLengths == AttentionLengths::Packed,
                Operand::KeyOffsets) &&
         allows(p.keyLengths == AttentionLengths::Used, Operand::KeyLengths) &&
         allows(p.pages != AttentionPages::None, Operand::PageTable) &&
         allows(p.pages == AttentionPages::List, Operand::PageOffsets);
}

/// Fills in the parameters that no config changes: operands, strides, extents,
/// scalars. There is one split. \p scaleByDefault is defaultScale(), which
/// binders keep: a root and a quotient for each launch take some 5 ns.
inline AttentionParams makeAttentionParams(const AttentionProblem &p,
                                           const Arguments &arguments,
                                           double scaleByDefault) {
  using Operand = AttentionOperand;
  const OperandArgument *operands = arguments.operands;
  auto input = [&]<class T>(int index, const T *&pointer) {
    pointer = reinterpret_cast<const T *>(operands[index].address);
  };
  AttentionParams params;
  input(Operand::Q, params.q);
  input(Operand::K, params.k);
  input(valueOperandOf(p), params.v);
  params.o = reinterpret_cast<void *>(operands[Operand::O].address);
  params.lse = reinterpret_cast<float *>(operands[Operand::Lse].address);
  params.qStrides = stridesOf(operands[Operand::Q]);
  params.kStrides = stridesOf(operands[Operand::K]);
  params.vStrides = stridesOf(operands[valueOperandOf(p)]);
  params.oStrides = stridesOf(operands[Operand::O]);
  params.lseHeadStride = p.queryRows();
  params.lseBatchStride = p.heads * p.queries;
  input(Operand::QueryOffsets, params.queryOffsets);
  input(Operand::KeyOffsets, params.keyOffsets);
  input(Operand::KeyLengths, params.keyLengths);
  input(Operand::PageTable, params.pageTable);
  input(Operand::PageOffsets, params.pageOffsets);
  params.pageTableStride = p.pageTableCols;
  input(Operand::Sinks, params.sinks);
  input(Operand::Alibi, params.alibi);
  input(Operand::QScale, params.qScale);
  input(Operand::KScale, params.kScale);
  input(Operand::VScale, params.vScale);
  params.scaleHeadStride = p.scales == AttentionProblem::Scales::Head;
  params.batch = static_cast<int>(p.batch);
  params.queries = static_cast<int>(p.queries);
  params.keys = static_cast<int>(p.keys);
  params.heads = static_cast<int>(p.heads);
  params.kvHeads = static_cast<int>(p.kvHeads);
  params.pageSize = static_cast<int>(p.pageSize);
  params.left = static_cast<int>(p.left);
  params.right = static_cast<int>(p.right);
  params.scale = static_cast<float>(
      resolveScale(arguments.scalars[AttentionScalar::Scale], scaleByDefault));
  params.softcap =
      static_cast<float>(arguments.scalars[AttentionScalar::Softcap]);
  params.totalQueries = static_cast<int>(p.totalQueries);
  params.hasEarlyKeys = hasEarlyKeys(p, arguments);
  return params;
}

} // namespace kiln
