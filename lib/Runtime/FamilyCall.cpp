//===- FamilyCall.cpp - the readers of all families -----------------------===//
#include "Runtime/FamilyCall.h"

#include "Runtime/ElementwiseCall.h"
#include "Runtime/GemmCall.h"
#include "Runtime/RowCall.h"
#include "Runtime/TransposeCall.h"

#include <type_traits>

namespace kiln {

/// A reader and a check of one struct, as functions of its address. Those of a
/// family without batches take the CallAddresses of a CallUse alone.
template <class Args, auto read, auto check>
static constexpr CallReader makeReader(kiln_family number,
                                       llvm::StringLiteral family) {
  return {number, family,
          [](const void *given, CallUse use, FamilyCall &call) noexcept {
            const Args &args = *static_cast<const Args *>(given);
            if constexpr (std::is_invocable_v<decltype(read), const Args &,
                                              CallUse, FamilyCall &>)
              return read(args, use, call);
            else
              return read(args, use.addresses, call);
          },
          [](const void *given, CallUse use) -> llvm::Error {
            const Args &args = *static_cast<const Args *>(given);
            if constexpr (std::is_invocable_v<decltype(check), const Args &,
                                              CallUse>)
              return check(args, use);
            else
              return check(args, use.addresses);
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
