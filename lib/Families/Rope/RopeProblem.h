//===- RopeProblem.h - a rotary embedding, typed --------------------------===//
//
// The typed form of the values "rope tokens=.. heads=.. kvheads=.. d=.." and of
// their signature; rope/RopeSignature.h has the terms.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/HeadTensor.h"
#include "Kernel/Operand.h"
#include "rope/RopeParams.h"
#include "rope/RopeSignature.h"

namespace kiln {

/// Sizes in tokens or elements, strides in elements, all resolved.
struct RopeProblem {
  int64_t tokens = 0, heads = 0, kvHeads = 0;
  int64_t headDim = 128, valueDim = 128, rotaryDim = 0, rotaryOffset = 0;
  DType dtype = DType::BF16, table = DType::FP32, cache = DType::BF16;
  RopeStyle style = RopeStyle::Halves;
  int64_t tableRows = 0; ///< positions that the table has
  bool qNorm = false, kNorm = false, unitOffset = false;
  double epsilon = 0;
  bool kOut = false, kCache = false, vCache = false;
  ScaleKind scales = ScaleKind::None;
  RopeSlots slots = RopeSlots::None;
  bool sequences = false, longIndices = false;
  int64_t pageSize = 0, pageCount = 0; ///< of the caches
  int64_t pageTableRows = 0, pageTableColumns = 0;
  HeadStrides q, k, v, qOut, kOutStrides, kCacheStrides, vCacheStrides;
  int64_t align = 16;

  bool hasQ() const { return heads > 0; }
  bool hasK() const { return kOut || kCache; }
  bool hasCache() const { return kCache || vCache; }
  bool hasPositions() const {
    return rotaryDim > 0 || slots == RopeSlots::Table;
  }
};

/// Indices of the fields of ropeProblemSchema(), in its order.
struct RopeField {
  enum : int {
    Tokens,
    Heads,
    KvHeads,
    D,
    Dv,
    DType,
    Rotary,
    Offset,
    Style,
    Table,
    TableRows,
    QNorm,
    KNorm,
    Unit,
    Epsilon,
    KOut,
    KCache,
    VCache,
    Kv,
    Scales,
    Slots,
    Sequences,
    Index,
    Page,
    PoolPages,
    PageRows,
    PageCols,
    LdQ,
    HsQ,
    LdK,
    HsK,
    LdV,
    HsV,
    LdQOut,
    HsQOut,
    LdKOut,
    HsKOut,
    LdKCache,
    HsKCache,
    BsKCache,
    LdVCache,
    HsVCache,
    BsVCache,
    Align,
    Count
  };
};

/// Operands in the order of Arguments::operands.
struct RopeOperand {
  enum : int {
    Q,
    K,
    V,
    QOut,
    KOut,
    KCache,
    VCache,
    Table,
    QWeight,
    KWeight,
    Positions,
    Slots,
    PageTable,
    Sequences,
    KScale,
    VScale,
    Count
  };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &ropeProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
RopeProblem readRopeProblem(const int64_t *values);

/// The tensors of \p problem that exist, with the fields of their strides.
llvm::SmallVector<HeadTensor, 7> tensorsOf(const RopeProblem &problem);

RopeSignature signatureOf(const RopeProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const RopeSignature &signature);
RopeSignature readRopeSignature(const Values &values);

/// The signature as a designated initialiser.
std::string initializerText(const RopeSignature &signature);

/// Fills in the parameters that no config changes. Nanoseconds; allocates
/// nothing.
RopeParams makeRopeParams(const RopeProblem &problem,
                          const Arguments &arguments);

} // namespace kiln
