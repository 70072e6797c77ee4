//===- GemmFamily.h - the parts that make the family gemm -----------------===//
#pragma once

#include "Families/Gemm/GemmProblem.h"
#include "Kernel/Family.h"

#include <memory>

namespace kiln {

/// Reads kiln_gemm_args.
extern const CallReader kGemmCall;

std::unique_ptr<Template> makeSm90GemmTemplate();
std::unique_ptr<Template> makeMmaGemmTemplate();
std::unique_ptr<Template> makePackedGemmTemplate();
std::unique_ptr<Template> makePackedGemvTemplate();
std::unique_ptr<Template> makeSm90PackedGemmTemplate();
std::unique_ptr<Template> makeGemvTemplate();
std::unique_ptr<Template> makeSkinnyGemmTemplate();
std::unique_ptr<Template> makeFfmaGemmTemplate();
std::unique_ptr<Template> makeSimtGemmTemplate();
std::unique_ptr<Template> makeNaiveGemmTemplate();

/// The family's reference, for one problem.
std::unique_ptr<Reference> makeGemmReference(const GemmSignature &signature,
                                             const DeviceModel &device);
/// That of problems with an e4m3 D, given the product's signature.
std::unique_ptr<Reference> makeQuantizedReference(const GemmSignature &product,
                                                  ScaleKind scaleD,
                                                  const DeviceModel &device);

} // namespace kiln
