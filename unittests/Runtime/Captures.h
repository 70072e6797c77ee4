//===- Captures.h - streams of the stand-in in capture --------------------===//
#pragma once

#include "Driver/Graph.h"
#include "Runtime/RuntimeFixture.h"

namespace kiln::testing {

inline bool beginCapture(RuntimeFixture &fixture, kiln_stream stream) {
  return !llvm::errorToBool(Graph::beginCapture(fixture.gpu.driver(), stream));
}

/// The number of nodes that were captured.
inline size_t endCapture(RuntimeFixture &fixture, kiln_stream stream) {
  auto graph = Graph::endCapture(fixture.gpu.driver(), stream);
  REQUIRE(static_cast<bool>(graph));
  return graph->nodeCount();
}

} // namespace kiln::testing
