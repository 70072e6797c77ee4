//===- attention/ReferenceMerge.cuh - the reference of merges -------------===//
//
// The fp64 result before it is rounded to its type, and beside it the scale of
// the error of fp32 arithmetic: the magnitudes that are added, or 1 plus the
// magnitude of the logarithm.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/FlatMergeConfig.h"
#include "common/Convert.cuh"

namespace kiln {

template <MergeSignature kSignature, ReferenceMergeConfig kConfig>
class ReferenceMerge {
public:
  static void run(const ReferenceMergeParams &params) {
    const MergeParams &merge = params.merge;
    for (long long index = params.rowBegin + blockIdx.x; index < params.rowEnd;
         index += gridDim.x) {
      long long head = index / merge.rows;
      MergePlace place = {head / merge.heads, index - head * merge.rows,
                          head % merge.heads};
      computeRow(params, place, index - params.rowBegin);
    }
  }

private:
  static void computeRow(const ReferenceMergeParams &params, MergePlace place,
                         long long row) {
    const MergeParams &merge = params.merge;
    double first = merge.lse1[place.lseOffset(merge)];
    double second = merge.lse2[place.lseOffset(merge)];
    const double none = -__longlong_as_double(0x7ff0000000000000ll);
    const bool isEmpty = first == none && second == none;
    double greatest = fmax(first, second); // drops NaN, which sums show
    double firstPart = isEmpty ? 0.0 : exp(first - greatest);
    double secondPart = isEmpty ? 0.0 : exp(second - greatest);
    double sum = isEmpty ? 1.0 : firstPart + secondPart;
    if (params.isLse) {
      if (threadIdx.x == 0) {
        params.reference[row] = greatest + log(sum);
        params.bound[row] = isEmpty ? 0.0 : 1 + fabs(greatest);
      }
      return;
    }
    for (int column = threadIdx.x; column < kSignature.valueDim;
         column += kConfig.threads()) {
      long long at = row * kSignature.valueDim + column;
      double a = first == none
                     ? 0.0
                     : partOf(merge.o1, place.offset(merge.o1Strides) + column,
                              firstPart / sum);
      double b = second == none
                     ? 0.0
                     : partOf(merge.o2, place.offset(merge.o2Strides) + column,
                              secondPart / sum);
      params.reference[at] = a + b;
      params.bound[at] = fabs(a) + fabs(b);
    }
  }

  static double partOf(const void *o, long long offset, double weight) {
    return weight * toFloat<kSignature.in>(
                        static_cast<const Storage<kSignature.in> *>(o)[offset]);
  }
};

/// Writes reference and bound of the rows [rowBegin, rowEnd), on
/// kConfig.blocks(rowEnd - rowBegin) blocks.
template <MergeSignature kSignature, ReferenceMergeConfig kConfig>
void referenceMerge(const ReferenceMergeParams &params) {
  ReferenceMerge<kSignature, kConfig>::run(params);
}

} // namespace kiln
