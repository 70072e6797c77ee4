// Kernels of all families, emulated, against their references, which are
// emulated as well.
#include "Emulator/EmulatedTrials.h"

#include <llvm/ADT/StringExtras.h>

#include <cstdlib>
#include <fstream>

using namespace kiln;
using namespace kiln::emulated;

TEST_CASE("emulated: attention of prefill") {
  check({{"attention",
          "batch=1 sq=100 sk=150 heads=2 kvheads=1 d=64 dtype=bf16 mask=causal "
          "lse=1",
          {"sm90.wg1.bn96.st3.pk1", "sm90.wg3.bn128.st3.or1.pk1"}},
         {"attention",
          "batch=2 sq=130 sk=300 heads=2 kvheads=1 d=128 dtype=fp16 "
          "mask=causal kvlen=used pages=table page=16 sinks=1",
          {"sm90.wg2.bn128.st2.pk1"}},
         // Scores grow far beyond the first block's.
         {"attention",
          "batch=1 sq=150 sk=400 heads=2 d=128 dtype=bf16 scale=4 lse=1",
          {"sm90.wg2.bn128.st2.or1.pk1"}}});
}

TEST_CASE("emulated: tiles of attention that follow each other") {
  check({{"attention",
          "batch=1 sq=500 sk=500 heads=1 d=64 dtype=bf16 mask=causal lse=1",
          {"sm90.wg3.bn64.st3.or1.pk1", "sm90.wg2.bn96.st2.dy1.pk1"}},
         // Some blocks of keys pass a consumer at both ends of a tile.
         {"attention",
          "batch=1 sq=500 sk=500 heads=1 d=64 dtype=bf16 mask=window left=100 "
          "right=70",
          {"sm90.wg3.bn64.st3.or1.pk1", "sm90.wg2.bn112.st3.pk1"}},
         // So many that there are no stages for them.
         {"attention",
          "batch=1 sq=1000 sk=1000 heads=1 d=96 dtype=bf16 mask=window "
          "left=100 right=0",
          {"sm90.wg3.bn96.st2.pk1"}},
         {"attention",
          "batch=1 sq=900 sk=900 heads=1 d=96 dtype=bf16 mask=causal",
          {"sm90.wg3.bn32.st2.or1.pk1"}},
         // Sequences end anywhere.
         {"attention",
          "batch=4 sq=150 sk=200 heads=2 d=32 dtype=fp16 qlen=packed "
          "kvlen=packed mask=causal lse=1",
          {"sm90.wg2.bn64.st3.or1.dy1.pk1"}}},
        2);
}

TEST_CASE("emulated: attention of decoding") {
  check({{"attention",
          "batch=2 sq=1 sk=500 heads=8 kvheads=2 d=128 dtype=bf16 kvlen=used "
          "lse=1"},
         {"attention", "batch=2 sq=2 sk=200 heads=16 kvheads=1 d=576 dv=512 "
                       "dtype=bf16 latent=1 mask=causal"},
         {"attention",
          "batch=2 sq=2 sk=300 heads=64 kvheads=1 d=576 dv=512 dtype=bf16 "
          "latent=1 lse=1",
          {"sm90mla.cl1.pc2.f2", "sm90mla.cl2.pc4"}}});
}

