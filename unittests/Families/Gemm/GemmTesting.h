//===- GemmTesting.h - problems and a device for tests of GEMM ------------===//
#pragma once

#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

namespace kiln::testing {

inline const KernelFamily &gemm() {
  static const Registry registry = makeBuiltinRegistry();
  return *registry.find("gemm");
}

/// The problem of \p text, which must be good.
inline Problem parse(llvm::StringRef text) {
  auto problem = gemm().parseProblem(text);
  if (!problem)
    FAIL(summarize(problem.takeError()).message);
  return *problem;
}

/// The problems of benchmarks/suites/<suite>.json.
inline std::vector<Problem> suiteProblems(llvm::StringRef suite) {
  auto json = llvm::cantFail(readJsonFile(
      (llvm::Twine(KILN_SOURCE_DIR "/benchmarks/suites/") + suite + ".json")
          .str()));
  std::vector<Problem> problems;
  for (const llvm::json::Value &value : *json.getAsObject()->getArray("cases"))
    problems.push_back(llvm::cantFail(gemm().canonicalise(llvm::cantFail(
        Record::fromJson(gemm().problemSchema(), *value.getAsObject(),
                         {"name", "family"})))));
  return problems;
}

inline const DeviceModel &h200() {
  static const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  return device;
}

} // namespace kiln::testing
