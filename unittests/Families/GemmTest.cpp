#include "Families/Families.h"
#include "Families/Gemm/GemmProblem.h"
#include "Families/Gemm/GemmTemplate.h"

#include "Device/Catalog.h"
#include "Kernel/Space.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <sstream>

using namespace kiln;

static const KernelFamily &gemm() {
  static const Registry registry = makeBuiltinRegistry();
  return *registry.find("gemm");
}

static Problem parse(llvm::StringRef text) {
  auto problem = gemm().parseProblem(text);
  if (!problem)
    FAIL(summarize(problem.takeError()).message);
  return *problem;
}

static std::string failure(llvm::StringRef text) {
  auto problem = gemm().parseProblem(text);
  REQUIRE(!problem);
  return summarize(problem.takeError()).message;
}

static const DeviceModel &h200() {
  static const DeviceModel device = llvm::cantFail(findDevice("h200-sxm"));
  return device;
}

TEST_CASE("equal problems have equal text") {
  auto plain = parse("gemm m=64 n=128 k=256 dtype=bf16 layout=NT");
  CHECK(plain.text() == "gemm m=64 n=128 k=256 dtype=bf16 layout=NT");
  CHECK(parse("gemm m=64 n=128 k=256 dtype=bf16 out=bf16 layout=NT lda=256 "
              "ldb=256 ldc=999 ldd=128 batch=1 alpha=1 beta=0 align=16")
            .text() == plain.text());
  CHECK(parse("gemm m=64 n=128 k=256 dtype=bf16 layout=NT beta=1 ldc=999")
            .text() ==
        "gemm m=64 n=128 k=256 dtype=bf16 layout=NT beta=1 ldc=999");
}

TEST_CASE("bad problems get one clear line") {
  CHECK(failure("gemm m=-1 n=1 k=1 dtype=bf16") == "gemm: m=-1 is below 0");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 out=fp16") ==
        "gemm: out is neither dtype nor fp32");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 compute=tf32") ==
        "gemm: compute=tf32 needs dtype=fp32");
  CHECK(failure("gemm m=1 n=1 k=8 dtype=bf16 lda=4") ==
        "gemm: lda=4 is below the row length 8");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 align=3") ==
        "gemm: align=3 is not a power of two");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=fp32 align=2") ==
        "gemm: align=2 is below the element's 4 bytes");
  CHECK(failure("gemm m=1 n=1 k=1 dtype=bf16 pointwise=bias,bias") ==
        "gemm: pointwise has more than one bias or residual");
  CHECK(failure("gemm m=2147483647 n=2147483647 k=1 dtype=bf16 "
                "batch=2147483647")
            .find("exceeds the address space") != std::string::npos);
}

TEST_CASE("alignment classes follow leading dimensions and the promise") {
  auto classes = [](llvm::StringRef text) {
    GemmSignature s = readGemmSignature(parse(text).signature);
    return std::tuple(s.alignA, s.alignB, s.alignD);
  };
  CHECK(classes("gemm m=8 n=8 k=8 dtype=bf16 layout=NT") ==
        std::tuple(16, 16, 16));
  CHECK(classes("gemm m=8 n=12 k=7 dtype=bf16 layout=NT") ==
        std::tuple(2, 2, 8));
  CHECK(classes("gemm m=8 n=12 k=7 dtype=bf16 layout=NN") ==
        std::tuple(2, 8, 8));
  CHECK(classes("gemm m=8 n=8 k=8 dtype=fp32 align=4") == std::tuple(4, 4, 4));
  CHECK(classes("gemm m=8 n=8 k=8 dtype=bf16 pointwise=residual ldr=9") ==
        std::tuple(16, 16, 2));
}

TEST_CASE("signatures and chains survive their records") {
  auto problem = parse("gemm m=1 n=2 k=3 dtype=fp16 out=fp32 layout=TN "
                       "pointwise=bias,gelu_tanh,residual beta=0.5");
  GemmSignature signature = readGemmSignature(problem.signature);
  CHECK(toRecord(signature) == problem.signature);
  CHECK(signature.pointwise.size() == 3);
  CHECK(signature.readsC);
  CHECK(decodeChain(encodeChain(signature.pointwise)) == signature.pointwise);
}