TEST_CASE("emulated: rotary embeddings, and appends to caches") {
  const std::string sizes = "tokens=21 heads=5 kvheads=2 dtype=bf16 ";
  const std::string caches = "kcache=1 vcache=1 page=4 ";
  check(
      {{"rope", sizes + caches + "d=64 rotary=64 slots=array"},
       {"rope",
        sizes + caches + "d=64 rotary=64 slots=table qnorm=1 knorm=1 eps=1e-6",
        {"heads.t64.v8.i1", "heads.t128.v4.i4", "heads.t64.v1.i8",
         "heads.t64.v8.i4.sh1", "heads.t64.v2.i2.sh1"}},
       {"rope",
        sizes + caches +
            "d=96 dv=40 rotary=48 offset=16 style=interleaved slots=table "
            "seqs=1 kv=e4m3 scales=head pagerows=3",
        {"heads.t64.v4.i1", "heads.t64.v2.i2", "heads.t64.v4.i2.sh1"}},
       // In any order, and with a norm of weights that are stored less 1.
       {"rope",
        sizes + "d=48 rotary=16 offset=32 kout=1 qnorm=1 unit=1 "
                "style=interleaved_to_halves table=bf16 index=int64",
        {"heads.t64.v8.i2", "heads.t32.v2.i1", "heads.t64.v8.i8.sh1"}},
       {"rope", sizes + "kcache=1 page=4 d=576 rotary=64 offset=512 "
                        "slots=array index=int64 kv=e4m3 scales=tensor"},
       // An append alone.
       {"rope", "tokens=21 kvheads=3 d=40 dtype=fp16 kcache=1 vcache=1 "
                "page=1 slots=array"},
       // Heads of V have more units than those of K.
       {"rope",
        sizes + caches + "d=64 dv=128 rotary=64 slots=array",
        {"heads.t64.v1.i1", "heads.t64.v2.i2.sh1"}},
       // Addresses of whole elements.
       {"rope",
        sizes + "d=33 rotary=22 kout=1 knorm=1 align=2",
        {"heads.t64.v1.i1"}}});
}

TEST_CASE("emulated: decoding of rows that 16 bytes do not divide") {
  const std::string split = "decode.r8.t16.st3.w4.f8",
                    wide = "decode.r16.t32.st2.w4",
                    cluster = "decode.r8.t16.st3.w4.cl1.f8";
  check({{"attention",
          "batch=2 sq=1 sk=500 heads=8 kvheads=2 d=100 dtype=bf16 kvlen=used "
          "lse=1",
          {split, cluster, wide}},
         {"attention",
          "batch=2 sq=3 sk=300 heads=4 kvheads=2 d=36 dtype=fp16 mask=causal "
          "kvlen=used pages=table page=16 sinks=1",
          {split, wide}},
         // 4 bytes: the last columns of O are two.
         {"attention",
          "batch=3 sq=1 sk=400 heads=8 kvheads=2 d=98 dv=34 dtype=bf16 "
          "qlen=packed kvlen=packed lse=1 alibi=1",
          {split, wide}},
         {"attention",
          "batch=2 sq=2 sk=300 heads=8 kvheads=2 d=104 dtype=bf16 kv=e4m3 "
          "scales=head kvlen=used pages=list page=5 lse=1",
          {split, wide}},
         {"attention",
          "batch=1 sq=1 sk=300 heads=8 kvheads=2 d=100 dv=44 dtype=e4m3 "
          "softcap=20",
          {split, wide}},
         // Aligned rows, 8 and 4 bytes apart from that.
         {"attention",
          "batch=1 sq=1 sk=300 heads=4 kvheads=2 d=64 dtype=bf16 ldk=148 "
          "ldv=148 align=8",
          {split}},
         {"attention",
          "batch=1 sq=1 sk=300 heads=4 kvheads=2 d=128 dtype=bf16 align=4",
          {split}},
         // Parts of the columns of O that are not equally wide.
         {"attention",
          "batch=1 sq=1 sk=300 heads=8 kvheads=2 d=320 dtype=bf16 kv=e4m3 "
          "lse=1",
          {"decode.r8.t16.st3.w4.p2.sq1.f8"}},
         {"attention",
          "batch=1 sq=1 sk=200 heads=8 kvheads=2 d=320 dtype=bf16",
          {"decode.r16.t16.st3.w4.p2.sq1"}},
         {"attention",
          "batch=1 sq=1 sk=200 heads=2 kvheads=1 d=572 dv=508 dtype=bf16 "
          "latent=1"}},
        6);
}

