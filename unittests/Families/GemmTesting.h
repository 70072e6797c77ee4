//===- GemmTesting.h - problems and a device for tests of GEMM ------------===//
#pragma once

#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Error.h"

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

inline const DeviceModel &h200() {
  static const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  return device;
}

} // namespace kiln::testing
