// Launches that begin before the grid ahead of them has ended, emulated. It
// ends as late as it may, and until then the memory that it shares has other
// content.
#include "Emulator/EmulatedTrials.h"
#include "Families/Attention/AttentionProblem.h"

#include <llvm/ADT/StringExtras.h>

using namespace kiln;
using namespace kiln::emulated;

namespace {

/// Memory that the grid ahead of \p launched may still read or write: all
/// except weights.
std::vector<SharedMemoryOfGrids> memoryOf(const DependentCase &launched) {
  std::vector<SharedMemoryOfGrids> memory;
  auto add = [&](DeviceAddress address, uint64_t bytes) {
    if (bytes)
      memory.push_back({reinterpret_cast<unsigned char *>(address), bytes});
  };
  const Arguments arguments = launched.arguments(true);
  for (auto [i, operand] : llvm::enumerate(launched.buffers->table().operands))
    if (operand.present && !(arguments.constants >> i & 1))
      add(arguments.operands[i].address,
          static_cast<uint64_t>(operand.bytes()));
  add(launched.memory.address(), launched.memory.bytes());
  return memory;
}

/// Launches all configs of \p samples behind a grid that ends as late as it
/// may, and compares with launches that are ordered in full.
void checkDependence(const std::vector<Sample> &samples, int sms = 0) {
  EmulatedTrials trials(sms);
  for (const Sample &sample : samples) {
    CAPTURE(sample.problem);
    for (const std::string &config : trials.configsOf(sample)) {
      CAPTURE(config);
      DependentCase launched = trials.dependent(sample, config);
      trials.emulator.setPredecessor({});
      must(launched.launch(false));
      const std::vector<uint8_t> expected = launched.outputs();
      launched.clearOutputs();
      trials.emulator.setPredecessor(memoryOf(launched));
      const int before = trials.emulator.dependentLaunches();
      if (auto error = launched.launch(true))
        llvm::consumeError(std::move(error)); // the emulator says why
      REQUIRE(trials.emulator.fault() == "");
      LaunchSpec spec;
      launched.plan->bind(launched.arguments(true), launched.workspace(), spec);
      if (spec.steps[0].kernel.dependentLaunch)
        CHECK(trials.emulator.dependentLaunches() > before);
      CHECK(launched.outputs() == expected);
    }
  }
}

} // namespace

TEST_CASE("emulated: products that begin before the grid ahead has ended") {
  checkDependence(
      {{"gemm",
        "m=1 n=40 k=1000 dtype=bf16 layout=NT",
        {"gemv.r2.u4.w4.wk4.v1.mb4", "gemv.r8.u1.w4.wk1.v1.mb4"}},
       {"gemm",
        "m=3 n=70 k=520 dtype=bf16 layout=NT pointwise=bias,residual",
        {"gemv.r2.u4.w4.wk2.v4.mb2", "skinny.r16.v8.k64.st4.w4.mb1",
         "skinny.r16.v8.k64.st4.w4.mb1.sp1.sk2"}},
       {"gemm", "m=70 n=4 k=300 dtype=fp16 layout=NT"},
       {"gemm",
        "m=60 n=136 k=200 dtype=bf16 layout=NT beta=1",
        {"mma.bm64.bn64.bk32.st4.wm2.wn2.mb2.sp1.sk3"}},
       {"gemm",
        "m=60 n=136 k=264 dtype=bf16 layout=TN",
        {"mma.bm64.bn64.bk32.st4.wm2.wn2.mb2",
         "sm90.bm64.bn64.bk64.st3.wg1.cm1.cn1"}},
       {"gemm",
        "m=50 n=520 k=264 dtype=bf16 layout=NT pointwise=residual",
        {"sm90.bm64.bn128.bk64.st4.wg2.pp1.sw1.cm1.cn1",
         "sm90.bm64.bn256.bk64.st3.wg2.sw1.cm1.cn1"}},
       {"gemm",
        "m=12 n=200 k=700 dtype=bf16 layout=NT b=int4 scale_b=1x128 zero_b=1 "
        "order_b=k64r16 pointwise=residual",
        {"packed90.r64.v16.bk128.st4.wg2.ks1",
         "packed90.r128.v16.bk128.st3.wg2"}},
       {"gemm",
        "m=12 n=200 k=704 dtype=bf16 layout=NT b=int4 scale_b=1x128 zero_b=1 "
        "order_b=k64r16 pointwise=residual",
        {"packed.r16.v16.k64.st5.rs4.w4.mb1"}},
       {"gemm", "m=70 n=72 k=96 dtype=fp16 layout=NN pointwise=bias,silu"},
       {"gemm", "m=45 n=45 k=45 dtype=bf16 layout=NT align=2"},
       {"gemm", "m=45 n=46 k=48 dtype=bf16 layout=NT align=4"},
       {"gemm",
        "m=60 n=264 k=200 dtype=bf16 layout=NT out=e4m3 scale_d=1x128",
        {"mma.bm64.bn64.bk32.st4.wm2.wn2.mb2"}},
       {"gemm", "m=33 n=40 k=60 dtype=fp32 layout=NT"}},
      1); // products that leave SMs idle do not read ahead
}

