//===- Suite.h - files of problems ----------------------------------------===//
#pragma once

#include "Kernel/Registry.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// One problem with the name that reports give it.
struct Case {
  std::string name;
  Registry::NamedProblem named;

  std::string text() const { return named.problem.text(); }
};

/// Cases of a suite's JSON, in order; \p path names it in errors. Refuses
/// repeated and missing names.
llvm::Expected<std::vector<Case>> parseSuite(const llvm::json::Value &json,
                                             llvm::StringRef path,
                                             const Registry &registry);

/// One entry of a suite as it is written: its values are not canonical.
struct SuiteEntry {
  std::string name;
  const KernelFamily *family = nullptr;
  Values values;
};

/// The key of a suite's list, and the kind of its entries.
struct SuiteForm {
  llvm::StringRef key;
  /// Said where the list is missing: "; its layers are for --range".
  llvm::StringRef hint;
  /// Adds the fields that the form of an entry leaves out; null: adds none.
  llvm::function_ref<llvm::Error(const KernelFamily &, llvm::json::Object &)>
      complete = nullptr;
};

/// Gives \p take each entry of a suite's list, in order. Errors
/// (InvalidArgument and those of \p take) name file, entry and key.
llvm::Error readEntries(const llvm::json::Value &json, llvm::StringRef path,
                        const SuiteForm &form, const Registry &registry,
                        llvm::function_ref<llvm::Error(SuiteEntry)> take);

} // namespace kiln::cli
