// Units and compilers that the tests of lib/Compile share.
#pragma once

#include "Compile/Compiler.h"
#include "Fakes/FakeNvrtc.h"

#include <memory>
#include <string>

inline kiln::UnitParts
makeParts(std::string arch = "sm_80",
          std::string body = "out[threadIdx.x] = 1.0f;") {
  kiln::UnitParts unit;
  unit.name = "kiln_test";
  unit.arch = std::move(arch);
  unit.source =
      "extern \"C\" __global__ void kilnEntry(float *out) { " + body + " }\n";
  return unit;
}

inline kiln::TranslationUnit
makeUnit(std::string arch = "sm_80",
         std::string body = "out[threadIdx.x] = 1.0f;") {
  return kiln::TranslationUnit(makeParts(std::move(arch), std::move(body)));
}

inline kiln::NvrtcSearch fakeSearch() {
  kiln::NvrtcSearch search;
  search.explicitPath = FakeNvrtc::path(KILN_BINARY_DIR);
  return search;
}

inline std::shared_ptr<const kiln::SourceSet>
makeSources(std::vector<kiln::SourceFile> files) {
  return llvm::cantFail(kiln::SourceSet::create(std::move(files)));
}