TEST_CASE("emulated: rows that begin before the grid ahead has ended") {
  checkDependence(
      {{"elementwise", "op=silu,mul rows=5 cols=1000 dtype=bf16"},
       {"softmax", "rows=5 cols=1000 dtype=fp16"},
       {"rmsnorm", "rows=3 cols=2048 dtype=bf16"},
       {"rmsnorm",
        "rows=2 cols=3003 dtype=bf16 weight=1",
        {"resident.t64.rt64.v8.n2.r1.c1.mb1.o1.g1.k4"}},
       {"reduce", "op=sum rows=5 cols=3000 dtype=fp32"},
       {"rowquant", "rows=3 cols=512 dtype=bf16"},
       {"transpose2d", "rows=70 cols=130 dtype=bf16"},
       {"transpose2d", "rows=9 cols=130 dtype=bf16", {"line.tc64.t64.cp4"}},
       {"gather", "rows=37 cols=200 xrows=90 dtype=bf16"},
       {"allreduce", "rows=3 cols=520 ranks=2 dtype=bf16 residual=1 norm=1"},
       {"gather",
        "by=both batch=2 rows=9 cols=520 xrows=40 yrows=40 dtype=bf16 "
        "index=int64",
        {"lanes.t64.l32.i2.r2.v16"}},
       {"sample", "rows=3 vocab=3000 dtype=bf16 advance=1"},
       {"sample", "rows=3 vocab=3000 dtype=fp32 temperature=1 topk=1 topp=1 "
                  "repetition=1 advance=1 lengths=1"},
       {"route", "tokens=70 experts=40 topk=5 dtype=fp32 chosen=1"},
       {"route",
        "tokens=70 experts=40 topk=5 dtype=bf16 choice_bias=1 sizes=1",
        {"cluster.t64.i2.n2.c2"}},
       {"combine", "tokens=9 cols=520 topk=3 dtype=bf16 residual=1 norm=1"}});
}

TEST_CASE("emulated: attentions that begin before the grid ahead has ended") {
  checkDependence(
      {{"attention",
        "batch=1 sq=100 sk=150 heads=2 kvheads=1 d=64 dtype=bf16 mask=causal "
        "lse=1",
        {"sm90.wg1.bn96.st3.pk1"}},
       {"attention",
        "batch=4 sq=150 sk=200 heads=2 d=32 dtype=fp16 qlen=packed "
        "kvlen=packed mask=causal lse=1",
        {"sm90.wg2.bn64.st3.or1.dy1.pk1"}},
       {"attention",
        "batch=2 sq=1 sk=500 heads=8 kvheads=2 d=128 dtype=bf16 kvlen=used "
        "lse=1"},
       {"attention",
        "batch=2 sq=2 sk=300 heads=64 kvheads=1 d=576 dv=512 dtype=bf16 "
        "latent=1 lse=1",
        {"sm90mla.cl1.pc2.f2", "sm90mla.cl2.pc4"}},
       {"attention_merge", "batch=2 rows=5 heads=3 d=64 dtype=bf16"}},
      2);
}

