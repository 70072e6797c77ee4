//===- PrepackCall.cpp - kiln_prepack_args as a call ----------------------===//
//
// Also the two functions of prepack.h that launch nothing.
//
//===----------------------------------------------------------------------===//
#include "Families/Prepack/PrepackFamily.h"

#include "Call/Visit.h"
#include "Families/Families.h"
#include "Families/ProblemFields.h"
#include "Support/OutOfMemory.h"

#include <new>

namespace kiln {

static_assert(int(KILN_PREPACK_WEIGHTS) == int(PrepackOperand::Weights) &&
              int(KILN_PREPACK_SCALES) == int(PrepackOperand::Scales) &&
              int(KILN_PREPACK_ZEROS) == int(PrepackOperand::Zeros) &&
              int(KILN_PREPACK_PACKED) == int(PrepackOperand::Packed) &&
              int(KILN_PREPACK_PACKED_SCALES) ==
                  int(PrepackOperand::PackedScales) &&
              int(KILN_PREPACK_PACKED_ZEROS) ==
                  int(PrepackOperand::PackedZeros) &&
              int(KILN_PREPACK_SLOT_COUNT) == int(PrepackOperand::Count));
static_assert(int(KILN_WEIGHTS_GPTQ) == int(WeightSource::Gptq) &&
              int(KILN_WEIGHTS_GPTQ_V2) == int(WeightSource::GptqV2) &&
              int(KILN_WEIGHTS_AWQ) == int(WeightSource::Awq) &&
              int(KILN_WEIGHTS_COMPRESSED_TENSORS) ==
                  int(WeightSource::CompressedTensors) &&
              int(KILN_WEIGHTS_INT8) == int(WeightSource::Int8) &&
              int(KILN_WEIGHTS_E4M3) == int(WeightSource::E4m3) &&
              int(KILN_WEIGHTS_MXFP4) == int(WeightSource::Mxfp4));

namespace {

struct PrepackVisit {
  using Args = kiln_prepack_args;
  using F = PrepackField;
  using Operand = PrepackOperand;
  static constexpr int kFields = F::Count;
  static constexpr int kOperands = Operand::Count;

  template <class Visitor>
  KILN_INLINE static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_prepack_args", KILN_PREPACK_HAS_ZEROS))
      return;
    const bool hasZeros = args.flags & KILN_PREPACK_HAS_ZEROS;
    const bool isBlocks = args.source == KILN_WEIGHTS_MXFP4;
    // The scales of mxfp4 have one type, so problems do not name it.
    const kiln_dtype own = isBlocks ? KILN_E8M0 : KILN_FP16;
    const kiln_dtype scale = args.scales.type ? args.scales.type : own;
    v.number(F::N, "n", args.n);
    v.number(F::K, "k", args.k);
    v.choice(F::Source, "source", args.source, args.source);
    v.number(F::Group, "group_size",
             isBlocks && args.group_size == 32 ? 0 : args.group_size);
    v.type(F::ScaleType, "scales.type", scale, scale == own ? 0 : scale);
    v.number(F::Zeros, "zeros", hasZeros);
    v.isEmpty(args.n == 0 || args.k == 0);
    const PrepackProblem p = sizesOf(args);
    visitOperand("weights", args.weights, Operand::Weights, KILN_INT8, p, v);
    visitOperand("scales", args.scales, Operand::Scales, scale, p, v);
    visitOperand("packed", args.packed, Operand::Packed, KILN_INT8, p, v);
    visitOperand("packed_scales", args.packed_scales, Operand::PackedScales,
                 scale, p, v);
    if (hasZeros) {
      visitOperand("zeros", args.zeros, Operand::Zeros, KILN_INT8, p, v);
      visitOperand("packed_zeros", args.packed_zeros, Operand::PackedZeros,
                   KILN_INT8, p, v);
    } else {
      v.unread("zeros", args.zeros);
      v.unread("packed_zeros", args.packed_zeros);
    }
    v.alignment(F::Align);
  }