TEST_CASE("emulated: groups of more heads than a tile has rows") {
  const std::string ragged = "sm90.wg1.bn64.st3.pk36.rg1",
                    wide = "sm90.wg2.bn64.st2.pk36.rg1",
                    rows = "decode.r32.t16.st3.w4",
                    few = "decode.r16.t32.st2.w4";
  check({{"attention",
          "batch=2 sq=1 sk=300 heads=142 kvheads=2 d=64 dtype=bf16 lse=1 "
          "sinks=1 alibi=1",
          {ragged, ragged + ".sp3", rows, few, rows + ".cl1.f8"}},
         {"attention",
          "batch=2 sq=3 sk=200 heads=71 kvheads=1 d=64 dtype=fp16 mask=causal "
          "kvlen=used pages=table page=16 lse=1",
          {wide, ragged + ".sp2", rows}},
         {"attention",
          "batch=3 sq=2 sk=200 heads=96 kvheads=1 d=64 dtype=bf16 qlen=packed "
          "kvlen=packed mask=causal",
          {"sm90.wg1.bn64.st3.dy1.pk48", rows}},
         // The last tile of a token has one row less than its first.
         {"attention",
          "batch=1 sq=2 sk=150 heads=127 kvheads=1 d=64 dtype=bf16 lse=1",
          {"sm90.wg1.bn64.st3.pk64.rg1"}},
         {"attention",
          "batch=1 sq=2 sk=150 heads=71 kvheads=1 d=64 dtype=e4m3 scales=head "
          "mask=causal",
          {"sm90.wg2.bn96.st2.pk36.rg1"}}},
        6);
}

// tanh of next to nothing keeps its digits: a cap multiplies its error.
TEST_CASE("emulated: softcaps far above the scores") {
  for (const char *softcap : {"softcap=1e3 ", "softcap=1e7 "})
    check({{"attention", softcap + std::string("batch=1 sq=3 sk=100 heads=2 "
                                               "d=64 dtype=bf16 lse=1")}});
}

TEST_CASE("emulated: attention of e4m3") {
  check({{"attention", "batch=1 sq=130 sk=200 heads=2 d=128 dtype=e4m3 "
                       "scales=tensor mask=causal"},
         // Scores grow far beyond the first block's.
         {"attention",
          "batch=1 sq=100 sk=600 heads=1 d=64 dtype=e4m3 scale=8 lse=1",
          {"sm90.wg2.bn128.st3.pk1"},
          TrialData::Outliers},
         // One key counts, whose products cancel.
         {"attention",
          "batch=2 sq=1 sk=191 heads=40 kvheads=1 d=192 dv=128 dtype=e4m3 "
          "mask=window left=0 right=1 scale=1 sinks=1 lse=1 scales=tensor",
          {"sm90.wg2.bn128.st2.or1.pk1"},
          TrialData::Outliers},
         // Sums that are denormal.
         {"attention",
          "batch=2 sq=200 sk=700 heads=2 kvheads=2 d=192 dtype=e4m3 dv=64 "
          "mask=causal scales=head kvlen=used scale=1",
          {"sm90.wg1.bn64.st2.pk1"},
          TrialData::Outliers},
         // Operands that begin anywhere.
         {"attention",
          "batch=2 sq=5 sk=70 heads=2 d=64 dtype=e4m3 align=1",
          {"naive.w4"}},
         {"attention",
          "batch=2 sq=5 sk=70 heads=2 d=64 dtype=fp16 kv=e4m3 align=1",
          {"naive.w4"}}});
}

TEST_CASE("emulated: two attentions become one") {
  check({{"attention_merge", "batch=2 rows=5 heads=3 d=64 dtype=bf16"}});
}

TEST_CASE("emulated: products of matrices") {
  check({{"gemm", "m=100 n=136 k=200 dtype=bf16 layout=TN"},
         {"gemm", "m=70 n=72 k=96 dtype=fp16 layout=NN pointwise=bias,silu"},
         {"gemm", "m=4 n=200 k=512 dtype=bf16 layout=NT"},
         {"gemm", "m=33 n=40 k=60 dtype=fp32 layout=NT"}});
}

TEST_CASE("emulated: products of short pieces across k") {
  const std::string wide = "mma.bm128.bn128.bk32.st3.wm2.wn4.mb1";
  const std::string split = "mma.bm64.bn128.bk32.st3.wm1.wn4.mb2.sp1.sk2";
  check({{"gemm",
          "m=131 n=133 k=67 dtype=fp32 compute=tf32 layout=TN",
          {wide, split}},
         {"gemm", "m=130 n=134 k=70 dtype=fp32 compute=tf32 layout=TT", {wide}},
         {"gemm", "m=131 n=133 k=67 dtype=bf16 layout=TN", {wide, split}},
         {"gemm", "m=130 n=134 k=70 dtype=fp16 layout=NN", {wide, split}}});
}

