//===- Registry.h - the families an engine knows --------------------------===//
#pragma once

#include "Kernel/Family.h"

namespace kiln {

/// Families by name. A run-time object: users' own families and templates enter
/// the way the built-in ones do. Not thread-safe while it is being filled;
/// afterwards it is immutable and may be shared.
class Registry {
public:
  /// Errors: InvalidArgument when the name is taken or not that of its
  /// problems' schema, a problem has more than kMaxProblemFields fields, or two
  /// scalars have one slot.
  llvm::Error add(std::unique_ptr<KernelFamily> family);

  /// Gives the family called \p family a template of the user's own, behind
  /// those it has: a later one loses ties. Errors: InvalidArgument when there
  /// is no such family or the template's name is taken in it.
  llvm::Error addTemplate(llvm::StringRef family,
                          std::unique_ptr<Template> added);

  const KernelFamily *find(llvm::StringRef name) const;
  /// As find(); the error lists the families there are.
  llvm::Expected<const KernelFamily *> get(llvm::StringRef name) const;
  const std::vector<std::unique_ptr<KernelFamily>> &families() const {
    return familyList;
  }

  /// The text of a problem that help and messages may show: of the first family
  /// that has an example; empty: none has.
  std::string example() const;

  /// A problem's text, whose first word names the family.
  struct NamedProblem {
    const KernelFamily *family = nullptr;
    Problem problem;
  };
  llvm::Expected<NamedProblem> parseProblem(llvm::StringRef text) const;

private:
  std::vector<std::unique_ptr<KernelFamily>> familyList;
};

} // namespace kiln
