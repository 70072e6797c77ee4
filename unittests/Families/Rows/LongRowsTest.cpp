// Long rows: each has a kernel, wherever it begins, and no row is left to a few
// blocks of a large GPU.
#include "Families/FamilyTesting.h"
#include "Families/Rows/RowProblem.h"
#include "Kernel/Space.h"
#include "KernelSrc/RealCompiler.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &familyOf(llvm::StringRef text) {
  return **registry().get(text.split(' ').first);
}

/// The configs of the space of \p text on \p device, best first; empty if none
/// may run.
std::vector<Candidate> rankedOn(llvm::StringRef text,
                                const DeviceModel &device) {
  const KernelFamily &family = familyOf(text);
  auto space = exploreSpace(family, parse(family, text), device);
  if (space)
    return std::move(space->ranked);
  llvm::consumeError(space.takeError());
  return {};
}

std::vector<DeviceModel> catalog() {
  std::vector<DeviceModel> models;
  for (llvm::StringRef name : catalogNames())
    models.push_back(device(name));
  return models;
}

using Random = std::mt19937; // only its raw output is used

template <class T> T pick(Random &random, std::initializer_list<T> choices) {
  return choices.begin()[random() % choices.size()];
}

/// A number of columns: log-uniform, and every other one odd.
int64_t drawCols(Random &random, int leastBits, int mostBits) {
  int bits =
      leastBits + static_cast<int>(random() % (mostBits - leastBits + 1));
  int64_t cols = (int64_t(1) << bits) + random() % (1u << bits);
  return random() % 2 || cols < 64 ? cols | 1 : cols & -64;
}

/// Operands and results of a norm, a softmax or a quantisation.
std::string drawOperands(llvm::StringRef family, Random &random) {
  std::string text;
  auto add = [&](llvm::StringRef key) {
    if (random() % 2)
      text += fmt::format(" {}=1", key);
  };
  if (family == "softmax" && random() % 2)
    text += fmt::format(" mask={}", 1 + random() % 2);
  if (family == "rowquant")
    text += pick<const char *>(random, {"", " op=quant_int8_per_row"});
  if (!family.ends_with("norm"))
    return text;
  for (const char *key : {"weight", "bias", "residual"})
    add(key);
  return text + pick<const char *>(random, {"", " out=fp8_e4m3", " out=int8"});
}

std::string drawProblem(Random &random, int64_t rows, int64_t cols) {
  const llvm::StringRef family = pick<const char *>(
      random, {"softmax", "rmsnorm", "layernorm", "rowquant", "reduce"});
  const std::string type = pick<const char *>(random, {"fp32", "fp16", "bf16"});
  std::string text =
      fmt::format("{} rows={} cols={} dtype={}", family, rows, cols, type);
  if (family == "reduce")
    text += pick<const char *>(
        random, {" op=sum", " op=max", " op=mean axis=all", " op=sumsq"});
  text += drawOperands(family, random);
  if (random() % 2)
    text += fmt::format(" align={}", pick(random, {4, 8, 16}));
  if (random() % 3 == 0)
    text += fmt::format(" ldx={}", cols + pick(random, {1, 5, 8}));
  return text;
}

} // namespace

TEST_CASE("norms of long rows that begin anywhere have kernels") {
  const std::vector<DeviceModel> models = catalog();
  for (const char *text :
       {"layernorm rows=4096 cols=200001 dtype=fp32 weight=1 bias=1 residual=1",
        "layernorm rows=4096 cols=262153 dtype=bf16 weight=1 bias=1",
        "layernorm rows=4096 cols=524289 dtype=fp32",
        "rmsnorm rows=4096 cols=524289 dtype=fp32 weight=1 residual=1",
        "rmsnorm rows=4096 cols=999999 dtype=bf16 bias=1 residual=1 align=2",
        "layernorm rows=999 cols=524289 dtype=fp32 weight=1 out=fp8_e4m3",
        "rmsnorm rows=999 cols=300001 dtype=fp32 bias=1 out=int8 align=4",
        "rmsnorm rows=32768 cols=151936 dtype=fp32 weight=1 bias=1 residual=1 "
        "ldh=151941"})
    for (const DeviceModel &model : models) {
      CAPTURE(std::string(text));
      CAPTURE(model.name);
      CHECK_FALSE(rankedOn(text, model).empty());
    }
}

TEST_CASE("every problem over rows has a kernel on every device") {
  const std::vector<DeviceModel> models = catalog();
  Random random(71);
  for (int i = 0; i < 1500; ++i) {
    const int64_t cols = drawCols(random, 0, 29);
    const int64_t rows = 1 + drawCols(random, 0, 20);
    const std::string text = drawProblem(random, rows, cols);
    const DeviceModel &model = models[random() % models.size()];
    CAPTURE(text);
    CAPTURE(model.name);
    REQUIRE_FALSE(rankedOn(text, model).empty());
  }
}

