//===- Registry.h - the families an engine knows --------------------------===//
#pragma once

#include "Kernel/Family.h"

namespace kiln {

/// Families by name. A run-time object: users' own families and templates are
/// added like the built-in ones. Not thread-safe while it is being filled;
/// afterwards it is immutable and may be shared.
class Registry {
public:
  /// Errors: InvalidArgument if the name is taken or not that of its problems'
  /// schema, a problem has more than kMaxProblemFields fields, or two scalars
  /// have one slot.
  llvm::Error add(std::unique_ptr<KernelFamily> family);

  /// Gives the family called \p family a template of the user's own, behind its
  /// others: a later one loses ties. Errors: InvalidArgument if there is no
  /// such family or the template's name is taken in it.
  llvm::Error addTemplate(llvm::StringRef family,
                          std::unique_ptr<Template> added);

  const KernelFamily *find(llvm::StringRef name) const;
  /// Like find(); the error lists the families.
  llvm::Expected<const KernelFamily *> get(llvm::StringRef name) const;
  const std::vector<std::unique_ptr<KernelFamily>> &families() const {
    return familyList;
  }

  /// The text of an example problem for help and messages, from the first
  /// family that has one; empty if none has.
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
