// Rows that stay on the chip, emulated: several of them a thread, and rows that
// leave no thread short of more than its last vector.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

// The last groups are short of rows, or have none.
TEST_CASE("emulated: several rows a thread") {
  check({{"layernorm",
          "rows=19 cols=1000 dtype=bf16 weight=1 bias=1",
          {"resident.t64.rt64.v8.n2.r2.c1.mb1",
           "resident.t128.rt64.v8.n1.s1.r4.c1.mb1",
           "resident.t64.rt64.v8.n1.r2.c2.mb1"},
          TrialData::Outliers},
         // Rows of a thread begin alike, so others lie between them.
         {"layernorm",
          "rows=37 cols=1001 dtype=bf16 weight=1 bias=1",
          {"resident.t64.rt64.v8.n2.r2.c1.mb1.o1.e2",
           "resident.t128.rt64.v8.n1.s1.r4.c1.mb1.o1",
           "resident.t64.rt64.v8.n1.r2.c2.mb1.o1.h1",
           "resident.t128.rt8.v8.n16.r2.c1.mb1.o1"},
          TrialData::Outliers},
         {"layernorm",
          "rows=21 cols=1003 dtype=bf16 weight=1 bias=1 residual=1",
          {"resident.t64.rt64.v8.n1.r4.c2.mb1.o1"}},
         {"rmsnorm",
          "rows=9 cols=1003 dtype=fp32 weight=1",
          {"resident.t64.rt64.v4.n2.s2.r2.c1.mb1.o1"}},
         {"layernorm",
          "rows=19 cols=1000 dtype=bf16 weight=1 bias=1 out=fp8_e4m3",
          {"resident.t64.rt64.v8.n1.s1.r2.c2.mb1"}},
         {"softmax",
          "rows=19 cols=1001 dtype=bf16 mask=2",
          {"resident.t64.rt64.v8.n2.r2.c1.mb1.o1"},
          TrialData::Outliers},
         {"softmax",
          "rows=7 cols=1000 dtype=bf16 mask=1",
          {"resident.t64.rt64.v8.n2.r2.c1.mb1",
           "resident.t64.rt64.v8.n2.r2.c1.mb1.u1"}}});
}

TEST_CASE("emulated: norms to quantise that keep weighted values") {
  check({{"rmsnorm",
          "rows=13 cols=512 dtype=bf16 weight=1 out=fp8_e4m3",
          {"resident.t64.rt64.v8.n1.r1.c1.mb1.e1.u1",
           "resident.t128.rt32.v8.n2.r2.c1.mb1.e1.u1",
           "resident.t128.rt16.v8.n4.r4.c1.mb1.e1.u1"},
          TrialData::Outliers},
         {"rmsnorm",
          "rows=9 cols=1003 dtype=bf16 weight=1 out=int8",
          {"resident.t64.rt64.v8.n2.r1.c1.mb1.o1.u1",
           "resident.t64.rt64.v8.n1.r1.c2.mb1.o1.u1",
           "resident.t64.rt64.v8.n2.r2.c1.mb1.o1.u1",
           "resident.t64.rt64.v8.n1.r1.c1.mb1.o1.g1.u1.k2"},
          TrialData::Outliers},
         {"rmsnorm",
          "rows=11 cols=1000 dtype=fp16 weight=1 residual=1 out=fp8_e4m3",
          {"resident.t128.rt32.v8.n4.r1.c1.mb1.u1"}},
         {"rmsnorm",
          "rows=9 cols=999 dtype=bf16 weight=1 residual=1 out=int8",
          {"resident.t64.rt64.v8.n2.r1.c1.mb1.o1.u1"}},
         {"rmsnorm",
          "rows=7 cols=601 dtype=fp32 weight=1 out=int8 ldx=603 align=4",
          {"resident.t64.rt64.v4.n3.r1.c1.mb1.o2.u1"}},
         {"rmsnorm",
          "rows=5 cols=1000 dtype=bf16 out=int8",
          {"resident.t64.rt64.v8.n2.r1.c1.mb1.e2.u1"}}});
}

TEST_CASE("emulated: rows that fill all but a thread's last vector") {
  check({{"layernorm",
          "rows=5 cols=4000 dtype=bf16 weight=1 bias=1",
          {"resident.t64.rt64.v8.n8.r1.c1.mb1.e2",
           "resident.t64.rt64.v8.n3.s1.r1.c2.mb1.e2"},
          TrialData::Outliers},
         {"layernorm",
          "rows=9 cols=4003 dtype=bf16 weight=1 bias=1",
          {"resident.t64.rt64.v8.n8.r1.c1.mb1.o1.e2",
           "resident.t64.rt64.v8.n2.r1.c4.mb1.o1.e2",
           "resident.t64.rt64.v8.n2.r1.c1.mb1.o1.e2.g1.k4"},
          TrialData::Outliers},
         // More vectors than a collector sums around one pivot.
         {"layernorm",
          "rows=3 cols=9001 dtype=fp16 weight=1 bias=1",
          {"resident.t64.rt64.v8.n8.s10.r1.c1.mb1.o1.e2",
           "resident.t128.rt128.v8.n9.r1.c1.mb1.o1"},
          TrialData::Outliers},
         {"softmax",
          "rows=9 cols=2003 dtype=bf16 mask=1 ldmask=2005 align=2",
          {"resident.t64.rt64.v8.n4.r1.c1.mb1.o2.e2",
           "resident.t64.rt64.v8.n4.r1.c1.mb1.o2.e2.u1"}},
         {"rmsnorm",
          "rows=9 cols=1999 dtype=fp32 weight=1",
          {"resident.t64.rt64.v4.n4.r1.c2.mb1.o1.e2"}},
         {"reduce",
          "op=max rows=5 cols=4003 dtype=bf16",
          {"resident.t64.rt64.v8.n8.r1.c1.mb1.o1.e2"}}});
}