TEST_CASE("emulated: exact products of fp32") {
  const std::string rows = "ffma.bm64.bn128.bk16.st3.tm8.tn8.lm4.wk1.mb2";
  const std::string groups = "ffma.bm32.bn64.bk32.st2.tm8.tn8.lm4.wk4.mb2";
  const std::string transposed =
      "ffma.bm32.bn64.bk32.st3.tm8.tn8.lm4.wk4.tr1.mb2.sp1.sk3";
  const std::string thin = "ffma.bm16.bn64.bk32.st4.tm8.tn4.lm2.wk4.mb2";
  const std::string narrow = "ffma.bm64.bn8.bk32.st4.tm4.tn4.lm16.wk4.mb2";
  check({{"gemm",
          "m=70 n=132 k=200 dtype=fp32 layout=NT",
          {rows, groups, transposed, thin, narrow}},
         {"gemm",
          "m=37 n=67 k=301 dtype=fp32 layout=NT align=4",
          {rows, groups, transposed, thin}},
         {"gemm",
          "m=68 n=130 k=90 dtype=fp32 layout=NN pointwise=bias,relu",
          {rows, transposed, thin}},
         {"gemm",
          "m=72 n=68 k=200 dtype=fp32 layout=TN beta=1",
          {rows, groups, thin, narrow}},
         {"gemm",
          "m=71 n=132 k=129 dtype=fp32 layout=TT align=4",
          {transposed, thin}},
         {"gemm", "m=40 n=136 k=0 dtype=fp32 layout=NT", {groups, transposed}},
         {"gemm",
          "m=20 n=136 k=70 batch=2 dtype=fp32 layout=NT "
          "pointwise=swiglu",
          {transposed, thin}},
         {"gemm",
          "m=3 n=100 k=300 dtype=fp32 layout=NT",
          {"gemv.r4.u4.w4.wk4.v4.mb4", "gemv.r2.u4.w4.wk2.v4.mb4"}}});
}

// Whole waves and a last one of splits, of all numbers of tiles beside them.
TEST_CASE("emulated: exact products of fp32 whose last wave is split") {
  auto split = [](int splits, int waveBlocks) {
    return fmt::format("ffma.bm32.bn64.bk32.st3.tm8.tn8.lm4.wk4.mb2.sp1.sk{}"
                       ".wb{}",
                       splits, waveBlocks);
  };
  check({{"gemm",
          "m=300 n=257 k=100 dtype=fp32 layout=TN", // 50 tiles
          {split(2, 8), split(3, 49), split(2, 50), split(3, 51)}},
         {"gemm",
          "m=70 n=130 k=97 dtype=fp32 layout=NN batch=5 pointwise=bias",
          {split(2, 7), split(3, 20)}}});
}

// A transposed tile may have sides of 96 and 192.
TEST_CASE("emulated: exact products of fp32 in thirds") {
  const std::string tall = "ffma.bm192.bn128.bk32.st4.tm12.tn8.lm4.wk1.tr1.mb1";
  const std::string half =
      "ffma.bm96.bn128.bk32.st3.tm12.tn8.lm4.wk1.tr1.mb2.sp1.sk2";
  const std::string groups =
      "ffma.bm96.bn64.bk32.st5.tm12.tn8.lm4.wk2.tr1.mb2.sp1.sk3";
  const std::string wide = "ffma.bm128.bn192.bk32.st5.tm8.tn12.lm4.wk1.tr1.mb1";
  check({{"gemm",
          "m=200 n=196 k=100 dtype=fp32 layout=NT",
          {tall, half, groups, wide}},
         {"gemm",
          "m=97 n=193 k=131 dtype=fp32 layout=NT align=4 pointwise=bias,relu",
          {tall, groups, wide}},
         {"gemm",
          "m=195 n=130 k=200 dtype=fp32 layout=NN beta=1",
          {tall, half, groups}},
         {"gemm", "m=95 n=67 k=33 dtype=fp32 layout=NN align=4", {half}},
         {"gemm",
          "m=132 n=200 k=97 dtype=fp32 layout=TT pointwise=swiglu",
          {wide}},
         {"gemm",
          "m=65 n=191 k=64 batch=2 dtype=fp32 layout=TT align=4",
          {wide}}});
}

