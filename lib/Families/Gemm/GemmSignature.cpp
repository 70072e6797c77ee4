//===- GemmSignature.cpp - signatures of problems, and as values ----------===//
#include "Families/Gemm/GemmProblem.h"
#include "Families/SignatureFields.h"
#include "Support/EnumName.h"
#include "Support/Format.h"

#include <algorithm>

namespace kiln {

/// Greatest power of two, at most 16, that divides every one of \p bytes.
static int alignmentClass(std::initializer_list<int64_t> bytes) {
  int64_t combined = 16;
  for (int64_t value : bytes)
    combined |= value;
  return static_cast<int>(combined & -combined);
}

GemmSignature signatureOf(const GemmProblem &p) {
  GemmSignature signature;
  signature.in = p.dtype;
  signature.inB = p.typeB == p.dtype ? DType::None : p.typeB;
  signature.scaleA = p.scaleA.kind;
  signature.scaleB = p.scaleB.kind;
  signature.out = p.out;
  signature.compute = p.compute;
  signature.layout = p.layout;
  signature.pointwise = p.pointwise;
  signature.readsC = p.beta != 0;
  int64_t inBytes = bytesOf(p.dtype), outBytes = bytesOf(p.sideType());
  // A promise that only an e4m3 D needs is not about A and B.
  const int64_t alignIn = std::max(p.align, inBytes);
  signature.alignA = alignmentClass({alignIn, p.lda * inBytes});
  signature.alignB = alignmentClass({alignIn, p.ldb * inBytes});
  if (p.isPacked()) {
    constexpr int kPackedAlign = 16; // whatever is promised of A
    signature.alignB = kPackedAlign;
    signature.orderB = p.orderB;
  }
  if (p.isPacked() || p.scaleTypeB != DType::FP32)
    signature.scaleTypeB = p.scaleTypeB;
  signature.groupB = p.groupB;
  signature.zeroB = p.zeroB;
  signature.groups = p.groups;
  signature.gathers = p.gathers;
  signature.scatters = p.scatters;
  signature.hasRowWeights = p.hasRowWeights;
  signature.zeroA = p.zeroA;
  signature.scaleD = p.scaleD.kind;
  bool residual = p.pointwise.contains(PointwiseOp::Residual);
  // A promise below the width of a wider output promises that width all the
  // same: every pointer is a multiple of its own element.
  // Rows of an e4m3 D are in its own bytes.
  signature.alignD = alignmentClass(
      {std::max(p.align, outBytes), p.ldd * bytesOf(p.out),
       p.outCols() * outBytes, signature.readsC ? p.ldc * outBytes : 0,
       residual ? p.ldResidual * outBytes : 0});
  return signature;
}

//===----------------------------------------------------------------------===//
// The signature
//===----------------------------------------------------------------------===//

llvm::StringRef enumeratorText(ComputeMode mode) {
  return mode == ComputeMode::TF32      ? "kiln::ComputeMode::TF32"
         : mode == ComputeMode::FastFp8 ? "kiln::ComputeMode::FastFp8"
                                        : "kiln::ComputeMode::Native";
}

llvm::StringRef enumeratorText(WeightOrder order) {
  return order == WeightOrder::K64R16 ? "kiln::WeightOrder::K64R16"
                                      : "kiln::WeightOrder::Plain";
}

llvm::StringRef enumeratorText(GroupKind groups) {
  return groups == GroupKind::Ends     ? "kiln::GroupKind::Ends"
         : groups == GroupKind::Masked ? "kiln::GroupKind::Masked"
                                       : "kiln::GroupKind::None";
}

std::string enumeratorText(Layout layout) {
  return fmt::format("kiln::Layout::{}{}", isTransposedA(layout) ? 'T' : 'N',
                     isTransposedB(layout) ? 'T' : 'N');
}

static constexpr SignatureFields kSignatureFields(
    SignatureField{"in", "in", &GemmSignature::in, true, kGemmTypeNames},
    SignatureField{"out", "out", &GemmSignature::out, true, kGemmOutNames},
    SignatureField{"compute", "compute", &GemmSignature::compute, false,
                   kGemmComputeNames},
    SignatureField{"layout", "layout", &GemmSignature::layout, true,
                   kGemmLayoutNames},
    SignatureField{"pointwise", "pointwise", &GemmSignature::pointwise, false,
                   kGemmPointwiseNames},
    SignatureField{"readsc", "readsC", &GemmSignature::readsC},
    SignatureField{"aligna", "alignA", &GemmSignature::alignA, false, {}, 16},
    SignatureField{"alignb", "alignB", &GemmSignature::alignB, false, {}, 16},
    SignatureField{"alignd", "alignD", &GemmSignature::alignD, false, {}, 16},
    SignatureField{"b", "inB", &GemmSignature::inB, false, kGemmTypeNamesB},
    SignatureField{"scalea", "scaleA", &GemmSignature::scaleA, false,
                   kGemmScaleNamesA},
    SignatureField{"scaleb", "scaleB", &GemmSignature::scaleB, false,
                   kGemmScaleNames},
    SignatureField{"orderb", "orderB", &GemmSignature::orderB, false,
                   kGemmOrderNames},
    SignatureField{"scaletypeb", "scaleTypeB", &GemmSignature::scaleTypeB,
                   false, kGemmScaleTypeNames},
    SignatureField{"groupb", "groupB", &GemmSignature::groupB, false, {}, 128},
    SignatureField{"zerob", "zeroB", &GemmSignature::zeroB},
    SignatureField{"groups", "groups", &GemmSignature::groups, false,
                   kGemmGroupNames},
    SignatureField{"gathers", "gathers", &GemmSignature::gathers},
    SignatureField{"scatters", "scatters", &GemmSignature::scatters},
    SignatureField{"weights", "hasRowWeights", &GemmSignature::hasRowWeights},
    SignatureField{"zeroa", "zeroA", &GemmSignature::zeroA, false,
                   kGemmZeroNames},
    SignatureField{"scaled", "scaleD", &GemmSignature::scaleD, false,
                   kGemmScaleNamesA});

Values toValues(const GemmSignature &signature) {
  static const Schema &schema = *new Schema(kSignatureFields.schema("gemm"));
  return kSignatureFields.toValues(signature, schema);
}

GemmSignature readGemmSignature(const Values &values) {
  return kSignatureFields.fromValues(values);
}

std::string initializerText(const GemmSignature &signature) {
  return kSignatureFields.initializer(signature);
}

} // namespace kiln
