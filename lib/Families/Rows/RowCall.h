//===- RowCall.h - reductions, softmax, norms, quantisation as calls ------===//
#pragma once

#include "Call/CallReader.h"
#include "Families/Rows/RowFields.h"

namespace kiln {

// See CallReader.
bool readReduceCall(const kiln_reduce_args &args, CallAddresses addresses,
                    FamilyCall &call) noexcept;
bool readSoftmaxCall(const kiln_softmax_args &args, CallAddresses addresses,
                     FamilyCall &call) noexcept;
bool readQuantizeCall(const kiln_quantize_args &args, CallAddresses addresses,
                      FamilyCall &call) noexcept;
/// Of both norms: their records have the same fields.
bool readNormCall(const kiln_norm_args &args, CallAddresses addresses,
                  FamilyCall &call) noexcept;

llvm::Error checkReduce(const kiln_reduce_args &args, CallAddresses addresses);
llvm::Error checkSoftmax(const kiln_softmax_args &args,
                         CallAddresses addresses);
llvm::Error checkQuantize(const kiln_quantize_args &args,
                          CallAddresses addresses);
llvm::Error checkNorm(const kiln_norm_args &args, CallAddresses addresses);

const CallReader &rowCall(RowKind kind);

} // namespace kiln
