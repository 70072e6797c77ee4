//===- GemmTesting.h - problems for tests of GEMM -------------------------===//
#pragma once

#include "Families/FamilyTesting.h"
#include "Support/Json.h"

namespace kiln::testing {

/// The problem of \p text, which must be valid.
inline Problem parse(llvm::StringRef text) { return parse(gemm(), text); }

inline const OperandSpec &operand(const OperandTable &table, int index) {
  return table.operands[static_cast<size_t>(index)];
}

/// The problems of benchmarks/suites/<suite>.json.
inline std::vector<Problem> suiteProblems(llvm::StringRef suite) {
  auto json = llvm::cantFail(readJsonFile(
      (llvm::Twine(KILN_SOURCE_DIR "/benchmarks/suites/") + suite + ".json")
          .str()));
  std::vector<Problem> problems;
  for (const llvm::json::Value &value : *json.getAsObject()->getArray("cases"))
    problems.push_back(llvm::cantFail(gemm().canonicalise(llvm::cantFail(
        Values::fromJson(gemm().problemSchema(), *value.getAsObject(),
                         {"name", "family"})))));
  return problems;
}

} // namespace kiln::testing