TEST_CASE("every config of the space is valid, distinct and parses back") {
  for (llvm::StringRef text :
       {"gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT",
        "gemm m=1 n=4096 k=14336 dtype=fp16 layout=NT",
        "gemm m=100 n=200 k=300 dtype=fp32 layout=TN",
        "gemm m=33 n=77 k=131 dtype=fp32 compute=tf32 layout=TT",
        "gemm m=3 n=5 k=0 dtype=bf16"}) {
    CAPTURE(text);
    Problem problem = parse(text);
    auto space = exploreSpace(gemm(), problem, h200(), ModelKind::Main, true);
    REQUIRE(bool(space));
    std::set<std::string> seen;
    for (const Candidate &candidate : space->ranked) {
      std::string config = candidate.config.text();
      CHECK(seen.insert(config).second);
      auto parsed = gemm().parseConfig(config);
      REQUIRE(bool(parsed));
      CHECK(parsed->config == candidate.config);
      CHECK(candidate.estimate.totalNs > 0);
      CHECK(std::isfinite(candidate.estimate.totalNs));
      Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
      CHECK(plan.workspace.zeroedBytes <= WorkspaceLayout::kZeroedRegionBytes);
      CHECK(plan.sharedBytes[0] <= h200().sharedBytesPerBlock);
    }
    CHECK(space->ranked.size() > 1);
  }
}

TEST_CASE("every template is offered where its types allow it") {
  auto templates = [](llvm::StringRef text, llvm::StringRef device) {
    std::set<std::string> names;
    DeviceModel model = llvm::cantFail(findDevice(device));
    auto space = exploreSpace(gemm(), parse(text), model);
    REQUIRE(bool(space));
    for (const Candidate &candidate : space->ranked)
      names.insert(candidate.tmpl->name().str());
    return names;
  };
  using Names = std::set<std::string>;
  llvm::StringRef bf16 = "gemm m=512 n=512 k=512 dtype=bf16";
  CHECK(templates(bf16, "h200-sxm") == Names{"mma", "naive", "simt"});
  CHECK(templates(bf16, "t4") == Names{"naive", "simt"});
  llvm::StringRef fp32 = "gemm m=512 n=512 k=512 dtype=fp32";
  CHECK(templates(fp32, "h200-sxm") == Names{"naive", "simt"});
  CHECK(templates("gemm m=512 n=512 k=512 dtype=fp32 compute=tf32",
                  "h200-sxm") == Names{"mma", "naive"});
}

TEST_CASE("prune names the limit that a typed config breaks") {
  Problem problem = parse("gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT");
  auto reason = [&](llvm::StringRef config) {
    auto named = gemm().parseConfig(config);
    REQUIRE(bool(named));
    auto rejection = named->tmpl->prune(problem, named->config, h200());
    return rejection ? rejection->text() : "none";
  };
  CHECK(reason("mma.bm128.bn128.bk32.st3.wm2.wn2.mb1") == "none");
  CHECK(reason("mma.bm256.bn256.bk32.st3.wm2.wn4.mb1") ==
        "registers: 256 accumulators, limit 128 accumulators");
  CHECK(reason("mma.bm128.bn256.bk64.st8.wm2.wn4.mb1") ==
        "shared-memory: 393216 B, limit 232448 B");
  CHECK(reason("mma.bm128.bn128.bk24.st3.wm2.wn2.mb1") == "instruction-shape");
}

TEST_CASE("bind places operands, scalars, splits and the grid") {
  Problem problem =
      parse("gemm m=100 n=200 k=4096 dtype=bf16 layout=NT alpha=2 beta=3");
  auto named = llvm::cantFail(
      gemm().parseConfig("mma.bm64.bn64.bk64.st3.wm2.wn2.mb1.sp1.sk4"));
  Plan plan = named.tmpl->plan(problem, named.config, h200());
  CHECK(plan.workspace.zeroedBytes == 2 * 4 * 4);
  CHECK(plan.workspace.bytes == (64 << 10) + 2 * 4 * 4 * 64 * 64 * 4);
  Arguments arguments = gemm().defaultArguments(problem);
  arguments.operands[GemmOperand::A].address = 0x1000;
  arguments.operands[GemmOperand::D].address = 0x2000;
  LaunchContext context;
  context.workspace = 0x100000;
  LaunchSpec spec;
  plan.binder->bind(arguments, context, spec);
  REQUIRE(spec.stepCount == 2);
  CHECK(spec.steps[0].kind == LaunchStep::Kind::Memset);
  CHECK(spec.steps[0].memset.bytes == plan.workspace.zeroedBytes);
  const KernelStep &kernel = spec.steps[1].kernel;
  CHECK(kernel.grid == Dim3{2 * 4 * 4});
  CHECK(kernel.block == Dim3{128});
  GemmParams params;
  std::memcpy(&params, spec.params + kernel.paramOffset, sizeof(params));
  CHECK(params.a == reinterpret_cast<void *>(0x1000));
  CHECK(params.d == reinterpret_cast<void *>(0x2000));
  CHECK(params.alpha == 2);
  CHECK(params.beta == 3);
  CHECK(params.splitK == 4);
  CHECK(params.strideD == 100 * 200);
  CHECK(params.counters == reinterpret_cast<unsigned *>(0x100000));
  CHECK(params.partials == reinterpret_cast<float *>(0x110000));
  context.workspaceZeroed = true;
  LaunchSpec zeroed;
  plan.binder->bind(arguments, context, zeroed);
  CHECK(zeroed.stepCount == 1);
}