  /// The sizes on which row lengths depend. Invalid sizes become 0 or defaults.
  static PrepackProblem sizesOf(const Args &args) {
    auto extent = [](int64_t given) {
      return given >= 0 && given <= kMaxExtent ? given : 0;
    };
    PrepackProblem p;
    p.n = extent(args.n);
    p.k = extent(args.k);
    p.source = static_cast<WeightSource>(args.source);
    p.group = args.group_size > 0 ? args.group_size : groupOf(p.source);
    return p;
  }

  /// Visits an operand. Callers choose no leading dimension: all operands are
  /// packed.
  template <class Visitor>
  KILN_INLINE static void
  visitOperand(const char *name, const kiln_operand &given, int index,
               kiln_dtype type, const PrepackProblem &p, Visitor &v) {
    v.operand({.name = name,
               .given = given,
               .index = index,
               .type = type,
               .rowLength = rowLengthOf(p, index),
               .isWritten = index >= Operand::Packed});
  }
};

/// The problem of \p args, with its addresses in \p call; nullopt if the struct
/// or the problem breaks a rule.
std::optional<PrepackProblem> problemOf(const kiln_prepack_args *args,
                                        FamilyCall &call, CallAddresses use) {
  if (!args)
    return std::nullopt;
  FieldNames names;
  if (auto error = kPrepackCall.explain(args, use, prepackProblemSchema(), call,
                                        names)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  // The host accepts operands at any alignment.
  call.values[PrepackField::Align] = 16;
  auto problem = makePrepackFamily()->canonicalise(
      Values(prepackProblemSchema(), call.fields()));
  if (!problem) {
    llvm::consumeError(problem.takeError());
    return std::nullopt;
  }
  return readPrepackProblem(problem->values.array().data());
}

} // namespace

constexpr CallReader kPrepackCall =
    makeCallReader<PrepackVisit>(KILN_FAMILY_PREPACK);

} // namespace kiln

using namespace kiln;

/// Runs the body of an exported function, and lets no exception out.
template <class Body> static kiln_status guardPrepack(const Body &body) {
  try {
    throwWhereMemoryIsOut();
    return body();
  } catch (const std::bad_alloc &) {
    return KILN_OUT_OF_MEMORY;
  } catch (...) {
    return KILN_INTERNAL;
  }
}

static kiln_status queryLayout(const kiln_prepack_args *args,
                               kiln_prepack_layout *layout) {
  if (auto error = checkOutput(layout, "layout")) {
    llvm::consumeError(std::move(error));
    return KILN_INVALID_ARGUMENT;
  }
  FamilyCall call;
  const auto p = problemOf(args, call, CallAddresses::Ignored);
  if (!p)
    return KILN_INVALID_ARGUMENT;
  kiln_prepack_layout filled = KILN_INIT(kiln_prepack_layout);
  filled.order = KILN_ORDER_K64R16;
  const auto rows = static_cast<uint64_t>(p->blockRows());
  const uint64_t scales = rows * static_cast<uint64_t>(p->rowScales());
  filled.weight_bytes = rows * static_cast<uint64_t>(p->rowBytes());
  filled.scale_bytes = scales * static_cast<uint64_t>(bytesOf(p->scaleType));
  filled.zero_bytes = p->zeros ? scales : 0;
  filled.groups = p->packedGroups();
  fillOutput(layout, filled);
  return KILN_SUCCESS;
}

static kiln_status packOnHost(const kiln_prepack_args *args) {
  FamilyCall call;
  const auto p = problemOf(args, call, CallAddresses::Used);
  if (!p)
    return KILN_INVALID_ARGUMENT;
  if (!call.isEmpty)
    packOnHost(*p, makePrepackParams(*p, call.arguments));
  return KILN_SUCCESS;
}

kiln_status kiln_prepack_query(const kiln_prepack_args *args,
                               kiln_prepack_layout *layout) noexcept {
  return guardPrepack([&] { return queryLayout(args, layout); });
}

kiln_status kiln_prepack_host(const kiln_prepack_args *args) noexcept {
  return guardPrepack([&] { return packOnHost(args); });
}
