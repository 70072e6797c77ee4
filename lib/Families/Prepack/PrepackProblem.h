//===- PrepackProblem.h - the packing of a weight, typed ------------------===//
//
// The typed form of the values "prepack n=.. k=.. source=.." and of their
// signature: a weight of a checkpoint is reordered into the order of
// common/PackedWeights.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Operand.h"
#include "Kernel/Values.h"
#include "common/PackedWeights.h"
#include "prepack/PrepackParams.h"
#include "prepack/PrepackSignature.h"

namespace kiln {

/// Sizes in elements; the type of scales is resolved.
struct PrepackProblem {
  int64_t n = 0, k = 0;
  WeightSource source = WeightSource::Gptq;
  int group = 0;                 ///< 0: all k
  DType scaleType = DType::FP16; ///< INT8: e8m0, whose bits are moved
  bool zeros = false;

  PrepackSource from() const { return {source, group, n, k}; }

  // Results are matrices with a row for every 64 rows of the weight.
  int64_t blockRows() const { return PackedWeights::blocksOf(n); }
  int64_t rowBytes() const {
    return PackedWeights::blocksOf(k) *
           PackedWeights::blockBytes(bitsOf(source));
  }
  int64_t packedGroups() const { return PackedWeights::groups(k, group); }
  int64_t rowScales() const { return packedGroups() * PackedWeights::kRows; }
};

/// Indices of the fields of prepackProblemSchema(), in its order.
struct PrepackField {
  enum : int { N, K, Source, Group, ScaleType, Zeros, Align, Count };
};

/// Operands in the order of Arguments::operands.
struct PrepackOperand {
  enum : int {
    Weights,
    Scales,
    Zeros,
    Packed,
    PackedScales,
    PackedZeros,
    Count
  };
};

/// Number of rows of operand \p index, and elements of a row. Bytes count as
/// int8.
int64_t rowCountOf(const PrepackProblem &problem, int index);
int64_t rowLengthOf(const PrepackProblem &problem, int index);

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &prepackProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
PrepackProblem readPrepackProblem(const int64_t *values);

/// The default type of scales.
constexpr DType scaleTypeOf(WeightSource source) {
  return source == WeightSource::Mxfp4 ? DType::INT8 : DType::FP16;
}
/// The default quantisation group size.
constexpr int groupOf(WeightSource source) {
  return source == WeightSource::Mxfp4 ? 32 : 0;
}

PrepackSignature signatureOf(const PrepackProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const PrepackSignature &signature);
PrepackSignature readPrepackSignature(const Values &values);

/// A designated initialiser: "{.source = kiln::WeightSource::Awq, ...}".
std::string initializerText(const PrepackSignature &signature);

/// Fills in the parameters that no config changes. Nanoseconds; allocates
/// nothing.
PrepackParams makePrepackParams(const PrepackProblem &problem,
                                const Arguments &arguments);

} // namespace kiln
