//===- FamilyCall.cpp - the readers of all families -----------------------===//
#include "Runtime/FamilyCall.h"

#include "Runtime/ElementwiseCall.h"
#include "Runtime/GemmCall.h"
#include "Runtime/RowCall.h"
#include "Runtime/TransposeCall.h"

namespace kiln {

/// A reader and a check of one struct, as functions of its address.
template <class Args,
          bool (*read)(const Args &, CallAddresses, FamilyCall &) noexcept,
          llvm::Error (*check)(const Args &, CallAddresses)>
static constexpr CallReader makeReader(kiln_family number,
                                       llvm::StringLiteral family) {
  return {
      number, family,
      [](const void *args, CallAddresses addresses, FamilyCall &call) noexcept {
        return read(*static_cast<const Args *>(args), addresses, call);
      },
      [](const void *args, CallAddresses addresses) {
        return check(*static_cast<const Args *>(args), addresses);
      }};
}

constexpr CallReader kCallReaders[kCallKinds] = {
    makeReader<kiln_gemm_args, readGemmCall, checkGemm>(KILN_FAMILY_GEMM,
                                                        "gemm"),
    makeReader<kiln_elementwise_args, readElementwiseCall, checkElementwise>(
        KILN_FAMILY_ELEMENTWISE, "elementwise"),
    makeReader<kiln_reduce_args, readReduceCall, checkReduce>(
        KILN_FAMILY_REDUCTION, "reduce"),
    makeReader<kiln_softmax_args, readSoftmaxCall, checkSoftmax>(
        KILN_FAMILY_SOFTMAX, "softmax"),
    makeReader<kiln_norm_args, readNormCall, checkNorm>(KILN_FAMILY_LAYER_NORM,
                                                        "layernorm"),
    makeReader<kiln_norm_args, readNormCall, checkNorm>(KILN_FAMILY_RMS_NORM,
                                                        "rmsnorm"),
    makeReader<kiln_quantize_args, readQuantizeCall, checkQuantize>(
        KILN_FAMILY_QUANTIZE, "rowquant"),
    makeReader<kiln_transpose_args, readTransposeCall, checkTranspose>(
        KILN_FAMILY_TRANSPOSE, "transpose2d"),
};

std::optional<CallKind> callKindOf(kiln_family family) {
  for (int kind = 0; kind < kCallKinds; ++kind)
    if (kCallReaders[kind].number == family)
      return static_cast<CallKind>(kind);
  return std::nullopt;
}

} // namespace kiln
