//===- GemmCall.h - kiln_gemm_args as values and arguments ----------------===//
//
// The dispatch path of kiln_gemm: from the caller's struct straight to the key
// of its plan and to the arguments of its launch, with neither text nor record
// in between. What it writes equals what GemmFamily::canonicalise() makes of
// the same problem, scalars normalised.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Operand.h"
#include "kiln/kiln.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/Error.h>

#include <cstdint>

namespace kiln {

/// What the addresses of a kiln_gemm_args are for.
enum class GemmAddresses {
  Used,    ///< one call: they are checked, and their alignment counts
  Ignored, ///< a problem is described
};

/// One call, or one problem, as the family knows it.
struct GemmCall {
  static constexpr int kFields = GemmField::Align + 1;
  int64_t values[kFields]; ///< of the canonical problem record
  Arguments arguments;     ///< `problem` points to `values`
  bool isEmpty = false;    ///< nothing to compute

  GemmCall() { arguments.problem = values; }
  GemmCall(const GemmCall &) = delete;
  GemmCall &operator=(const GemmCall &) = delete;
};

/// Reads \p args into \p call. False if anything is wrong with them that a look
/// into the table of plans would not show: checkGemm() says what. Some 30 ns.
bool readGemmCall(const kiln_gemm_args &args, GemmAddresses addresses,
                  GemmCall &call) noexcept;

/// Succeeds when all of \p args is as kiln.h asks and this version can do it.
/// Errors: InvalidArgument, Unsupported, each naming the field.
llvm::Error checkGemm(const kiln_gemm_args &args, GemmAddresses addresses);

/// kiln_arguments slot of each operand of GemmOperand, for a pointwise chain
/// as a record holds it.
llvm::SmallVector<uint32_t, 8> gemmSlots(int64_t chain);

} // namespace kiln
