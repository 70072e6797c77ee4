#include "Observe/ProfileRange.h"
#include "Observe/NvtxTesting.h"
#include "Observe/Span.h"

using namespace kiln;
using namespace kiln::observe;
using namespace kiln::testing;

TEST_CASE("an engine's ranges enclose Kiln's") {
  NvtxTool tool;
  beginRange(Phase::Step, "step 7");
  beginRange(Phase::Layer, "layer 0");
  {
    const Span span(Phase::Lookup, [] { return std::string("gemm"); });
  }
  CHECK(endRange() == Phase::Layer);
  beginRange(Phase::Range, "sampling");
  CHECK(endRange() == Phase::Range);
  CHECK(endRange() == Phase::Step);
  CHECK(tool.outline() == "step step 7\n"
                          "  layer layer 0\n"
                          "    lookup gemm\n"
                          "  range sampling\n");
  CHECK_FALSE(endRange());
}

TEST_CASE("watching may begin and end while ranges are open") {
  { NvtxTool tool; }
  beginRange(Phase::Step, "unwatched");
  {
    NvtxTool tool;
    beginRange(Phase::Layer, "watched");
    endRange();
    beginRange(Phase::Layer, "half");
    CHECK(tool.outline() == "layer watched\nlayer half\nopen");
  }
  beginRange(Phase::Range, "unwatched");
  endRange();
  CHECK(endRange() == Phase::Layer); // is closed although the tool is gone
  CHECK(endRange() == Phase::Step);
  CHECK(kilnFakeNvtxCount() == 4);
}
