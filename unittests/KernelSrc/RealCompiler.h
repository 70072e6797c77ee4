// The real NVRTC for tests that compile the real texts.
#pragma once

#include "Compile/Compiler.h"
#include "Families/FamilyTesting.h"
#include "Support/Environment.h"

namespace kiln::testing {

inline Compiler &compiler() {
  static Compiler instance(NvrtcSearch::fromEnvironment(
      Environment::fromProcess(), {KILN_SOURCE_DIR "/build/cuda"}));
  return instance;
}

/// False, with a message, if there is no NVRTC.
inline bool hasNvrtc() {
  auto nvrtc = compiler().nvrtc();
  if (nvrtc)
    return true;
  MESSAGE("skipped: ", summarize(nvrtc.takeError()).message);
  return false;
}

/// Checks that \p unit is refused for \p reason if \p text replaces \p known.
inline void checkRefused(const TranslationUnit &unit, llvm::StringRef known,
                         llvm::StringRef text, llvm::StringRef reason) {
  UnitParts parts = unit.parts();
  size_t at = parts.source.find(known.str());
  REQUIRE(at != std::string::npos);
  parts.source.replace(at, known.size(), text.str());
  auto artifact = compiler().compile(TranslationUnit(parts));
  REQUIRE(!artifact);
  CHECK(llvm::StringRef(llvm::toString(artifact.takeError())).contains(reason));
}

} // namespace kiln::testing