TEST_CASE("few rows longer than the chip holds keep the whole GPU busy") {
  const std::vector<DeviceModel> models = catalog();
  Random random(72);
  for (int i = 0; i < 1500; ++i) {
    const int64_t drawn = 8000000 + random() % 52000000;
    const int64_t cols = i % 2 ? drawn | 1 : drawn & -64;
    const int64_t rows = 1 + random() % 8;
    const std::string text = drawProblem(random, rows, cols);
    const KernelFamily &family = familyOf(text);
    if (family.name() == "reduce")
      continue;
    const DeviceModel &model = models[random() % models.size()];
    CAPTURE(text);
    CAPTURE(model.name);
    const std::vector<Candidate> ranked = rankedOn(text, model);
    REQUIRE_FALSE(ranked.empty());
    CAPTURE(ranked[0].config.text());
    // Each byte once, and reread bytes of later passes once more.
    const RowSignature signature =
        readRowSignature(parse(family, text).signature);
    const double bytes = family.compulsoryBytes(parse(family, text)) +
                         double(rows * cols * bytesOf(signature.in)) *
                             (signature.reducesTwice() ? 2 : 1);
    CHECK(ranked[0].estimate.totalNs < 3 * bytes / model.dramGBs);
  }
}

// A row that all SMs together can hold stays there; a longer one is read again.
TEST_CASE("one row is kept by the chip as long as it can be") {
  const DeviceModel h200 = device("h200-sxm");
  auto first = [&](llvm::StringRef text) {
    return rankedOn(text, h200).at(0).config.text();
  };
  for (const char *family : {"softmax", "rmsnorm", "rowquant"}) {
    CAPTURE(family);
    const std::string kept =
        first(fmt::format("{} rows=1 cols=4000000 dtype=bf16", family));
    CHECK_MESSAGE(llvm::StringRef(kept).contains(".g1."), kept);
    const std::string again =
        first(fmt::format("{} rows=1 cols=30000000 dtype=bf16", family));
    CHECK_MESSAGE(llvm::StringRef(again).starts_with("spread."), again);
  }
  // Several blocks on an SM would not all run at once.
  CHECK(reason(familyOf("softmax"), "softmax rows=3 cols=30000000 dtype=bf16",
               "spread.t512.v8.i4.k66.r3") ==
        "grid: 198 blocks at once, limit 132 blocks at once");
  CHECK(reason(familyOf("softmax"), "softmax rows=3 cols=30000000 dtype=bf16",
               "spread.t512.v8.i4.k66.r2") == "none");
}

TEST_CASE("rows that are read again exchange what they are launched with") {
  const KernelFamily &family = familyOf("layernorm");
  const Problem problem =
      parse(family, "layernorm rows=5 cols=9000001 dtype=bf16 out=int8");
  auto config =
      llvm::cantFail(family.parseConfig("spread.t512.v8.i4.s2.o1.h1.k60.r2"));
  const Plan plan =
      config.tmpl->plan(problem, config.config, device("h200-sxm"));
  CHECK(plan.workspace.zeroedBytes == 2 * 16 * 5 * 60 * 60);
  CHECK(plan.workspace.scratchBytes == 0);
  CHECK(plan.sharedBytes[0] == 2 * 4 * 512 * 16);
  CHECK_FALSE(plan.takesDependentLaunch);
}

// A kernel that spills is refused, and the next choice is slower.
TEST_CASE("the first choices of rows beyond the chip do not spill") {
  if (!hasNvrtc())
    return;
  for (const char *name : {"t4", "a100-sxm4-80gb", "h200-sxm", "b200-sxm"})
    for (const char *text :
         {"softmax rows=1 cols=30000000 dtype=bf16",
          "softmax rows=3 cols=30000001 dtype=bf16 mask=1",
          "rmsnorm rows=1 cols=30000001 dtype=bf16 weight=1 residual=1",
          "layernorm rows=1 cols=30000000 dtype=bf16 weight=1 bias=1",
          "layernorm rows=1 cols=30000001 dtype=bf16 weight=1 bias=1",
          "layernorm rows=8 cols=30000001 dtype=bf16 weight=1 bias=1 align=2",
          "layernorm rows=1 cols=30000001 dtype=fp32 weight=1 bias=1 "
          "residual=1 out=fp8_e4m3",
          "rowquant rows=1 cols=59000000 dtype=bf16",
          "rowquant rows=1 cols=59000001 dtype=bf16 align=2"}) {
      const DeviceModel model = device(name);
      CAPTURE(std::string(name));
      CAPTURE(std::string(text));
      const Candidate first = rankedOn(text, model).at(0);
      CAPTURE(first.config.text());
      CHECK(first.tmpl->name() == "spread");
      const Plan plan =
          first.tmpl->plan(parse(familyOf(text), text), first.config, model);
      auto artifact = compiler().compile(plan.kernels[0]);
      REQUIRE(artifact);
      CHECK(artifact->rejection(/*maySpill=*/false) == "");
    }
}
