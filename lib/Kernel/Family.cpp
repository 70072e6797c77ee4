//===- Family.cpp - code that all families share --------------------------===//
#include "Kernel/Family.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

#include <cassert>

namespace kiln {

llvm::Expected<Problem> KernelFamily::parseProblem(llvm::StringRef text) const {
  auto values = Values::parse(problemSchema(), text);
  if (!values)
    return values.takeError();
  return canonicalise(std::move(*values));
}

std::optional<MatrixProduct>
KernelFamily::matrixProduct(const Problem &) const {
  return std::nullopt;
}

Peer KernelFamily::peer(const Problem &problem) const {
  return matrixProduct(problem) ? Peer::Blas : Peer::None;
}

double KernelFamily::compulsoryBytes(const Problem &problem) const {
  double bytes = 0;
  for (const OperandSpec &operand : operands(problem).operands)
    bytes += operand.elementBytes();
  return bytes;
}

std::string KernelFamily::fixedText(const Problem &problem) const {
  Values fixed = problem.values;
  for (auto [i, field] : llvm::enumerate(problemSchema().fields()))
    if (!field.isFixed())
      fixed.set(static_cast<int>(i), field.unset());
  // The signature has the relevant part of scalars and alignments.
  return fixed.text() + " | " + problem.signature.text();
}

int64_t KernelFamily::promisedAlignment(const Problem &problem) const {
  int field = problemSchema().find(FieldRole::Alignment);
  constexpr int64_t kDefault = 16;
  return field < 0 ? kDefault : problem.values[field];
}

Arguments KernelFamily::defaultArguments(const Problem &problem) const {
  Arguments arguments;
  arguments.problem = problem.values.array().data();
  OperandTable table = operands(problem);
  assert(table.operands.size() <= Arguments::kMaxOperands);
  for (auto [i, operand] : llvm::enumerate(table.operands))
    arguments.operands[i] = {0, operand.leadingDimension, operand.batchStride,
                             operand.planeStride};
  int scalar = 0;
  for (auto [field, value] :
       llvm::zip_equal(problemSchema().fields(), problem.values.array()))
    if (field.role == FieldRole::Scalar) {
      assert(scalar < Arguments::kMaxScalars && "too many scalars");
      arguments.scalars[scalar++] = decodeReal(value);
    }
  return arguments;
}

const Template *KernelFamily::findTemplate(llvm::StringRef name) const {
  for (const auto &tmpl : templateList)
    if (tmpl->name() == name)
      return tmpl.get();
  return nullptr;
}

void KernelFamily::addTemplate(std::unique_ptr<Template> added) {
  assert(!findTemplate(added->name()) && "a template's name is taken");
  templateList.push_back(std::move(added));
}

llvm::Expected<KernelFamily::NamedConfig>
KernelFamily::parseConfig(llvm::StringRef text) const {
  llvm::StringRef templateName = text.split('.').first;
  const Template *tmpl = findTemplate(templateName);
  if (!tmpl) {
    std::string names;
    for (const auto &known : templateList)
      names += (names.empty() ? "" : ", ") + known->name().str();
    return makeError(ErrorCode::InvalidArgument,
                     "{} has no template '{}', it has {}", name(),
                     templateName.take_front(64), names);
  }
  auto config = Values::parse(tmpl->configSchema(), text);
  if (!config)
    return config.takeError();
  return NamedConfig{tmpl, std::move(*config)};
}

} // namespace kiln
