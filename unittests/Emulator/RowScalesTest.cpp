// Quantised rows whose blocks of 128 columns have scales of their own, and
// results of chains that are quantised, emulated.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

TEST_CASE("emulated: norms with scales of blocks") {
  const std::vector<Sample> samples = {
      {"rmsnorm",
       "rows=3 cols=1024 dtype=bf16 weight=1 residual=1 out=fp8_e4m3 "
       "scale_y=1x128",
       {"resident.t128.rt128.v8.n1.r1.c1.mb1.e1",
        "resident.t128.rt64.v8.n2.r1.c1.mb1",
        "resident.t64.rt8.v8.n16.r1.c1.mb1",
        "resident.t64.rt32.v4.n8.r1.c1.mb1", "reload.t128.rt32.v8.i2.c1",
        "reload.t64.rt8.v8.i4.c1", "spread.t64.v8.i1.k2"}},
      // The last block is partial, lines of scales are of blocks.
      {"rmsnorm",
       "rows=5 cols=1096 dtype=bf16 weight=1 bias=1 out=int8 scale_y=1x128 "
       "scale_order_y=rows ldsy=7",
       {"resident.t128.rt128.v8.n2.r1.c1.mb1",
        "resident.t64.rt64.v8.n1.s2.r1.c1.mb1",
        "resident.t64.rt64.v8.n2.r1.c2.mb1", "reload.t64.rt64.v8.i1.c2",
        "spread.t64.v8.i1.s1.k2.r2"},
       TrialData::Outliers},
      // Rows that begin anywhere are read by elements or pairs.
      {"layernorm",
       "rows=3 cols=301 dtype=bf16 weight=1 bias=1 residual=1 out=fp8_e4m3 "
       "scale_y=1x128 ldsy=5",
       {"resident.t64.rt64.v1.n8.r1.c1.mb1",
        "resident.t32.rt32.v1.n12.r1.c1.mb1", "reload.t64.rt32.v1.i4.c1",
        "reload.t64.rt64.v1.i4.c1"},
       TrialData::Outliers},
      {"layernorm",
       "rows=4 cols=130 dtype=fp16 out=int8 scale_y=1x128 ldx=134",
       {"resident.t64.rt32.v2.n4.r1.c1.mb1",
        "resident.t64.rt32.v2.n4.r2.c1.mb1", "reload.t64.rt32.v2.i2.c1"}},
      // Less than a block, and many rows of a warp.
      {"rmsnorm",
       "rows=37 cols=24 dtype=fp32 weight=1 out=fp8_e4m3 scale_y=1x128",
       {"resident.t64.rt8.v4.n4.r1.c1.mb1", "reload.t64.rt8.v4.i4.c1"},
       TrialData::Outliers}};
  check(samples);
}

TEST_CASE("emulated: quantisation of blocks depends on no statistics") {
  const std::vector<Sample> samples = {
      {"rowquant",
       "rows=3 cols=1096 dtype=bf16 scale_y=1x128",
       {"resident.t64.rt64.v8.n3.r1.c1.mb1",
        "resident.t64.rt64.v8.n1.r1.c1.mb1.g1.k3", "reload.t64.rt64.v8.i2.c1",
        "spread.t64.v8.i1.k3.r2"},
       TrialData::Outliers},
      {"rowquant",
       "rows=9 cols=300 dtype=fp16 op=quant_int8_per_row scale_y=1x128 "
       "scale_order_y=rows align=8"},
      {"rowquant", "rows=2 cols=129 dtype=fp32 scale_y=1x128"}};
  check(samples);
}

TEST_CASE("emulated: chains with quantised results") {
  const std::vector<Sample> samples = {
      // Gate and up lie beside each other.
      {"elementwise",
       "op=silu,mul rows=5 cols=520 dtype=bf16 out=fp8_e4m3 scale_y=1x128 "
       "ldx=1040 ldo=1040"},
      {"elementwise",
       "op=silu,mul rows=5 cols=520 dtype=bf16 out=int8 scale_y=row "
       "ldx=1040 ldo=1040",
       {"resident.t128.rt64.v8.n2.r1.c1.mb1",
        "resident.t128.rt64.v8.n2.r1.c1.mb1.u1",
        "resident.t64.rt64.v8.n1.r1.c2.mb1",
        "resident.t64.rt64.v8.n1.r1.c1.mb1.g1.k2.u1",
        "reload.t64.rt64.v8.i1.c1", "spread.t64.v8.i1.s1.k2"},
       TrialData::Outliers},
      // Each matrix lies elsewhere.
      {"elementwise",
       "op=gelu_tanh,mul,add rows=3 cols=333 dtype=fp16 out=fp8_e4m3 "
       "scale_y=row ldo=339 align=2"},
      {"elementwise",
       "op=bias,relu,scale,col_scale rows=7 cols=301 dtype=fp32 out=int8 "
       "scale_y=row scale=0.5"},
      {"elementwise",
       "op=bias,gelu_erf rows=3 cols=200 dtype=bf16 out=int8 scale_y=1x128"},
      {"elementwise", "rows=3 cols=40 dtype=bf16 out=fp8_e4m3 scale_y=row"}};
  check(samples);
}
