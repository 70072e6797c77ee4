//===- MergeProblem.cpp ---------------------------------------------------===//
#include "Families/Attention/MergeProblem.h"

#include "Families/ProblemFields.h"
#include "Families/SignatureFields.h"

#include <algorithm>
#include <cassert>

namespace kiln {

static constexpr FieldName kMergeTypeNames[] = {{int64_t(DType::BF16), "bf16"},
                                                {int64_t(DType::FP16), "fp16"},
                                                {int64_t(DType::FP32), "fp32"}};

const Schema &mergeProblemSchema() {
  static const Schema &schema = *new Schema(
      "attention_merge", TextStyle::Spaced,
      {{.key = "batch",
        .role = FieldRole::Batch,
        .defaultValue = 1,
        .maximum = kMaxExtent},
       extentField("rows", FieldRole::DynamicExtent),
       {.key = "heads", .required = true, .minimum = 1, .maximum = kMaxHeads},
       {.key = "d",
        .role = FieldRole::Signature,
        .required = true,
        .minimum = 1,
        .maximum = kMaxHeadDim},
       enumField("dtype", true, kMergeTypeNames),
       enumField("out", false, kMergeTypeNames),
       {.key = "lse", .role = FieldRole::Signature, .maximum = 1},
       leadingDimensionField("lda"),
       strideField("hsa"),
       strideField("bsa"),
       leadingDimensionField("ldb"),
       strideField("hsb"),
       strideField("bsb"),
       leadingDimensionField("ldo"),
       strideField("hso"),
       strideField("bso"),
       alignField()});
  assert(schema.fields().size() == MergeField::Count);
  return schema;
}

MergeProblem readMergeProblem(const int64_t *values) {
  using F = MergeField;
  MergeProblem p;
  p.batch = values[F::Batch];
  p.rows = values[F::Rows];
  p.heads = values[F::Heads];
  p.valueDim = values[F::D];
  p.dtype = static_cast<DType>(values[F::DType]);
  p.out = values[F::Out] ? static_cast<DType>(values[F::Out]) : p.dtype;
  p.lse = values[F::Lse] != 0;
  auto strides = [&](int field) {
    const int64_t *given = values + field;
    return resolveStrides({given[0], given[1], given[2]}, p.rows, p.heads,
                          p.valueDim);
  };
  p.o1 = strides(F::LdA);
  p.o2 = strides(F::LdB);
  p.o = strides(F::LdO);
  p.align = values[F::Align];
  return p;
}

MergeSignature signatureOf(const MergeProblem &p) {
  MergeSignature signature;
  signature.in = p.dtype;
  signature.out = p.out;
  signature.valueDim = static_cast<int>(p.valueDim);
  signature.lse = p.lse;
  signature.align = alignmentOf(
      std::max<int64_t>(p.align, std::max(bytesOf(p.dtype), bytesOf(p.out))),
      {{p.valueDim, p.o1, p.dtype},
       {p.valueDim, p.o2, p.dtype},
       {p.valueDim, p.o, p.out}});
  return signature;
}

static constexpr SignatureFields kMergeSignatureFields(
    SignatureField{"in", "in", &MergeSignature::in, true, kMergeTypeNames},
    SignatureField{"out", "out", &MergeSignature::out, true, kMergeTypeNames},
    SignatureField{
        "d", "valueDim", &MergeSignature::valueDim, true, {}, kMaxHeadDim},
    SignatureField{"lse", "lse", &MergeSignature::lse},
    SignatureField{"align", "align", &MergeSignature::align, false, {}, 16});

Values toValues(const MergeSignature &signature) {
  static const Schema &schema =
      *new Schema(kMergeSignatureFields.schema("attention_merge"));
  return kMergeSignatureFields.toValues(signature, schema);
}

MergeSignature readMergeSignature(const Values &values) {
  return kMergeSignatureFields.fromValues(values);
}

std::string initializerText(const MergeSignature &signature) {
  return kMergeSignatureFields.initializer(signature);
}

MergeParams makeMergeParams(const MergeProblem &p, const Arguments &arguments) {
  const OperandArgument *operands = arguments.operands;
  auto strides = [&](int index) -> HeadStrides {
    return {operands[index].leadingDimension, operands[index].planeStride,
            operands[index].batchStride};
  };
  MergeParams params;
  params.o1 =
      reinterpret_cast<const void *>(operands[MergeOperand::O1].address);
  params.o2 =
      reinterpret_cast<const void *>(operands[MergeOperand::O2].address);
  params.lse1 =
      reinterpret_cast<const float *>(operands[MergeOperand::Lse1].address);
  params.lse2 =
      reinterpret_cast<const float *>(operands[MergeOperand::Lse2].address);
  params.o = reinterpret_cast<void *>(operands[MergeOperand::O].address);
  params.lse = reinterpret_cast<float *>(operands[MergeOperand::Lse].address);
  params.o1Strides = strides(MergeOperand::O1);
  params.o2Strides = strides(MergeOperand::O2);
  params.oStrides = strides(MergeOperand::O);
  params.batch = p.batch;
  params.rows = p.rows;
  params.heads = p.heads;
  return params;
}

} // namespace kiln
