//===- attention/MergeParams.h - parameters of merges of attentions -------===//
#pragma once

#include "attention/AttentionParams.h"

namespace kiln {

/// Logarithms are [batch][heads][rows].
struct MergeParams {
  const void *o1 = nullptr, *o2 = nullptr;
  const float *lse1 = nullptr, *lse2 = nullptr;
  void *o = nullptr; ///< may be o1
  float *lse = nullptr;
  HeadStrides o1Strides, o2Strides, oStrides;
  long long batch = 0, rows = 0, heads = 0;
};

/// The place of a row.
struct MergePlace {
  long long batch, row, head;

  constexpr long long offset(const HeadStrides &strides) const {
    return batch * strides.batch + row * strides.token + head * strides.head;
  }
  constexpr long long lseOffset(const MergeParams &params) const {
    return (batch * params.heads + head) * params.rows + row;
  }
};

/// Rows [rowBegin, rowEnd) of O or of the LSE, ordered by batch, head, row.
struct ReferenceMergeParams {
  MergeParams merge;
  bool isLse = false;
  long long rowBegin = 0, rowEnd = 0;
  double *reference = nullptr;
  double *bound = nullptr; ///< the scale of the error of an element
};

} // namespace kiln