TEST_CASE("the operand table describes what the problem reads and writes") {
  Problem problem = parse("gemm m=4 n=6 k=8 dtype=bf16 out=fp32 layout=TN "
                          "batch=3 pointwise=bias align=2 ldd=7");
  OperandTable table = gemm().operands(problem);
  REQUIRE(table.operands.size() == GemmOperand::Count);
  const OperandSpec &a = table.operands[GemmOperand::A];
  CHECK((a.rows == 8 && a.cols == 4 && a.leadingDimension == 4));
  CHECK(a.bytes() == 3 * 8 * 4 * 2);
  CHECK(a.misalignment == 2);
  CHECK(!table.operands[GemmOperand::C].present);
  CHECK(table.operands[GemmOperand::D].bytes() == (3 * 4 * 7 - 1) * 4);
  CHECK(table.operands[GemmOperand::Bias].bytes() == 6 * 4);
  CHECK(gemm().compulsoryBytes(problem) ==
        3 * (8 * 4 + 8 * 6) * 2 + 3 * 4 * 6 * 4 + 6 * 4);
  CHECK(gemm().flops(problem) == 2.0 * 4 * 6 * 8 * 3);
}

TEST_CASE("nothing to compute is known as such") {
  CHECK(gemm().isEmpty(parse("gemm m=0 n=5 k=5 dtype=bf16")));
  CHECK(gemm().isEmpty(parse("gemm m=5 n=5 k=5 dtype=bf16 batch=0")));
  CHECK(!gemm().isEmpty(parse("gemm m=5 n=5 k=0 dtype=bf16")));
}

TEST_CASE("the translation unit is the golden one") {
  Problem problem = parse("gemm m=128 n=256 k=512 dtype=bf16 layout=NT "
                          "pointwise=bias,gelu_tanh out=fp32");
  auto named = llvm::cantFail(
      gemm().parseConfig("mma.bm128.bn128.bk32.st4.wm2.wn2.mb1"));
  Plan plan = named.tmpl->plan(problem, named.config, h200());
  std::ifstream file(KILN_SOURCE_DIR "/unittests/Families/golden/mma.cu");
  std::stringstream golden;
  golden << file.rdbuf();
  CHECK(plan.kernels[0].source == golden.str());
  CHECK(plan.kernels[0].arch == "sm_90");
}

TEST_CASE("every case of the suites is planned") {
  for (llvm::StringRef suite : {"gemm_llm_bf16", "gemm_shapes"}) {
    auto json = llvm::cantFail(readJsonFile(
        (llvm::Twine(KILN_SOURCE_DIR "/benchmarks/suites/") + suite + ".json")
            .str()));
    for (const llvm::json::Value &value :
         *json.getAsObject()->getArray("cases")) {
      auto record = Record::fromJson(gemm().problemSchema(),
                                     *value.getAsObject(), {"name", "family"});
      REQUIRE(bool(record));
      auto problem = gemm().canonicalise(std::move(*record));
      REQUIRE(bool(problem));
      CAPTURE(problem->text());
      auto space = exploreSpace(gemm(), *problem, h200());
      REQUIRE(bool(space));
      // A handful of products may be anybody's.
      if (gemm().flops(*problem) > 1e6)
        CHECK(space->ranked.front().tmpl->name() != "naive");
    }
  }
}