TEST_CASE("emulated: tf32 by wgmma") {
  check({// Both operands along k; rows from registers, of one consumer and of
         // two that take turns; columns that are transposed, and both.
         {"gemm",
          "m=70 n=136 k=100 dtype=fp32 compute=tf32 layout=NT pointwise=bias",
          {"sm90.bm64.bn72.bk32.st3.wg1.cm1.cn1"}},
         {"gemm",
          "m=132 n=72 k=99 dtype=fp32 compute=tf32 layout=TT",
          {"sm90.bm64.bn40.bk32.st3.wg1.cm1.cn1",
           "sm90.bm128.bn64.bk32.st3.wg2.pp1.cm1.cn1"}},
         {"gemm",
          "m=70 n=131 k=77 dtype=fp32 compute=tf32 layout=TN batch=2 beta=1",
          {"sm90.bm40.bn64.bk32.st3.wg1.sw1.cm1.cn1"}}});
}

// Two tiles compute the rows that they share to the last bit alike, and a last
// row or column does not depend on what lies beyond it in shared memory.
TEST_CASE("emulated: activations that share a reciprocal") {
  check({{"gemm",
          "m=293 n=8 k=4 dtype=fp32 compute=tf32 layout=NT pointwise=gelu_tanh",
          {"sm90.bm16.bn64.bk32.st12.wg1.sw1.cm1.cn1",
           "sm90.bm64.bn16.bk32.st6.wg1.cm1.cn1"}},
         {"gemm",
          "m=37 n=72 k=40 dtype=fp32 compute=tf32 layout=NT pointwise=silu",
          {"sm90.bm40.bn64.bk32.st3.wg1.sw1.cm1.cn1"}},
         {"gemm",
          "m=70 n=37 k=40 dtype=fp32 compute=tf32 layout=NT pointwise=silu",
          {"sm90.bm64.bn40.bk32.st3.wg1.cm1.cn1"}}});
}

TEST_CASE("emulated: rows, elements and transposes") {
  check({{"elementwise", "op=silu,mul rows=5 cols=1000 dtype=bf16"},
         {"softmax", "rows=5 cols=1000 dtype=fp16"},
         {"rmsnorm", "rows=3 cols=2048 dtype=bf16"},
         {"transpose2d", "rows=70 cols=130 dtype=bf16"}});
}

// Rows that begin anywhere: all that is written has canaries around it, and
// what is not an operand's faults.
TEST_CASE("emulated: rows of any length and pitch") {
  check({{"softmax",
          "rows=5 cols=1001 dtype=bf16",
          {"resident.t128.rt128.v8.n1.r1.c1.mb1.o1",
           "resident.t64.rt32.v8.n4.r1.c1.mb1.o1",
           "resident.t128.rt64.v8.n1.s1.r1.c1.mb1.o1"}},
         // Fewer elements than head and tail have.
         {"softmax",
          "rows=9 cols=13 dtype=bf16",
          {"resident.t128.rt2.v8.n1.r1.c1.mb1.o1"}},
         {"layernorm",
          "rows=5 cols=331 dtype=bf16 weight=1 bias=1",
          {"resident.t128.rt16.v8.n3.r1.c1.mb1.o1",
           "reload.t128.rt16.v8.i2.c1.o1"},
          TrialData::Outliers},
         // Most of a row in shared memory; more lanes than vectors, for ends.
         {"layernorm",
          "rows=3 cols=5001 dtype=bf16 weight=1 bias=1",
          {"resident.t64.rt64.v8.n2.s3.r1.c2.mb1.o1"},
          TrialData::Outliers},
         {"layernorm",
          "rows=40 cols=39 dtype=bf16 weight=1 bias=1 residual=1",
          {"resident.t128.rt8.v8.n1.r1.c1.mb1.o1.h1"}},
         // As many ends as there may be, for one thread.
         {"rmsnorm",
          "rows=40 cols=23 dtype=bf16 weight=1",
          {"reload.t256.rt1.v8.i1.c1.o1"}},
         {"layernorm",
          "rows=40 cols=15 dtype=fp32 weight=1 bias=1",
          {"resident.t256.rt1.v4.n3.r1.c1.mb1.o1"}},
         // Each matrix lies elsewhere.
         {"rmsnorm",
          "rows=3 cols=1003 dtype=bf16 weight=1 residual=1 out=fp8_e4m3 "
          "ldx=1005 ldr=1006 ldh=1011 align=2",
          {"resident.t128.rt128.v8.n1.r1.c1.mb1.o2",
           "reload.t128.rt128.v8.i1.c1.o2"}},
         {"softmax",
          "rows=3 cols=2001 dtype=bf16 mask=1 ldmask=2003 align=2",
          {"resident.t64.rt64.v8.n2.r1.c2.mb1.o2"},
          TrialData::Outliers},
         {"reduce",
          "op=max rows=3 cols=5003 dtype=bf16 align=2",
          {"split.t128.v8.i2.k3.o1"},
          TrialData::Outliers},
         // Ranges of rows: fewer than the rows, and more.
         {"reduce",
          "op=mean rows=37 cols=304 dtype=bf16 axis=all ldx=320",
          {"split.t128.v8.i2.k3", "split.t128.v8.i2.k50"}}});
}