// The control: where an operand is called constant although the grid ahead
// writes it, the launch reads the values before.
TEST_CASE("emulated: rotations that begin before the grid ahead has ended") {
  const std::string step = "tokens=9 heads=4 kvheads=2 d=64 dtype=bf16 "
                           "rotary=64 kcache=1 vcache=1 page=4 ";
  checkDependence(
      {{"rope", step + "slots=array", {"heads.t64.v8.i2"}},
       {"rope",
        step + "slots=table qnorm=1 knorm=1",
        {"heads.t64.v8.i1", "heads.t64.v4.i4", "heads.t64.v8.i2.sh1"}}});
}

/// The memory of the last token of each sequence in the cache \p operand of an
/// attention with key_lengths and a page table.
static std::vector<SharedMemoryOfGrids>
newestTokens(const Arguments &arguments, const Values &values, int operand) {
  using F = AttentionField;
  auto at = [&](int index) { return arguments.operands[index]; };
  const auto *lengths =
      reinterpret_cast<const int *>(at(AttentionOperand::KeyLengths).address);
  const OperandArgument table = at(AttentionOperand::PageTable);
  const auto *pages = reinterpret_cast<const int *>(table.address);
  const int64_t page = values[F::Page];
  std::vector<SharedMemoryOfGrids> memory;
  for (int64_t b = 0; b < values[F::Batch]; ++b) {
    if (lengths[b] == 0)
      continue;
    const int64_t token = lengths[b] - 1;
    const int64_t entry = pages[b * table.leadingDimension + token / page];
    const OperandArgument cache = at(operand);
    const int64_t element =
        entry * cache.batchStride + token % page * cache.leadingDimension;
    memory.push_back(
        {reinterpret_cast<unsigned char *>(cache.address) + 2 * element,
         static_cast<size_t>(2 * values[F::KvHeads] * values[F::D])});
  }
  return memory;
}

TEST_CASE("emulated: decoding reads the keys of a cache early") {
  using Operand = AttentionOperand;
  constexpr uint32_t kCache = 1u << Operand::K | 1u << Operand::V |
                              1u << Operand::KeyLengths |
                              1u << Operand::PageTable;
  const Sample sample{
      "attention",
      "batch=3 sq=1 sk=500 heads=8 kvheads=2 d=128 dtype=bf16 kvlen=used "
      "pages=table page=16",
      {"decode.r8.t16.st3.w4.f8", "decode.r8.t16.st3.w4.cl1.f8"}};
  EmulatedTrials trials(2);
  for (const std::string &config : trials.configsOf(sample)) {
    CAPTURE(config);
    DependentCase launched = trials.dependent(sample, config);
    trials.emulator.setPredecessor({});
    must(launched.launch(false));
    const std::vector<uint8_t> expected = launched.outputs();
    Arguments arguments = launched.arguments(true);
    auto outputs = [&](std::vector<SharedMemoryOfGrids> written) {
      launched.clearOutputs();
      trials.emulator.setPredecessor(std::move(written));
      must(launched.plan->launch(arguments, launched.workspace(),
                                 launched.stream.handle()));
      CHECK(trials.emulator.fault() == "");
      return launched.outputs();
    };
    // The kernel ahead may write all but the keys and what leads to them.
    std::vector<SharedMemoryOfGrids> others = memoryOf(launched);
    CHECK(outputs(others) == expected);
    llvm::erase_if(others, [&](const SharedMemoryOfGrids &memory) {
      for (auto [i, operand] : llvm::enumerate(arguments.operands))
        if (kCache >> i & 1 &&
            operand.address == reinterpret_cast<DeviceAddress>(memory.data))
          return true;
      return false;
    });
    std::vector<SharedMemoryOfGrids> newest = others, older = others;
    for (int cache : {int(Operand::K), int(Operand::V)})
      llvm::append_range(
          newest, newestTokens(arguments, launched.problem.values, cache));
    older.push_back(
        {reinterpret_cast<unsigned char *>(
             arguments.operands[Operand::K].address),
         static_cast<size_t>(
             launched.buffers->table().operands[Operand::K].bytes())});
    CHECK(outputs(older) == expected);
    arguments.constants |= kCache;
    CHECK(outputs(newest) == expected);
    CHECK(outputs(older) != expected);
    // Lengths that are not complete forbid it.
    arguments.constants &= ~(1u << Operand::KeyLengths);
    CHECK(outputs(older) == expected);
  }
}

