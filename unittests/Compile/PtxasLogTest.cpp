#include "Compile/PtxasLog.h"

#include <doctest/doctest.h>

using namespace kiln;

/// As NVRTC 13.0 writes it, with two kernels, a call, a remark and NULs.
static const char kLog[] =
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
    "instructions are serialized in function 'kilnEntry'\n"
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
    "instructions are serialized in function 'kilnEntry'\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
    "ptxas info    : Function properties for other\n"
    "ptxas         .     8 bytes stack frame, 9 bytes spill stores, 10 bytes "
    "spill loads\n"
    "ptxas info    : Used 11 registers, used 0 barriers\n"
    "ptxas info    : Compiling entry function 'kilnEntry' for 'sm_90a'\n"
    "ptxas info    : Function properties for kilnEntry\n"
    "ptxas         .     64 bytes stack frame, 24 bytes spill stores, 32 bytes "
    "spill loads\n"
    "ptxas info    : Used 118 registers, used 1 barriers, 256 bytes smem, 372 "
    "bytes cmem[0], 8 bytes cmem[2]\n"
    "ptxas info    : Function properties for helper\n"
    "ptxas         .     1 bytes stack frame, 2 bytes spill stores, 3 bytes "
    "spill loads\n"
    "ptxas info    : Compile time = 41.219 ms\n"
    "\0File name, phase name, metric, unit\n"
    "kiln_x, CUDA C++ Frontend, 14, ms\n"
    "kiln_x, NVVM Optimizer, 46, ms\n"
    "kiln_x, PTX Translation, 23.5, ms\n";

static llvm::StringRef log() { return {kLog, sizeof(kLog) - 1}; }

TEST_CASE("only the entry's resources are taken") {
  ResourceUsage usage = parseResourceUsage(log(), "kilnEntry");
  CHECK(usage.registersPerThread == 118);
  CHECK(usage.stackBytes == 64);
  CHECK(usage.spillStoreBytes == 24);
  CHECK(usage.spillLoadBytes == 32);
  CHECK(usage.staticSharedBytes == 256);
  CHECK(usage.constantBytes == 380);

  usage = parseResourceUsage(log(), "other");
  CHECK(usage.registersPerThread == 11);
  CHECK(usage.spillLoadBytes == 10);
  CHECK(usage.staticSharedBytes == 0);

  CHECK(parseResourceUsage(log(), "kiln") == ResourceUsage());
}

TEST_CASE("the older layout without a prefix parses as well") {
  ResourceUsage usage = parseResourceUsage(
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "ptxas info    : Function properties for k\n"
      "    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 32 registers, 400 bytes cmem[0]\n",
      "k");
  CHECK(usage.stackBytes == 16);
  CHECK(usage.spillStoreBytes == 4);
  CHECK(usage.spillLoadBytes == 8);
  CHECK(usage.registersPerThread == 32);
}

TEST_CASE("advisories are listed once, with their text") {
  std::vector<Advisory> advisories = parseAdvisories(log());
  REQUIRE(advisories.size() == 1);
  CHECK(advisories[0].code == "C7510");
  CHECK(advisories[0].text.rfind("Potential Performance Loss", 0) == 0);
  CHECK(parseAdvisories("a (C75) b\n(C75xx) c\n(C7519 d").empty());
}

TEST_CASE("phase times are read behind the embedded NUL") {
  PhaseTimes phases = parsePhaseTimes(log());
  CHECK(phases.frontEndMs == 14);
  CHECK(phases.nvvmMs == 46);
  CHECK(phases.ptxasMs == 23.5);
  CHECK(parsePhaseTimes("a, b, c\n, , , ms\n") == PhaseTimes());
}
