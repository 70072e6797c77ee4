// Attention over K and V that a step collects, in one round and in several.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

namespace {

const std::string kWgmma = "sm90.wg1.bn64.st2.pk1.kc1";
const std::string kSync64 = "mma.dt15.d64.br64.bc64.w4.ac1.el1.sw1.kt2.vt2."
                            "os1";

} // namespace

TEST_CASE("emulated: caches of e4m3 beside 16-bit queries") {
  const std::string rounds = ".cr1";
  check({{"attention",
          "batch=3 sq=70 sk=1000 heads=8 kvheads=4 d=64 dtype=bf16 kv=e4m3 "
          "mask=causal scales=head lse=1",
          {kWgmma + rounds, kWgmma + ".sp2" + rounds, kSync64 + rounds}},
         {"attention",
          "batch=2 sq=70 sk=130 heads=4 kvheads=2 d=64 dtype=bf16 kv=e4m3 "
          "scales=tensor softcap=5 sinks=1",
          {kWgmma + ".cr32", kSync64 + ".cr32"}},
         // Outliers of e4m3 and windows that begin behind the first key.
         {"attention",
          "batch=2 sq=40 sk=900 heads=4 kvheads=2 d=64 dtype=bf16 kv=e4m3 "
          "mask=window left=100 right=3 kvlen=used",
          {kWgmma + ".cr32", kWgmma + rounds},
          TrialData::Outliers}});
}

// A head of K at a time.
TEST_CASE("emulated: rounds of heads") {
  check({{"attention",
          "batch=2 sq=35 sk=2100 heads=6 kvheads=3 d=64 dtype=bf16 kv=e4m3 "
          "scales=head sinks=1 alibi=1 lse=1",
          {kWgmma + ".cr1", kSync64 + ".cr1"}},
         {"attention",
          "batch=3 sq=30 sk=1500 heads=4 kvheads=4 d=64 dtype=bf16 kv=e4m3 "
          "qlen=packed kvlen=packed mask=causal scales=head lse=1",
          {kWgmma + ".cr1", kSync64 + ".cr1"}}});
}

TEST_CASE("emulated: pages of a few tokens") {
  check({{"attention",
          "batch=4 sq=40 sk=600 heads=4 kvheads=2 d=64 dtype=bf16 kvlen=used "
          "pages=table page=1 mask=causal lse=1",
          {kWgmma + ".cr1", kWgmma + ".sp2.cr32"}},
         {"attention",
          "batch=4 sq=40 sk=600 heads=4 kvheads=2 d=64 dtype=bf16 kv=e4m3 "
          "qlen=packed kvlen=used pages=list page=3 mask=causal lse=1",
          {kWgmma + ".cr1", kSync64 + ".cr1"}},
         {"attention",
          "batch=2 sq=100 sk=300 heads=2 kvheads=1 d=64 dtype=e4m3 kvlen=used "
          "pages=table page=16 scales=tensor mask=window left=70 right=0",
          {kWgmma + ".cr32"}}});
}

TEST_CASE("emulated: rows of e4m3 that tensor cores take as 16 bits alone") {
  const std::string sync112 =
      "mma.dt15.d112.br64.bc64.w4.ac1.el1.sw1.kt2.vt2.os1.cr1";
  check({{"attention",
          "batch=3 sq=50 sk=700 heads=4 kvheads=2 d=104 dtype=e4m3 "
          "scales=head qlen=packed mask=causal lse=1",
          {kWgmma + ".cr1", sync112}},
         {"attention",
          "batch=2 sq=50 sk=300 heads=4 kvheads=2 d=36 dv=44 dtype=e4m3 "
          "out=fp16 align=4",
          {"mma.dt5.d48.br64.bc64.w4.ac1.el1.sw1.kt2.vt2.os1.cr1"}},
         // K and V that no wide access reads.
         {"attention",
          "batch=2 sq=70 sk=300 heads=2 kvheads=1 d=64 dtype=fp16 ldk=67 "
          "ldv=65",
          {kWgmma + ".cr32"}}});
}

TEST_CASE("emulated: attention over rows that begin anywhere") {
  check({{"attention",
          "batch=2 sq=70 sk=300 heads=4 kvheads=2 d=57 dv=39 dtype=bf16 "
          "mask=causal lse=1",
          {kWgmma + ".cr32", kSync64 + ".cr32", kWgmma + ".sp2.cr1"}},
         {"attention",
          "batch=3 sq=40 sk=1500 heads=4 kvheads=2 d=64 dtype=fp16 align=2 "
          "qlen=packed kvlen=used sinks=1 alibi=1 lse=1",
          {kWgmma + ".cr1",
           "mma.dt5.d64.br64.bc64.w4.ac1.el1.sw1.kt2.vt2.os1.cr1"}},
         // Bytes of K and V that begin anywhere beside 16 bits.
         {"attention",
          "batch=2 sq=40 sk=200 heads=4 kvheads=2 d=61 dtype=fp16 kv=e4m3 "
          "align=1 scales=tensor mask=causal",
          {kWgmma + ".cr32",
           "mma.dt5.d64.br64.bc64.w4.ac1.el1.sw1.kt2.vt2.os1.cr32"}},
         {"attention",
          "batch=2 sq=40 sk=200 heads=4 kvheads=2 d=64 dtype=fp16 kv=e4m3 "
          "align=1 qlen=packed lse=1",
          {kWgmma + ".cr32"}},
         {"attention",
          "batch=2 sq=40 sk=200 heads=2 d=61 dtype=e4m3 scales=head align=1 "
          "kvlen=used pages=table page=5",
          {kWgmma + ".cr32", kSync64 + ".cr32"}}});
}

TEST_CASE("emulated: decoding over rows that begin anywhere") {
  check({{"attention",
          "batch=3 sq=1 sk=700 heads=4 kvheads=2 d=57 dtype=bf16 lse=1",
          {"decode.r8.t16.st3.w4.cr1", "decode.r8.t16.st3.w4.f8.cr32"}},
         {"attention",
          "batch=2 sq=2 sk=300 heads=6 kvheads=3 d=64 dtype=fp16 kv=e4m3 "
          "align=1 kvlen=used pages=table page=3 mask=causal scales=head",
          {"decode.r8.t16.st3.w4.cr32"}}});
}