TEST_CASE("emulated: an operand that is no constant is read too early") {
  constexpr uint32_t kFirst = 1u << 0;
  EmulatedTrials trials(1);
  for (const Sample &sample :
       std::vector<Sample>{{"gemm",
                            "m=16 n=1 k=1000 dtype=bf16 layout=NT",
                            {"gemv.r4.u4.w4.wk1.v1.mb4.sa1"}},
                           {"gemm",
                            "m=16 n=8 k=520 dtype=bf16 layout=NT",
                            {"skinny.r16.v8.k64.st4.w4.mb1.sa1"}},
                           {"gemm",
                            "m=60 n=60 k=264 dtype=bf16 layout=NT",
                            {"mma.bm64.bn64.bk32.st4.wm2.wn2.mb2",
                             "sm90.bm64.bn64.bk64.st3.wg1.cm1.cn1"}}})
    for (const std::string &config : sample.configs) {
      CAPTURE(config);
      DependentCase launched = trials.dependent(sample, config);
      trials.emulator.setPredecessor({});
      must(launched.launch(false));
      const std::vector<uint8_t> expected = launched.outputs();
      const std::vector<SharedMemoryOfGrids> written = memoryOf(launched);
      for (bool lies : {false, true}) {
        launched.clearOutputs();
        trials.emulator.setPredecessor(written);
        Arguments arguments = launched.arguments(true);
        REQUIRE((arguments.constants & kFirst) == 0);
        if (lies)
          arguments.constants |= kFirst;
        must(launched.plan->launch(arguments, launched.workspace(),
                                   launched.stream.handle()));
        CHECK(trials.emulator.fault() == "");
        CHECK((launched.outputs() != expected) == lies);
      }
    }
}

TEST_CASE("emulated: a kernel that reads before the grid ahead has ended") {
  Patch patch("gemm/SkinnyGemm.cuh", "pass == 1);", "pass == 0 || !isEarly);");
  EmulatedTrials trials(1);
  DependentCase launched =
      trials.dependent({"gemm", "m=3 n=70 k=512 dtype=bf16 layout=NT"},
                       "skinny.r16.v8.k64.st4.w4.mb1");
  must(launched.launch(false));
  const std::vector<uint8_t> expected = launched.outputs();
  launched.clearOutputs();
  trials.emulator.setPredecessor(memoryOf(launched));
  must(launched.launch(true));
  CHECK(trials.emulator.fault() == "");
  CHECK(launched.outputs() != expected);
}

// A problem of five queries and two heads, in three blocks.
static const Sample kAttentions = {"attention",
                                   "sq=5 sk=70 heads=2 d=64 dtype=bf16"};

TEST_CASE("emulated: a kernel that writes before the grid ahead has ended") {
  Patch patch("attention/NaiveAttention.cuh", "awaitPredecessor();\n", "");
  EmulatedTrials trials;
  DependentCase launched = trials.dependent(kAttentions, "naive.w4");
  trials.emulator.setPredecessor(memoryOf(launched));
  llvm::consumeError(launched.launch(true)); // the emulator says what is wrong
  CHECK(llvm::StringRef(trials.emulator.fault())
            .contains("written before the grid ahead had ended"));
}

TEST_CASE("emulated: a block that never waits for the grid ahead is told") {
  Patch patch("attention/NaiveAttention.cuh", "awaitPredecessor();\n",
              "if (blockIdx.x > 0) return;\nawaitPredecessor();\n");
  EmulatedTrials trials;
  DependentCase launched = trials.dependent(kAttentions, "naive.w4");
  trials.emulator.setPredecessor(memoryOf(launched));
  llvm::consumeError(launched.launch(true)); // the emulator says what is wrong
  CHECK(llvm::StringRef(trials.emulator.fault()).contains("never waited"));
}
