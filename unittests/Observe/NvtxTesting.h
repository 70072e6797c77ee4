//===- NvtxTesting.h - what the stand-in NVTX tool noted ------------------===//
#pragma once

#include "Fakes/FakeNvtx.h"
#include "Observe/Nvtx.h"
#include "Observe/Watch.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace kiln::testing {

/// The stand-in tool, attached for its lifetime.
class NvtxTool {
public:
  explicit NvtxTool(bool isQuiet = false) {
    llvm::Error error = observe::attachNvtx(path());
    const std::string why = summarize(std::move(error)).message;
    CAPTURE(why);
    REQUIRE((observe::watching() & observe::kNvtx));
    kilnFakeNvtxReset(isQuiet);
  }
  ~NvtxTool() { observe::unwatch(observe::kNvtx | observe::kLaunchRanges); }

  static std::string path() {
    return KILN_BINARY_DIR "/lib/libkiln_fake_nvtx.so";
  }

  std::vector<KilnFakeNvtxEvent> events() const {
    std::vector<KilnFakeNvtxEvent> all;
    for (KilnFakeNvtxEvent event; kilnFakeNvtxAt(all.size(), &event);)
      all.push_back(event);
    return all;
  }

  /// The ranges of \p thread, or for 0 all ranges, one a line, indented by
  /// depth: "lookup gemm m=16 ...". Ends with "open" if one was not closed.
  std::string outline(int64_t thread = 0) const {
    std::string text;
    size_t depth = 0;
    for (const KilnFakeNvtxEvent &event : events()) {
      if (thread && event.thread != thread)
        continue;
      if (event.kind == kKilnFakeNvtxPop) {
        REQUIRE(depth > 0);
        --depth;
        continue;
      }
      text += std::string(2 * depth, ' ') + event.category + " " + event.name +
              "\n";
      ++depth;
    }
    return depth ? text + "open" : text;
  }
};

} // namespace kiln::testing
