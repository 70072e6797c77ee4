//===- MergeProblem.h - a merge of two attentions, typed ------------------===//
//
// The typed form of the values "attention_merge batch=.. rows=.. heads=.." and
// of their signature; attention/MergeSignature.h has the terms.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/HeadTensor.h"
#include "Kernel/Operand.h"
#include "attention/MergeParams.h"
#include "attention/MergeSignature.h"

namespace kiln {

/// Sizes and strides in elements, all resolved.
struct MergeProblem {
  int64_t batch = 1, rows = 0, heads = 1, valueDim = 128;
  DType dtype = DType::BF16, out = DType::BF16;
  bool lse = false;
  HeadStrides o1, o2, o;
  int64_t align = 16;

  /// The number of rows over all heads.
  double allRows() const {
    return double(batch) * double(rows) * double(heads);
  }
};

/// Indices of the fields of mergeProblemSchema(), in its order.
struct MergeField {
  enum : int {
    Batch,
    Rows,
    Heads,
    D,
    DType,
    Out,
    Lse,
    LdA,
    HsA,
    BsA,
    LdB,
    HsB,
    BsB,
    LdO,
    HsO,
    BsO,
    Align,
    Count
  };
};

/// Operands in the order of Arguments::operands.
struct MergeOperand {
  enum : int { O1, Lse1, O2, Lse2, O, Lse, Count };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &mergeProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
MergeProblem readMergeProblem(const int64_t *values);

MergeSignature signatureOf(const MergeProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const MergeSignature &signature);
MergeSignature readMergeSignature(const Values &values);

/// The signature as a designated initialiser.
std::string initializerText(const MergeSignature &signature);

/// Fills in the parameters that no config changes. Nanoseconds; allocates
/// nothing.
MergeParams makeMergeParams(const MergeProblem &problem,
                            const Arguments &arguments);

} // namespace kiln
