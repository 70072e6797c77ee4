// A layer of experts by the kernels of four calls, emulated: choices, both
// grouped products and the sum of a token's rows give what a dense layer on the
// host gives. Memory has what calls before it left there.
#include "Driver/DeviceMemory.h"
#include "Emulator/EmulatedTrials.h"
#include "Families/Combine/CombineProblem.h"
#include "Families/Gemm/GemmFields.h"
#include "route/RouteParams.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::emulated;

namespace {

/// A kernel whose operands are set and read.
struct LayerStep {
  DependentCase launched;

  LayerStep(EmulatedTrials &trials, const Sample &sample)
      : launched(trials.dependent(sample, sample.configs.front())) {}

  template <class T> void put(int operand, const std::vector<T> &values) {
    must(copyToDevice(launched.driver, addressOf(operand), values.data(),
                      values.size() * sizeof(T)));
  }
  template <class T> std::vector<T> take(int operand, size_t count) {
    std::vector<T> values(count);
    must(copyToHost(launched.driver, values.data(), addressOf(operand),
                    count * sizeof(T)));
    return values;
  }
  DeviceAddress addressOf(int operand) const {
    return launched.arguments(false).operands[operand].address;
  }
};

/// The products sum whole numbers that bf16 and fp32 have.
struct MoeLayer {
  static constexpr int kWidth = 64, kHidden = 64, kExperts = 12, kTopK = 3;
  int tokens, first, local, align;

  int choices() const { return tokens * kTopK; }
  int rows() const { return choices() + local * (align - 1); }

  std::string routeText() const {
    return fmt::format("tokens={} experts={} topk={} dtype=fp32 renorm=1 "
                       "chosen=1 first={} local={} group_align={}",
                       tokens, kExperts, kTopK, first, local, align);
  }
  std::string productText(int n, int k, const char *more) const {
    return fmt::format("m={} n={} k={} batch={} dtype=bf16 layout=NT "
                       "groups=ends group_align={} {}",
                       rows(), n, k, local, align, more);
  }
  std::string combineText() const {
    return fmt::format("tokens={} cols={} topk={} dtype=fp32 weights=present",
                       tokens, kWidth, kTopK);
  }
};

/// Whole numbers from -1 to 1.
std::vector<float> signsOf(size_t count, std::mt19937 &random) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(random() % 3) - 1);
  return values;
}
std::vector<uint16_t> bf16Of(const std::vector<float> &values) {
  std::vector<uint16_t> bits;
  for (float value : values)
    bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  return bits;
}

/// weight (cols x depth) times x.
std::vector<float> productOf(const float *weight, const float *x, int cols,
                             int depth) {
  std::vector<float> sums(static_cast<size_t>(cols), 0.0f);
  for (int col = 0; col < cols; ++col)
    for (int k = 0; k < depth; ++k)
      sums[static_cast<size_t>(col)] += weight[col * depth + k] * x[k];
  return sums;
}

/// An index that an earlier step left, with choices beyond these tokens.
std::vector<int32_t> staleIndex(const MoeLayer &layer) {
  std::vector<int32_t> index;
  for (int i = 0; i < layer.rows(); ++i)
    index.push_back(layer.rows() - 1 - i % 5);
  return index;
}