TEST_CASE("emulated: elements and transposes of rows that begin anywhere") {
  check({{"elementwise",
          "op=bias,add rows=19 cols=333 dtype=bf16",
          {"flat.t64.v8.i4.h1.s1", "flat.t64.v8.i2.s2"}},
         {"elementwise",
          "op=row_bias,bias,relu rows=37 cols=9 dtype=bf16 out=fp32",
          {"flat.t32.v4.i2.s1", "flat.t32.v4.i2.s2"}},
         // Fewer rows than a vector has elements; several groups of as many.
         {"elementwise",
          "op=bias,gelu_tanh rows=3 cols=1001 dtype=bf16",
          {"flat.t128.v8.i4.s1", "flat.t128.v8.i2.h2.s1.ps1"}},
         {"elementwise",
          "op=bias,row_scale rows=130 cols=17 dtype=fp32",
          {"flat.t128.v4.i2.s1", "flat.t32.v4.i8.s1"}},
         {"elementwise",
          "op=bias,row_scale,mul rows=41 cols=101 dtype=bf16 ldx=103 ldy=105 "
          "ldo=107 align=2",
          {"flat.t64.v8.i4.h1.s2"}},
         {"elementwise",
          "op=add rows=7 cols=301 dtype=fp8_e4m3 out=bf16 align=1",
          {"flat.t64.v8.i2.s2"}},
         {"transpose2d",
          "rows=131 cols=69 dtype=bf16",
          {"shifted.tr64.tc64.t64", "shifted.tr128.tc64.t128"}},
         {"transpose2d",
          "rows=70 cols=131 dtype=fp32 ldx=133 ldy=71 align=4",
          {"shifted.tr64.tc64.t128"}},
         {"transpose2d",
          "rows=200 cols=77 dtype=int8 align=1",
          {"shifted.tr128.tc64.t128"}}});
}

TEST_CASE("emulated: transposes of few rows") {
  // More and fewer kinds of vectors than threads; whole runs, and runs with
  // elements before and behind their vectors.
  check(
      {{"transpose2d",
        "rows=9 cols=1000 dtype=int8",
        {"line.tc256.t128.cp16", "line.tc512.t256.cp4"}},
       {"transpose2d",
        "rows=219 cols=77 dtype=int8",
        {"line.tc32.t256.cp16", "line.tc64.t128.cp4"}},
       {"transpose2d",
        "rows=35 cols=203 dtype=fp8_e4m3 align=1",
        {"line.tc64.t128.cp16", "line.tc128.t64.cp4"}},
       {"transpose2d",
        "rows=30 cols=333 dtype=bf16 ldx=335 align=2",
        {"line.tc128.t128.cp16", "line.tc16.t32.cp4"}},
       {"transpose2d", "rows=1 cols=999 dtype=fp16", {"line.tc512.t128.cp16"}},
       {"transpose2d",
        "rows=94 cols=131 dtype=fp32 ldx=133 align=4",
        {"line.tc32.t256.cp16", "line.tc64.t64.cp4"}},
       {"transpose2d", "rows=6 cols=1 dtype=bf16", {"line.tc16.t32.cp16"}}});
}

