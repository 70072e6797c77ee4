//===- LawLayer.cpp -------------------------------------------------------===//
#include "Law/LawLayer.h"

#include "Runtime/EngineTesting.h"
#include "Support/Format.h"

#include <algorithm>
#include <cmath>

namespace kiln::testing {

/// The address of operand \p index of a call, far from all others; the stand-in
/// never follows it.
static void *farAddress(int index) {
  return reinterpret_cast<void *>(uintptr_t(index + 1) << 40);
}

namespace {

template <class Args, kiln_family Family,
          kiln_status (*Launch)(kiln_engine *, const Args *,
                                const kiln_workspace *, kiln_stream)>
class LayerOf : public LawLayer {
public:
  explicit LayerOf(const Args &args) : args(args) {}

  kiln_status launch(kiln_engine *engine, LawValue value) override {
    set(value);
    return Launch(engine, &args, nullptr, nullptr);
  }
  kiln_problem problemAt(LawValue value) override {
    set(value);
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.family = Family;
    problem.args = &args;
    return problem;
  }

protected:
  virtual void set(LawValue value) = 0;
  Args args;
};

class GemmLayer final
    : public LayerOf<kiln_gemm_args, KILN_FAMILY_GEMM, kiln_gemm> {
public:
  using LayerOf::LayerOf;
  std::string name() const override {
    return fmt::format("gemm {}x{}", args.n, args.k);
  }
  std::vector<kiln_range> ranges() const override {
    return {rangeOf("m", 1, 8192)};
  }

private:
  void set(LawValue value) override { args.m = value.first; }
};

class NormLayer final
    : public LayerOf<kiln_norm_args, KILN_FAMILY_RMS_NORM, kiln_rms_norm> {
public:
  using LayerOf::LayerOf;
  std::string name() const override {
    return fmt::format("rmsnorm {}", args.cols);
  }
  std::vector<kiln_range> ranges() const override {
    return {rangeOf("rows", 1, 8192)};
  }

private:
  void set(LawValue value) override { args.rows = value.first; }
};

class DecodeLayer final
    : public LayerOf<kiln_attention_args, KILN_FAMILY_ATTENTION,
                     kiln_attention> {
public:
  using LayerOf::LayerOf;
  std::string name() const override {
    return fmt::format("decode {}/{}", args.heads, args.kv_heads);
  }
  std::vector<kiln_range> ranges() const override {
    return {rangeOf("batch", 1, 16), rangeOf("sk", 1, 8192)};
  }

private:
  void set(LawValue value) override {
    args.batch = value.first;
    args.keys = value.second;
  }
};

} // namespace

std::unique_ptr<LawLayer> LawLayer::gemm(int64_t n, int64_t k) {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.layout = KILN_LAYOUT_NT;
  args.n = n;
  args.k = k;
  args.a.type = KILN_BF16;
  args.a.data = farAddress(0);
  args.b.data = farAddress(1);
  args.d.data = farAddress(2);
  return std::make_unique<GemmLayer>(args);
}

std::unique_ptr<LawLayer> LawLayer::rmsNorm(int64_t cols) {
  kiln_norm_args args = kiln_norm_args_init();
  args.cols = cols;
  args.x.type = args.weight.type = KILN_BF16;
  args.x.data = farAddress(0);
  args.weight.data = farAddress(1);
  args.y.data = farAddress(2);
  return std::make_unique<NormLayer>(args);
}

std::unique_ptr<LawLayer> LawLayer::decode(int64_t heads, int64_t kvHeads) {
  kiln_attention_args args = kiln_attention_args_init();
  args.queries = 1;
  args.heads = heads;
  args.kv_heads = kvHeads;
  args.head_dim = 128;
  args.q.type = KILN_BF16;
  args.q.data = farAddress(0);
  args.k.data = farAddress(1);
  args.v.data = farAddress(2);
  args.o.data = farAddress(3);
  return std::make_unique<DecodeLayer>(args);
}

std::string LawLayer::text(LawValue value) {
  const kiln_problem problem = problemAt(value);
  char buffer[1024] = "";
  REQUIRE(kiln_problem_text(&problem, buffer, sizeof(buffer), nullptr) ==
          KILN_SUCCESS);
  return buffer;
}

kiln_status LawLayer::prepare(kiln_engine *engine,
                              const kiln_prepare_options &options) {
  const std::vector<kiln_range> all = ranges();
  kiln_problem problem =
      problemAt({all[0].last, all.size() > 1 ? all[1].last : 1});
  problem.ranges = all.data();
  problem.range_count = static_cast<uint32_t>(all.size());
  return kiln_prepare(engine, &problem, 1, &options, nullptr);
}

LawValue LawLayer::draw(std::mt19937_64 &random) const {
  LawValue value;
  const std::vector<kiln_range> all = ranges();
  auto drawn = [&](const kiln_range &range) {
    std::uniform_real_distribution<double> octaves(
        0, std::log2(static_cast<double>(range.last)));
    return std::clamp<int64_t>(std::llround(std::exp2(octaves(random))),
                               range.first, range.last);
  };
  value.first = drawn(all[0]);
  if (all.size() > 1)
    value.second = drawn(all[1]);
  return value;
}

} // namespace kiln::testing
