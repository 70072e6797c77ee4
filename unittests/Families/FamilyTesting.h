//===- FamilyTesting.h - helpers for tests of families --------------------===//
#pragma once

#include "Device/Catalog.h"
#include "Families/Families.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <string>

namespace kiln::testing {

/// The families of Families.def.
inline const Registry &registry() {
  static const Registry builtin = makeBuiltinRegistry();
  return builtin;
}

inline const KernelFamily &gemm() { return *registry().find("gemm"); }
inline const KernelFamily &attention() { return *registry().find("attention"); }

/// The catalog's model of \p name.
inline DeviceModel device(llvm::StringRef name) {
  return llvm::cantFail(findDevice(name));
}
inline const DeviceModel &h200() {
  static const DeviceModel model = device("h200-sxm");
  return model;
}

/// The problem of \p text, which must be valid.
inline Problem parse(const KernelFamily &family, llvm::StringRef text) {
  auto problem = family.parseProblem(text);
  if (!problem)
    FAIL(summarize(problem.takeError()).message);
  return *problem;
}

/// The message that refuses \p text, which must be invalid.
inline std::string failure(const KernelFamily &family, llvm::StringRef text) {
  auto problem = family.parseProblem(text);
  REQUIRE(!problem);
  return summarize(problem.takeError()).message;
}

/// The reason why \p config may not run, or "none".
inline std::string reason(const KernelFamily &family, llvm::StringRef problem,
                          llvm::StringRef config,
                          const DeviceModel &device = h200()) {
  auto named = family.parseConfig(config);
  if (!named)
    FAIL(summarize(named.takeError()).message);
  auto rejection =
      named->tmpl->prune(parse(family, problem), named->config, device);
  return rejection ? rejection->text() : "none";
}

} // namespace kiln::testing
