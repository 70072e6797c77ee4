// Kernels that pack weights and multiply packed ones, emulated: all forms, and
// sizes at the limits.
#include "Emulator/EmulatedTrials.h"

using namespace kiln;
using namespace kiln::emulated;

TEST_CASE("emulated: products on packed weights") {
  const std::string usual = "packed.r16.v8.k64.st8.rs4.w4.mb2";
  const std::string wide = "packed.r32.v8.k128.st3.rs2.w4.mb1";
  const std::string tall = "packed.r64.v8.k64.st3.rs3.w8.mb1";
  const std::string split = "packed.r16.v8.k64.st5.rs4.w2.mb2.sp1.sk3";
  const std::string text = "layout=NT order_b=k64r16 ";
  check({{"gemm",
          "m=1 n=136 k=640 dtype=bf16 b=int4 scale_b=1x128 " + text,
          {usual, wide, tall, split}},
         {"gemm",
          "m=5 n=70 k=416 dtype=fp16 b=int4 scale_b=1x32 zero_b=1 "
          "pointwise=bias,silu " +
              text,
          {usual, wide, tall, split}},
         {"gemm",
          "m=7 n=100 k=200 dtype=bf16 b=int4 scale_b=row zero_b=1 "
          "scale_type_b=fp32 beta=1 " +
              text,
          {usual, wide, split}},
         {"gemm",
          "m=3 n=90 k=296 dtype=bf16 b=e2m1 scale_b=1x32 " + text,
          {usual, wide, tall}},
         {"gemm",
          "m=8 n=64 k=160 dtype=fp16 b=e2m1 scale_b=1x32 " + text,
          {usual, wide}},
         {"gemm",
          "m=6 n=68 k=328 dtype=bf16 b=int8 scale_b=1x64 scale_type_b=bf16 " +
              text,
          {usual, wide, split}},
         {"gemm",
          "m=2 n=130 k=264 dtype=fp16 b=int8 scale_b=row out=fp32 " + text,
          {usual, tall}},
         {"gemm",
          "m=4 n=80 k=200 dtype=bf16 b=e4m3 scale_b=1x128 scale_type_b=fp32 "
          "pointwise=swiglu " +
              text,
          {usual, wide}},
         {"gemm",
          "m=4 n=66 k=136 dtype=fp16 b=e4m3 scale_b=row " + text,
          {usual, tall}}});
}

// Few SMs: blocks take several tiles, and warps several steps or none.
TEST_CASE("emulated: packed weights past a vector that blocks keep") {
  const std::string one = "packedgemv.w4.wk4.st3.d8.mb1";
  const std::string text = "layout=NT order_b=k64r16 ";
  check(
      {{"gemm",
        "m=1 n=136 k=640 dtype=bf16 b=int4 scale_b=1x128 " + text,
        {one, "packedgemv.w4.wk2.st2.d5.mb1", "packedgemv.w4.wk1.st4.d6.mb2",
         "packedgemv.w8.wk8.st2.d5.mb1", "packedgemv.w2.wk2.st3.d64.mb1"}},
       {"gemm",
        "m=1 n=66 k=201 dtype=bf16 b=int4 scale_b=1x32 zero_b=1 "
        "pointwise=bias,silu " +
            text,
        {one, "packedgemv.w3.wk3.st3.d2.mb1"}},
       {"gemm",
        "m=1 n=70 k=416 dtype=fp16 b=int4 scale_b=1x32 zero_b=1 "
        "scale_type_b=fp32 pointwise=bias,silu " +
            text,
        {"packedgemv.w4.wk4.st3.d4.mb1", "packedgemv.w4.wk1.st3.d4.mb1"}},
       {"gemm",
        "m=1 n=100 k=200 dtype=bf16 b=int4 scale_b=row zero_b=1 "
        "scale_type_b=fp32 beta=1 " +
            text,
        {"packedgemv.w4.wk2.st3.d2.mb1"}},
       {"gemm",
        "m=1 n=90 k=296 dtype=fp16 b=int4 scale_b=row out=fp32 " + text,
        {"packedgemv.w4.wk2.st3.d3.mb1"}},
       {"gemm",
        "m=1 n=90 k=296 dtype=bf16 b=e2m1 scale_b=1x32 " + text,
        {one, "packedgemv.w4.wk2.st3.d3.mb1"}},
       {"gemm",
        "m=1 n=68 k=328 dtype=bf16 b=int8 scale_b=1x64 scale_type_b=bf16 " +
            text,
        {"packedgemv.w4.wk4.st3.d3.mb1"}},
       {"gemm",
        "m=1 n=130 k=264 dtype=fp16 b=int8 scale_b=row out=fp32 " + text,
        {one}},
       {"gemm",
        "m=1 n=160 k=200 dtype=bf16 b=e4m3 scale_b=1x128 scale_type_b=fp32 "
        "pointwise=swiglu " +
            text,
        {one, "packedgemv.w8.wk4.st2.d2.mb1"}},
       {"gemm", "m=1 n=66 k=136 dtype=fp16 b=e4m3 scale_b=row " + text, {one}},
       {"gemm",
        "m=1 n=72 k=0 dtype=bf16 b=int4 scale_b=1x64 beta=1 " + text,
        {one}}});
}