TEST_CASE("emulated: rows by index") {
  // Whole tiles and ends of both kinds; indices and targets within the rows,
  // and in the outliers also outside of them.
  check({{"gather",
          "rows=37 cols=200 xrows=90 dtype=bf16",
          {"lanes.t64.l32.i1.r1.v16", "lanes.t128.l16.i1.r4.v16",
           "lanes.t64.l1.i8.r2.v2", "lanes.t32.l4.i8.r1.v16.h1"}},
         {"gather",
          "rows=37 cols=200 xrows=90 dtype=bf16 index=int64 first=1000 "
          "divisor=3",
          {"lanes.t64.l32.i1.r1.v16", "lanes.t64.l8.i4.r2.v16"},
          TrialData::Outliers},
         {"gather",
          "rows=19 cols=67 xrows=5 dtype=int8 by=targets yrows=40 divisor=4 "
          "align=1",
          {"lanes.t32.l16.i8.r1.v1", "lanes.t64.l64.i2.r8.v1"},
          TrialData::Outliers},
         {"gather",
          "batch=3 rows=9 cols=520 xrows=40 yrows=41 dtype=fp32 by=both "
          "ldx=524 ldy=528",
          {"lanes.t64.l64.i4.r1.v16", "lanes.t128.l16.i2.r2.v16.h1"},
          TrialData::Outliers},
         {"gather",
          "rows=40 cols=13 xrows=70 yrows=30 dtype=fp16 by=both index=int64 "
          "ldx=15 align=2",
          {"lanes.t32.l4.i4.r4.v2"}}});
}

// A rank that is alone; AllReduceRanksTest.cpp has ranks together.
TEST_CASE("emulated: all-reduces of a rank that is alone") {
  check({{"allreduce",
          "rows=5 cols=520 ranks=2 dtype=bf16 residual=1 norm=1 ldh=536",
          {"push.t64.v1", "push.t32.v2"}},
         {"allreduce",
          "rows=3 cols=300 ranks=8 dtype=fp16 norm=1 align=8",
          {"push.t64.v1"},
          TrialData::Outliers},
         {"allreduce",
          "rows=4 cols=77 ranks=3 dtype=fp32 residual=1 ldx=79 align=4",
          {"push.t32.v1"}},
         {"allreduce",
          "rows=4 cols=33 ranks=4 dtype=bf16 align=2",
          {"push.t32.v1"}}});
}

TEST_CASE("emulated: rows by index that are converted") {
  check({{"gather",
          "rows=21 cols=136 xrows=50 dtype=bf16 out=fp32 scale=1.7",
          {"lanes.t64.l32.i1.r2.v16", "lanes.t32.l8.i2.r1.v8"},
          TrialData::Outliers},
         {"gather",
          "rows=21 cols=131 xrows=50 dtype=fp32 out=bf16 align=4",
          {"lanes.t64.l64.i4.r1.v4"}},
         {"gather",
          "batch=2 rows=21 cols=144 xrows=50 dtype=fp8_e4m3 out=fp16 by=both "
          "yrows=60 scale=-0.25",
          {"lanes.t64.l8.i2.r2.v16"},
          TrialData::Outliers},
         {"gather",
          "rows=21 cols=144 xrows=50 dtype=fp8_e4m3 scale=3",
          {"lanes.t64.l4.i4.r1.v16", "lanes.t32.l32.i2.r4.v1"}},
         {"gather",
          "rows=21 cols=64 xrows=50 dtype=int8 scale=0.3",
          {"lanes.t64.l4.i1.r2.v16"},
          TrialData::Outliers}});
}