void checkLayer(const MoeLayer &layer, const std::string &routeConfig,
                const std::string &upConfig, const std::string &downConfig) {
  using L = MoeLayer;
  EmulatedTrials trials(3);
  LayerStep route(trials, {"route", layer.routeText(), {routeConfig}});
  LayerStep up(trials,
               {"gemm",
                layer.productText(L::kHidden, L::kWidth, "gather=1 divisor=3"),
                {upConfig}});
  LayerStep down(trials, {"gemm",
                          layer.productText(L::kWidth, L::kHidden,
                                            "out=fp32 scatter=1 row_weights=1"),
                          {downConfig}});
  LayerStep combine(trials,
                    {"combine", layer.combineText(), {"rows.l32.r1.i1.a2"}});
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> logits;
  for (int i = 0; i < layer.tokens * L::kExperts; ++i)
    logits.push_back(normal(random));
  const auto x = signsOf(size_t(layer.tokens) * L::kWidth, random);
  const size_t weights = size_t(L::kWidth) * L::kHidden;
  const auto upWeight = signsOf(size_t(layer.local) * weights, random);
  const auto downWeight = signsOf(size_t(layer.local) * weights, random);

  auto launch = [&](LayerStep &step) {
    must(step.launched.launch(false));
    REQUIRE(trials.emulator.fault() == "");
  };
  route.put(RouteOperand::Logits, logits);
  route.put(RouteOperand::Index, staleIndex(layer));
  launch(route);
  const auto index =
      route.take<int32_t>(RouteOperand::Index, size_t(layer.rows()));
  const auto ends =
      route.take<int32_t>(RouteOperand::Ends, size_t(layer.local));
  const auto factors =
      route.take<float>(RouteOperand::Weights, size_t(layer.choices()));
  const auto chosen =
      route.take<int32_t>(RouteOperand::Chosen, size_t(layer.choices()));

  auto putGroups = [&](LayerStep &product) {
    product.put(GemmOperand::GroupSizes, ends);
    product.put(GemmOperand::RowIndex, index);
  };
  putGroups(up);
  up.put(GemmOperand::A, bf16Of(x));
  up.put(GemmOperand::B, bf16Of(upWeight));
  launch(up);
  putGroups(down);
  down.put(
      GemmOperand::A,
      up.take<uint16_t>(GemmOperand::D, size_t(layer.rows()) * L::kHidden));
  down.put(GemmOperand::B, bf16Of(downWeight));
  down.put(GemmOperand::RowWeights, factors);
  launch(down);
  combine.put(
      CombineOperand::X,
      down.take<float>(GemmOperand::D, size_t(layer.choices()) * L::kWidth));
  combine.put(CombineOperand::Weights, factors);
  launch(combine);
  const auto y =
      combine.take<float>(CombineOperand::Y, size_t(layer.tokens) * L::kWidth);

  for (int token = 0; token < layer.tokens; ++token) {
    std::vector<double> expected(L::kWidth), magnitude(L::kWidth);
    for (int j = 0; j < L::kTopK; ++j) {
      const auto choice = size_t(token * L::kTopK + j);
      const int expert = chosen[choice] - layer.first;
      if (expert < 0 || expert >= layer.local)
        continue;
      const auto hidden = productOf(upWeight.data() + size_t(expert) * weights,
                                    x.data() + size_t(token) * L::kWidth,
                                    L::kHidden, L::kWidth);
      const auto out = productOf(downWeight.data() + size_t(expert) * weights,
                                 hidden.data(), L::kWidth, L::kHidden);
      for (size_t c = 0; c < out.size(); ++c) {
        expected[c] += double(factors[choice]) * out[c];
        magnitude[c] += std::fabs(double(factors[choice]) * out[c]);
      }
    }
    CAPTURE(token);
    for (size_t c = 0; c < expected.size(); ++c)
      REQUIRE(std::fabs(y[size_t(token) * L::kWidth + c] - expected[c]) <=
              1e-5 * magnitude[c]);
  }
}

const std::string kMma = "mma.bm32.bn64.bk64.st3.wm2.wn2.mb2";
const std::string kSwapped = "sm90.bm16.bn128.bk64.st4.wg2.sw1.cm1.cn1";
const std::string kNaive = "naive.bt256";

} // namespace

TEST_CASE("emulated: a layer of experts is a dense layer of the chosen") {
  checkLayer({.tokens = 9, .first = 0, .local = 12, .align = 1},
             "cluster.t64.i1.n1.c2", kMma, kSwapped);
  checkLayer({.tokens = 9, .first = 0, .local = 12, .align = 16},
             "spread.t64.i1.n1", kSwapped, kMma);
  // One rank of several.
  checkLayer({.tokens = 9, .first = 3, .local = 5, .align = 16},
             "cluster.t64.i1.n1.c1", kMma, kNaive);
  checkLayer({.tokens = 1, .first = 8, .local = 4, .align = 7},
             "cluster.t64.i1.n1.c4", kNaive, kSwapped);
}

// The rows of the source that their index names need not exist.
TEST_CASE("emulated: rows of no group are not gathered") {
  const MoeLayer layer{.tokens = 9, .first = 0, .local = 4, .align = 16};
  const std::string more = "gather=1 divisor=3 align=";
  for (const char *align : {"16", "2"})
    for (const std::string &config : {kMma, kSwapped}) {
      CAPTURE(align);
      CAPTURE(config);
      EmulatedTrials trials(3);
      LayerStep step(
          trials,
          {"gemm", layer.productText(64, 64, "") + more + align, {config}});
      const size_t rows = size_t(layer.rows());
      std::vector<int32_t> index(rows, 5);
      step.put(GemmOperand::RowIndex, index);
      // Group 1 is empty, and group 2 has whole tiles of rows.
      const std::vector<int32_t> ends = {3, 16, 32, 37};
      step.put(GemmOperand::GroupSizes, ends);
      step.put(GemmOperand::A,
               bf16Of(std::vector<float>((rows - 1) / 3 * 64 + 64, 1.0f)));
      must(step.launched.launch(false));
      REQUIRE(trials.emulator.fault() == "");
      // The copy is the first in the workspace.
      std::vector<uint16_t> copy(rows * 64);
      must(copyToHost(step.launched.driver, copy.data(),
                      step.launched.workspace().address, copy.size() * 2));
      for (size_t row = 0; row < rows; ++row) {
        CAPTURE(row);
        const bool isOfGroup = row < 3 || (row >= 16 && row < 37);
        CHECK((copy[row * 64] != 0) == isOfGroup);
      }
    }
}