TEST_CASE("emulated: packed weights past many vectors") {
  const std::string text =
      "dtype=bf16 b=int4 scale_b=1x64 zero_b=1 layout=NT order_b=k64r16";
  check({{"gemm",
          "m=24 n=70 k=328 " + text,
          {"packed.r32.v24.k64.st4.rs3.w4.mb1",
           "packed.r16.v24.k128.st3.rs2.w2.mb1"}},
         {"gemm",
          "m=100 n=130 k=200 " + text,
          {"packed.r16.v64.k64.st4.rs3.w4.mb1",
           "packed.r32.v48.k64.st2.rs2.w2.mb1.sp1.sk2"}},
         {"gemm", "m=40 n=64 k=64 align=2 lda=67 " + text, {"naive.bt256"}},
         {"gemm", "m=17 n=72 k=136 " + text}});
}

// Few SMs: blocks have several tiles, and splits wait for each other.
// A step before copies rows of A that begin anywhere.
TEST_CASE("emulated: packed weights past vectors that are not aligned") {
  const std::string whole = "packed.r16.v16.k64.st5.rs4.w4.mb1";
  const std::string split = "packed.r16.v16.k64.st5.rs4.w4.mb1.sp1.sk2";
  check({{"gemm",
          "m=13 n=80 k=1023 dtype=bf16 layout=NT b=int4 scale_b=1x128 "
          "order_b=k64r16",
          {whole, split}},
         {"gemm",
          "m=40 n=72 k=200 lda=203 dtype=fp16 layout=NT b=int8 scale_b=row "
          "order_b=k64r16 align=2 pointwise=bias",
          {whole}},
         {"gemm",
          "m=20 n=144 k=99 dtype=bf16 layout=NT b=e4m3 scale_b=1x64 "
          "order_b=k64r16 out=e4m3 scale_d=row pointwise=swiglu",
          {whole}}});
}

TEST_CASE("emulated: packed weights through wgmma") {
  const std::string turns = "packed90.r64.v8.bk256.st3.wg2.ks1";
  const std::string tall = "packed90.r256.v8.bk128.st3.wg2";
  const std::string text = "layout=NT order_b=k64r16 ";
  check(
      {{"gemm",
        "m=1 n=136 k=1100 dtype=bf16 b=int4 scale_b=1x128 " + text,
        {turns, tall, "packed90.r128.v8.bk256.st4.wg2.hi1",
         "packed90.r128.v8.bk128.st2.wg2.sk2"}},
       {"gemm",
        "m=21 n=600 k=416 dtype=fp16 b=int4 scale_b=1x32 zero_b=1 "
        "pointwise=bias,silu " +
            text,
        {"packed90.r64.v24.bk128.st4.wg2.ks1",
         "packed90.r192.v16.bk128.st3.wg3", "packed90.r256.v24.bk128.st3.wg2"}},
       {"gemm",
        "m=40 n=200 k=700 dtype=bf16 b=int4 scale_b=row zero_b=1 "
        "scale_type_b=fp32 beta=1 " +
            text,
        {"packed90.r64.v40.bk128.st3.wg2.ks1.sk2",
         "packed90.r128.v24.bk128.st3.wg2"}},
       {"gemm",
        "m=30 n=90 k=680 dtype=bf16 b=e2m1 scale_b=1x32 " + text,
        {"packed90.r64.v32.bk256.st3.wg2.ks1",
         "packed90.r64.v32.bk128.st3.wg1"}},
       {"gemm",
        "m=8 n=64 k=160 dtype=fp16 b=e2m1 scale_b=1x32 " + text,
        {turns}},
       {"gemm",
        "m=100 n=196 k=328 dtype=bf16 b=int8 scale_b=1x64 "
        "scale_type_b=bf16 " +
            text,
        {"packed90.r128.v104.bk128.st2.wg2.sg1",
         "packed90.r128.v56.bk128.st3.wg2"}},
       {"gemm",
        "m=70 n=130 k=264 dtype=fp16 b=int8 scale_b=row out=fp32 " + text,
        {"packed90.r128.v72.bk128.st2.wg2"}},
       {"gemm",
        "m=44 n=400 k=200 dtype=bf16 b=e4m3 scale_b=1x128 "
        "scale_type_b=fp32 pointwise=bias,swiglu " +
            text,
        {"packed90.r64.v24.bk128.st4.wg2.ks1",
         "packed90.r128.v32.bk128.st3.wg2.sk2",
         "packed90.r256.v48.bk128.st2.wg2"}},
       {"gemm",
        "m=14 n=130 k=136 dtype=fp16 b=e4m3 scale_b=row out=fp32 "
        "pointwise=swiglu " +
            text,
        {"packed90.r128.v16.bk128.st3.wg2"}},
       {"gemm",
        "m=9 n=67 k=90 align=2 dtype=bf16 b=int4 scale_b=1x64 " + text,
        {"packed90.r64.v16.bk128.st4.wg2.ks1"}}},
      /*sms=*/4);
}

TEST_CASE("emulated: packed weights") {
  check({{"prepack",
          "n=70 k=200 source=gptq group=32 zeros=1",
          {"blocks.t128.kb2", "blocks.t256.kb1"}},
         {"prepack", "n=64 k=130 source=gptq_v2 group=64 zeros=1"},
         {"prepack", "n=200 k=90 source=gptq scale_type=fp32"},
         {"prepack",
          "n=77 k=135 source=awq group=128 zeros=1",
          {"blocks.t128.kb2", "blocks.t256.kb4"}},
         {"prepack",
          "n=37 k=220 source=compressed_tensors group=128 zeros=1 "
          "scale_type=bf16",
          {"blocks.t96.kb3"}},
         {"prepack", "n=130 k=200 source=int8 scale_type=fp32"},
         {"prepack", "n=66 k=71 source=e4m3 group=32", {"blocks.t32.kb8"}},
         {"prepack", "n=100 k=160 source=mxfp4", {"blocks.t128.kb1"}},
         {"prepack", "n=5 k=20 source=mxfp4"}});
}
