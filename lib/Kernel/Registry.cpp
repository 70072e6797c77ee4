//===- Registry.cpp -------------------------------------------------------===//
#include "Kernel/Registry.h"

#include "Support/Error.h"

#include <llvm/ADT/StringExtras.h>

#include <map>

namespace kiln {

/// Checks the slots of scalars. The slots of operands depend on the problem;
/// conformance tests check them.
static llvm::Error checkSlots(const KernelFamily &family) {
  std::map<int, llvm::StringRef> owners;
  for (const Field &field : family.problemSchema().fields()) {
    if (field.slot < 0)
      continue;
    auto [owner, isFree] = owners.emplace(field.slot, field.key);
    if (!isFree)
      return makeError(ErrorCode::InvalidArgument,
                       "{} and {} of family '{}' both have slot {}",
                       owner->second, field.key, family.name(), field.slot);
  }
  return llvm::Error::success();
}

llvm::Error Registry::add(std::unique_ptr<KernelFamily> family) {
  if (find(family->name()))
    return makeError(ErrorCode::InvalidArgument,
                     "a family called '{}' is registered already",
                     family->name());
  if (family->problemSchema().name() != family->name())
    return makeError(ErrorCode::InvalidArgument,
                     "problems of family '{}' are called '{}'", family->name(),
                     family->problemSchema().name());
  size_t fields = family->problemSchema().fields().size();
  if (fields > kMaxProblemFields)
    return makeError(ErrorCode::InvalidArgument,
                     "a problem of family '{}' has {} fields, at most {} work",
                     family->name(), fields, kMaxProblemFields);
  if (auto error = checkSlots(*family))
    return error;
  familyList.push_back(std::move(family));
  return llvm::Error::success();
}

llvm::Error Registry::addTemplate(llvm::StringRef name,
                                  std::unique_ptr<Template> added) {
  for (const auto &family : familyList) {
    if (family->name() != name)
      continue;
    if (family->findTemplate(added->name()))
      return makeError(ErrorCode::InvalidArgument,
                       "{} has a template called '{}' already", name,
                       added->name());
    family->addTemplate(std::move(added));
    return llvm::Error::success();
  }
  return get(name).takeError();
}

const KernelFamily *Registry::find(llvm::StringRef name) const {
  for (const auto &family : familyList)
    if (family->name() == name)
      return family.get();
  return nullptr;
}

llvm::Expected<const KernelFamily *> Registry::get(llvm::StringRef name) const {
  if (const KernelFamily *family = find(name))
    return family;
  std::string names;
  for (const auto &family : familyList)
    names += (names.empty() ? "" : ", ") + family->name().str();
  return makeError(ErrorCode::InvalidArgument,
                   "no kernel family is called '{}', there are: {}",
                   name.take_front(64), names);
}

std::string Registry::example() const {
  for (const auto &family : familyList)
    if (!family->example().empty())
      return (family->name() + " " + family->example()).str();
  return "";
}

llvm::Expected<Registry::NamedProblem>
Registry::parseProblem(llvm::StringRef text) const {
  auto family = get(llvm::getToken(text).first);
  if (!family)
    return family.takeError();
  auto problem = (*family)->parseProblem(text);
  if (!problem)
    return problem.takeError();
  return NamedProblem{*family, std::move(*problem)};
}

} // namespace kiln
