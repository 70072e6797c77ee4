//===- Planted.h - one NaN or infinity in an input ------------------------===//
//
// Problems of every family, and the values that are planted into their inputs:
// one element of one input a run. Results are compared with the reference as
// always, so the same elements have to be NaN, and the same ones infinite.
//
// Left out is what the documentation does. A V of NaN at a key that a mask
// hides reaches rows that do not see it; silu and gelu_tanh of minus infinity
// are NaN or minus infinity; scales, sinks and slopes are finite.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Family.h"
#include "Kernel/OperandLayout.h"
#include "Trial/TrialRunner.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kiln::fake {

/// A problem, and configs of sm_90 beside the best of each template.
struct PlantedProblem {
  std::string family, text;
  std::vector<std::string> configs = {};
  bool takesInfinities = true; ///< else NaN alone is planted
};

inline std::vector<PlantedProblem> plantedAttention() {
  return {
      // Keys that are shared out, by each template that does so.
      {"attention",
       "batch=1 sq=1 sk=300 heads=2 kvheads=1 d=64 dtype=bf16 lse=1",
       {"decode.r8.t32.st3.w4.cl1", "decode.r8.t32.st6.w4",
        "sm90.wg1.bn64.st3.pk2.sp4"}},
      // Keys in several blocks, of which the first ones have a mask.
      {"attention",
       "batch=1 sq=20 sk=150 heads=1 d=64 dtype=fp16 mask=causal lse=1",
       {"sm90.wg1.bn64.st3.pk1.sp2", "sm90.wg1.bn64.st3.pk1"}},
      {"attention",
       "batch=2 sq=3 sk=70 heads=2 d=64 dtype=bf16 softcap=20 sinks=1 alibi=1 "
       "mask=causal kvlen=used lse=1"},
      {"attention",
       "batch=1 sq=1 sk=130 heads=4 kvheads=1 d=576 dv=512 dtype=bf16 "
       "latent=1 lse=1",
       {"sm90mla.cl1.pc2"}},
      {"attention",
       "batch=1 sq=5 sk=200 heads=1 d=64 dtype=e4m3 scales=tensor lse=1",
       {"sm90.wg2.bn64.st3.pk1.sp2"}},
      {"attention",
       "batch=2 sq=2 sk=70 heads=2 kvheads=1 d=64 dtype=fp16 kv=e4m3 "
       "pages=table page=16 kvlen=used lse=1"},
      {"attention_merge", "batch=1 rows=5 heads=3 d=64 dtype=bf16 lse=1"},
      {"attention_merge", "batch=1 rows=3 heads=2 d=20 dtype=fp32 lse=1"},
  };
}

inline std::vector<PlantedProblem> plantedProducts() {
  return {
      {"gemm", "m=70 n=72 k=200 dtype=bf16 layout=NT beta=1 "
               "pointwise=bias,residual,relu"},
      {"gemm", "m=3 n=72 k=200 dtype=fp16 layout=NN pointwise=bias"},
      {"gemm", "m=40 n=36 k=68 dtype=fp32 layout=NT"},
      {"gemm", "m=40 n=36 k=68 dtype=fp32 compute=tf32 layout=TN"},
      {"gemm", "m=40 n=64 k=192 dtype=e4m3 layout=NT scale_a=row scale_b=row"},
      {"gemm",
       "m=40 n=64 k=64 dtype=bf16 layout=NT pointwise=swiglu",
       {},
       /*takesInfinities=*/false},
      {"gemm", "m=20 n=256 k=64 dtype=bf16 layout=NT out=e4m3 scale_d=1x128"},
      {"gemm", "m=5 n=70 k=416 dtype=fp16 b=int4 scale_b=1x32 zero_b=1 "
               "layout=NT order_b=k64r16"},
      {"gemm", "m=1 n=70 k=300 dtype=bf16 b=int4 scale_b=1x64 layout=NT "
               "order_b=k64r16"},
      {"gemm", "m=1 n=40 k=416 dtype=fp16 b=int4 scale_b=1x128 zero_b=1 "
               "layout=NT order_b=k64r16"},
      {"gemm", "m=60 n=72 k=64 batch=3 dtype=bf16 layout=NT groups=ends"},
  };
}