// A plan for a range of rows keeps a leading dimension that was given, and so
// meets rows of y with gaps.
TEST_CASE("emulated: a run of y with gaps") {
  EmulatedTrials trials;
  trials.emulator.setPredecessor({});
  DependentCase gaps =
      trials.dependent({"transpose2d", "rows=9 cols=150 dtype=bf16 ldy=13"},
                       "shifted.tr64.tc64.t128");
  must(gaps.launch(false));
  const std::vector<uint8_t> expected = gaps.outputs();
  gaps.clearOutputs();
  DependentCase line = trials.dependent(
      {"transpose2d", "rows=13 cols=150 dtype=bf16"}, "line.tc64.t128.cp16");
  must(line.plan->launch(gaps.arguments(false), line.workspace(),
                         gaps.stream.handle()));
  CHECK(gaps.outputs() == expected);
  REQUIRE(trials.emulator.fault() == "");
}

// For authors of kernels: lines "family problem; config config...", which
// "; outliers" may follow. KILN_TEST_SMS is how many SMs there are.
TEST_CASE("emulated: kernels of a file") {
  const char *file = std::getenv("KILN_TEST_KERNELS");
  if (!file)
    return;
  std::vector<Sample> samples;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    auto [problem, rest] = llvm::StringRef(line).split(';');
    auto [configs, data] = rest.split(';');
    auto [family, fields] = problem.trim().split(' ');
    if (family.empty())
      continue;
    Sample &sample = samples.emplace_back(family.str(), fields.str());
    for (llvm::StringRef config : llvm::split(configs.trim(), ' '))
      if (!config.empty())
        sample.configs.push_back(config.str());
    if (data.trim() == "outliers")
      sample.data = TrialData::Outliers;
  }
  const char *sms = std::getenv("KILN_TEST_SMS");
  check(samples, sms ? std::atoi(sms) : 0);
}

//===----------------------------------------------------------------------===//
// Faults that the emulator sees
//===----------------------------------------------------------------------===//

namespace {

const Sample kPrefill{"attention",
                      "batch=1 sq=100 sk=600 heads=1 d=64 dtype=bf16",
                      {"sm90.wg1.bn96.st2.pk1"}};

} // namespace

TEST_CASE("emulated: a kernel that does not wait for its keys is told") {
  Patch patch("attention/Sm90AttentionConsumer.cuh",
              "ptx::mbarrierWait(shared.keyFull(at.stage()), at.phase());", "");
  EmulatedTrials trials;
  TrialResult result = trials.run(kPrefill, kPrefill.configs.front());
  CHECK(result.status == TrialStatus::ContextDead);
  CHECK(llvm::StringRef(trials.emulator.fault())
            .contains("more than 1 arrivals at mbarrier"));
}

TEST_CASE("emulated: a kernel that does not wait for its scores is wrong") {
  Patch patch("attention/Sm90AttentionConsumer.cuh", "ptx::wgmmaWait<0>();",
              "");
  EmulatedTrials trials;
  TrialResult result = trials.run(kPrefill, kPrefill.configs.front());
  CHECK(result.status == TrialStatus::Wrong);
  CHECK(trials.emulator.fault() == "");
}

TEST_CASE("emulated: an access that is not aligned is told") {
  Patch patch("attention/NaiveAttention.cuh", "int widest = kSignature.align",
              "int widest = 2 * kSignature.align");
  EmulatedTrials trials;
  TrialResult result = trials.run(
      {"attention", "sq=5 sk=70 heads=2 d=64 dtype=bf16 align=2"}, "naive.w4");
  CHECK(result.status == TrialStatus::ContextDead);
  CHECK(llvm::StringRef(trials.emulator.fault())
            .contains("is not aligned to 4 bytes"));
}

// A cooperative grid runs as one.
TEST_CASE("emulated: splits that no cluster holds") {
  check({{"gemm",
          "m=64 n=64 k=1024 dtype=bf16 layout=NT",
          {"sm90.bm64.bn64.bk128.st6.wg1.sw1.cm1.cn1.sk2.hi1"}}});
}

TEST_CASE("emulated: threads that wait for ever are told") {
  Patch patch("attention/Sm90Attention.cuh",
              "ptx::mbarrierArriveExpectTx(full, "
              "kConfig.keyBytes(kSignature));",
              "");
  EmulatedTrials trials;
  TrialResult result = trials.run(kPrefill, kPrefill.configs.front());
  CHECK(result.status == TrialStatus::ContextDead);
  CHECK(llvm::StringRef(trials.emulator.fault()).contains("for mbarrier"));
}