inline std::vector<PlantedProblem> plantedStreams() {
  return {
      {"softmax", "rows=5 cols=1000 dtype=bf16", {"spread.t64.v8.i1.s1.k2.r2"}},
      {"softmax", "rows=5 cols=333 dtype=fp32 mask=1"},
      {"layernorm",
       "rows=5 cols=331 dtype=bf16 weight=1 bias=1 residual=1",
       {"spread.t64.v8.i1.o1.h1.k2"}},
      {"rmsnorm", "rows=3 cols=2048 dtype=fp16 weight=1"},
      {"rmsnorm",
       "rows=3 cols=300 dtype=bf16 weight=1 residual=1 out=fp8_e4m3"},
      {"rowquant",
       "rows=4 cols=300 dtype=bf16",
       {"spread.t64.v8.i1.s1.o1.k2.r3"}},
      {"rowquant", "rows=4 cols=300 dtype=fp32 op=quant_int8_per_row"},
      {"rowquant", "rows=4 cols=300 dtype=bf16 scale_y=1x128"},
      {"rmsnorm", "rows=3 cols=296 dtype=bf16 out=int8 scale_y=1x128"},
      {"elementwise",
       "op=silu,mul rows=3 cols=264 dtype=bf16 out=fp8_e4m3 scale_y=1x128",
       {},
       /*takesInfinities=*/false},
      {"elementwise",
       "op=bias,relu rows=3 cols=40 dtype=fp16 out=int8 scale_y=row"},
      {"reduce", "op=max rows=3 cols=5003 dtype=bf16"},
      {"reduce", "op=sum rows=3 cols=700 dtype=fp32"},
      {"reduce", "op=mean rows=37 cols=304 dtype=fp16 axis=all"},
      {"elementwise", "op=bias,add,relu rows=9 cols=65 dtype=bf16"},
      {"elementwise", "op=row_scale,mul rows=9 cols=64 dtype=bf16 out=fp32"},
      {"elementwise",
       "op=gelu_erf rows=9 cols=64 dtype=bf16",
       {},
       /*takesInfinities=*/false},
      {"transpose2d", "rows=70 cols=130 dtype=bf16"},
      {"transpose2d", "rows=3 cols=130 dtype=fp32"},
      {"gather", "rows=9 cols=64 dtype=bf16"},
      {"gather", "rows=9 cols=64 dtype=bf16 out=fp32 by=both scale=2"},
  };
}

inline std::vector<PlantedProblem> plantedExperts() {
  return {
      {"route", "tokens=5 experts=40 topk=4 dtype=bf16 renorm=1 chosen=1"},
      {"route",
       "tokens=20 experts=64 topk=6 dtype=fp32 score=sigmoid groups=8 "
       "top_groups=3 choice_bias=1 logit_bias=1 renorm=1",
       {"cluster.t256.i2.n1.c8"}},
      {"combine", "tokens=3 cols=520 topk=3 dtype=bf16 weights=applied"},
      {"combine", "tokens=3 cols=77 topk=2 dtype=fp32 weights=present "
                  "residual=1 shared=1 norm=1 eps=1e-6"},
  };
}

/// The values that are planted into the inputs of \p problem.
inline std::vector<PlantedValue> plantedValues(const KernelFamily &family,
                                               const Problem &problem,
                                               bool takesInfinities) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const OperandTable table = family.operands(problem);
  std::vector<PlantedValue> values;
  for (size_t i = 0; i < table.operands.size(); ++i) {
    const OperandSpec &spec = table.operands[i];
    const llvm::StringRef name = spec.name;
    if (spec.bytes() == 0 || spec.role == OperandRole::Out ||
        spec.type == DType::INT8 || isIndexType(spec.type))
      continue;
    const bool isFinite = !takesInfinities || spec.type == DType::E4M3 ||
                          name.contains("scale") || name == "alibi" ||
                          name == "sinks";
    const auto operand = static_cast<int>(i);
    const int64_t rows = layoutOf(spec).rowCount();
    const int64_t last = name == "v" ? 0 : rows - 1;
    values.push_back({operand, 0, spec.cols / 2, std::nanf("")});
    if (isFinite)
      values.push_back({operand, last, spec.cols - 1, std::nanf("")});
    else
      values.push_back(
          {operand, last, spec.cols - 1, i % 2 == 0 ? kInfinity : -kInfinity});
  }
  return values;
}

} // namespace kiln::fake
