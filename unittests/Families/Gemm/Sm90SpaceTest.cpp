// The space of the wgmma template, walked through: the rules that every config
// in it keeps, on the host and in the maps that a driver encodes.
#include "Driver/FakeDriver.h"
#include "Driver/Launcher.h"
#include "Families/Gemm/Sm90Testing.h"
#include "Kernel/ConfigSchema.h"
#include "Kernel/Space.h"
#include "Support/Format.h"
#include "gemm/Sm90GemmConfig.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// Problems that differ in the parts of a signature on which a config's sizes
/// depend.
constexpr llvm::StringRef kProblems[] = {
    "gemm m=8192 n=8192 k=8192 dtype=bf16 layout=NT",
    "gemm m=4096 n=4096 k=4096 dtype=fp16 layout=NN batch=2",
    "gemm m=1000 n=1024 k=2048 dtype=bf16 layout=TN",
    "gemm m=512 n=7168 k=2048 dtype=bf16 layout=TT lda=520",
    "gemm m=64 n=4096 k=14336 dtype=bf16 layout=NT",
    "gemm m=17 n=2112 k=7168 dtype=fp16 layout=NN",
    "gemm m=128 n=512 k=4096 dtype=bf16 layout=NT out=fp32",
    "gemm m=333 n=1048 k=1000 dtype=bf16 layout=NT pointwise=bias,gelu_erf",
    "gemm m=2048 n=4096 k=4096 dtype=bf16 layout=NT beta=1 pointwise=residual",
    "gemm m=100 n=512 k=8192 dtype=bf16 layout=NT out=fp32 beta=1 "
    "pointwise=bias,residual,silu",
    "gemm m=2048 n=8192 k=4096 dtype=bf16 layout=NT pointwise=swiglu",
    "gemm m=256 n=1024 k=4096 dtype=bf16 layout=NT out=fp32 "
    "pointwise=bias,swiglu,residual",
    "gemm m=1000 n=7777 k=2664 dtype=bf16 layout=NT",
    "gemm m=48 n=333 k=4095 dtype=fp16 layout=TN batch=3 beta=1",
    "gemm m=31 n=40 k=64 dtype=bf16 layout=NT",
    "gemm m=4096 n=4096 k=4096 dtype=fp32 compute=tf32 layout=NT",
    "gemm m=1000 n=1000 k=1000 dtype=fp32 compute=tf32 layout=TT beta=1",
    "gemm m=64 n=4096 k=4096 dtype=fp32 compute=tf32 layout=NN",
    "gemm m=300 n=333 k=1001 dtype=fp32 compute=tf32 layout=TN batch=2",
};

/// Calls \p visit with each sm90 candidate; returns how many there are.
template <class F> size_t forEachCandidate(const Problem &problem, F visit) {
  Space space = llvm::cantFail(exploreSpace(gemm(), problem, h200()));
  size_t count = 0;
  for (const Candidate &candidate : space.ranked)
    if (candidate.tmpl->name() == "sm90") {
      ++count;
      visit(candidate);
    }
  return count;
}

constexpr size_t kMembers[] = {
    offsetof(Sm90GemmParams, a), offsetof(Sm90GemmParams, b),
    offsetof(Sm90GemmParams, c), offsetof(Sm90GemmParams, d),
    offsetof(Sm90GemmParams, residual)};

uint64_t boxBytes(const TensorMapSpec &map) {
  return uint64_t(map.box[0]) * map.box[1] *
         bytesOf(static_cast<DType>(map.elementType));
}

/// Bytes that a row of a box has for its swizzle: all of it, and no more.
uint64_t swizzleBytes(TensorMapSwizzle swizzle) {
  return swizzle == TensorMapSwizzle::B128  ? 128
         : swizzle == TensorMapSwizzle::B64 ? 64
         : swizzle == TensorMapSwizzle::B32 ? 32
                                            : 0;
}

/// Whether whole boxes of \p map fill \p bytes, unless they are clipped to all
/// existing rows, or to pairs of them.
bool fills(const TensorMapSpec &map, uint64_t bytes) {
  return bytes % boxBytes(map) == 0 || map.box[1] == map.dims[1] ||
         map.box[1] == map.dims[1] + map.dims[1] % 2;
}

void checkMaps(const Driver &driver, const BoundLaunch &launch,
               const Sm90GemmConfig &config, const GemmSignature &signature) {
  for (size_t member : kMembers) {
    auto map = launch.map(member);
    if (!map)
      continue;
    CAPTURE(member);
    CHECK(map->isPrototype);
    auto encoded = encodeTensorMap(driver, map->spec, map->address);
    if (!encoded)
      FAIL_CHECK(summarize(encoded.takeError()).message);
    uint64_t rowBytes =
        map->spec.box[0] * bytesOf(static_cast<DType>(map->spec.elementType));
    CHECK(rowBytes == swizzleBytes(map->spec.swizzle));
  }
  auto a = launch.map(kMembers[0]), b = launch.map(kMembers[1]),
       d = launch.map(kMembers[3]);
  REQUIRE((a && b));
  const auto bytes = static_cast<uint64_t>(bytesOf(signature.in));
  CHECK(fills(a->spec, config.blockM * config.blockK * bytes));
  CHECK(fills(b->spec, config.blockN * config.blockK * bytes));
  CHECK(d.has_value() == config.storesByTma(signature));
  if (d)
    CHECK(boxBytes(d->spec) <= uint64_t(config.pieceBytes(signature)));
}

void checkLaunch(const BoundLaunch &launch, const Plan &plan,
                 const Sm90GemmConfig &config) {
  const KernelStep &step = launch.product();
  int64_t group = config.groupBlocks();
  CHECK(step.grid.x >= group);
  CHECK(step.grid.x <= h200().smCount);
  CHECK(step.grid.x % group == 0);
  CHECK(step.cluster == Dim3{uint32_t(config.multicastBlocks())});
  CHECK(step.cooperative == (config.splitK() > 1));
  CHECK(step.block.x <= 512);
  CHECK(step.sharedBytes == plan.sharedBytes[0]);
  CHECK(launch.spec.paramBytes <= LaunchSpec::kMaxParamBytes);
  CHECK((plan.workspace.zeroedBytes > 0) == (config.splitK() > 1));
  CHECK(plan.workspace.zeroedBytes <= uint64_t(64) << 20);
}

/// Splits alternate along k: every one has a step.
bool hasWorkForAll(const Sm90GemmConfig &config, int64_t k) {
  return config.splitK() <= (k + config.blockK - 1) / config.blockK;
}

} // namespace

TEST_CASE("every wgmma config of a space keeps the rules of its launch") {
  FakeDriver fake;
  for (llvm::StringRef text : kProblems) {
    CAPTURE(text.str());
    Problem problem = parse(text);
    GemmSignature signature = readGemmSignature(problem.signature);
    int64_t k = readGemmProblem(problem.values.array().data()).k;
    size_t count = forEachCandidate(problem, [&](const Candidate &candidate) {
      CAPTURE(candidate.config.text());
      auto config = fromValues<Sm90GemmConfig>(candidate.config);
      CHECK(config.isValid(signature));
      CHECK(config.stages >= 2);
      CHECK(config.sharedBytes(signature) <= h200().sharedBytesPerBlock);
      // A ring as deep as fits, up to the useful depth.
      CHECK((config.stages == 12 ||
             config.sharedBytes(signature) + config.stageBytes(signature) + 16 >
                 h200().sharedBytesPerBlock));
      CHECK(hasWorkForAll(config, k));
      Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
      CHECK(plan.kernels[0].arch() == "sm_90a");
      CHECK(!plan.kernels[0].maySpill());
      BoundLaunch launch(plan, problem);
      checkMaps(*fake.driver, launch, config, signature);
      checkLaunch(launch, plan, config);
    });
    CHECK(count > 5);
    CHECK(count < 650);
  }
}

TEST_CASE("the space has what the problem asks for") {
  struct Found {
    std::set<int> splits, swaps, clusters, pingPongs, columnShared;
  };
  auto find = [](llvm::StringRef text) {
    Found found;
    forEachCandidate(parse(text), [&](const Candidate &candidate) {
      auto config = fromValues<Sm90GemmConfig>(candidate.config);
      found.splits.insert(config.splitK());
      found.swaps.insert(config.swapAB);
      found.clusters.insert(config.multicastBlocks());
      found.pingPongs.insert(config.pingPong);
      found.columnShared.insert(config.columnShared);
    });
    return found;
  };
  // A large one fills the chip with whole tiles.
  Found large = find("gemm m=8192 n=8192 k=8192 dtype=bf16 layout=NT");
  CHECK(large.splits == std::set<int>{1});
  CHECK(large.clusters == std::set<int>{1});
  CHECK(large.pingPongs == std::set<int>{0, 1});
  CHECK(large.swaps == std::set<int>{0, 1});
  CHECK(large.columnShared == std::set<int>{0, 1});
  // Few rows and a long k.
  Found thin = find("gemm m=16 n=1024 k=16384 dtype=bf16 layout=NT");
  CHECK(thin.splits.size() > 2);
  CHECK(thin.swaps.count(1) == 1);
  // Joined columns are columns of wgmma.
  Found joined =
      find("gemm m=16 n=1024 k=16384 dtype=bf16 layout=NT pointwise=swiglu");
  CHECK(joined.swaps == std::set<int>{0});
  // TMA reads a copy of A in either case.
  CHECK(!find("gemm m=512 n=512 k=1001 dtype=bf16 layout=NT").swaps.empty());
  for (llvm::StringRef other : {"gemm m=512 n=512 k=0 dtype=bf16 layout=NT",
                                "gemm m=512 n=512 k=512 dtype=fp32 layout=NT"})
    CHECK(find(other).swaps.empty());
}

/// Configs of a whole space by their texts.
static std::set<std::string> spaceOf(llvm::StringRef text,
                                     const DeviceModel &device = h200()) {
  Space space = llvm::cantFail(exploreSpace(gemm(), parse(text), device));
  std::set<std::string> texts;
  for (const Candidate &candidate : space.ranked)
    texts.insert(candidate.config.text());
  return texts;
}

TEST_CASE("the space derives the tiles that win") {
  struct Case {
    llvm::StringRef problem, config; ///< the best measured one on an H200
  };
  for (const Case &c : {
           Case{"m=777 n=6144 k=5120",
                "sm90.bm200.bn192.bk64.st4.wg3.sw1.cm1.cn1.sg2"},
           Case{"m=200 n=10240 k=5120",
                "sm90.bm104.bn192.bk64.st6.wg3.sw1.cm1.cn1.sg2"},
           Case{"m=1536 n=1536 k=1536",
                "sm90.bm192.bn96.bk64.st6.wg3.cm1.cn1.sg2"},
           Case{"m=300 n=28672 k=3584",
                "sm90.bm80.bn128.bk64.st7.wg2.pp1.sw1.cm1.cn1"},
           Case{"m=333 n=28672 k=4096",
                "sm90.bm88.bn128.bk64.st7.wg2.pp1.sw1.cm1.cn1"},
           Case{"m=148 n=28672 k=4096",
                "sm90.bm152.bn256.bk64.st4.wg2.sw1.cm1.cn1.sg2"},
           Case{"m=281 n=6144 k=4096",
                "sm90.bm72.bn192.bk64.st6.wg3.sw1.cm1.cn1.sg2"},
           Case{"m=281 n=4096 k=14336",
                "sm90.bm72.bn128.bk64.st8.wg2.sw1.cm1.cn1"},
           Case{"m=200 n=4096 k=14336",
                "sm90.bm104.bn64.bk64.st10.wg1.sw1.cm1.cn1"},
           Case{"m=777 n=4096 k=14336",
                "sm90.bm200.bn128.bk64.st5.wg2.sw1.cm1.cn1.sg2"},
           Case{"m=3000 n=4096 k=4096",
                "sm90.bm192.bn256.bk64.st3.wg2.sw1.cm1.cn1"},
           Case{"m=5000 n=5120 k=14336",
                "sm90.bm152.bn256.bk64.st4.wg2.sw1.cm1.cn1.sg1"},
           Case{"m=24 n=4096 k=14336",
                "sm90.bm24.bn64.bk128.st9.wg1.sw1.cm1.cn1.hi1"},
           Case{"m=189 n=3584 k=14336",
                "sm90.bm96.bn128.bk64.st7.wg2.sw1.cm1.cn1.sk2.hi1"},
       }) {
    CAPTURE(c.problem.str());
    CAPTURE(c.config.str());
    auto space = spaceOf(("gemm dtype=bf16 layout=NT " + c.problem).str());
    CHECK(space.count(c.config.str()) == 1);
  }
}

TEST_CASE("tiles of rows that begin within a sector come in clusters, too") {
  // The larger tile is shared: that of B, of A.
  for (llvm::StringRef config : {"sm90.bm64.bn128.bk64.st8.wg1.cm2.cn1",
                                 "sm90.bm128.bn64.bk64.st8.wg2.cm1.cn2"}) {
    auto has = [&](llvm::StringRef problem) {
      return spaceOf(
                 ("gemm m=1000 n=1000 dtype=bf16 layout=NT " + problem).str())
                 .count(config.str()) == 1;
    };
    CAPTURE(config.str());
    CHECK(has("k=1000"));
    CHECK(!has("k=1008"));
    CHECK(!has("k=1024"));
    CHECK(!has("k=1001")); // copied to rows of whole lines
    CHECK(has("k=1024 lda=1032 ldb=1032"));
  }
}

TEST_CASE("rows that are no whole lines take longer, less so in clusters") {
  auto time = [](int pitch, llvm::StringRef clusters) {
    Problem problem = parse(fmt::format(
        "gemm m=1000 n=1000 k=1000 dtype=bf16 layout=NT lda={0} ldb={0}",
        pitch));
    auto named = sm90Config(("sm90.bm64.bn128.bk64.st8.wg1" + clusters).str());
    return named.tmpl->estimate(problem, named.config, h200()).totalNs;
  };
  CHECK(time(1008, "") > time(1024, ""));
  CHECK(time(1000, "") > time(1008, ""));
  CHECK(time(1000, ".cm2") < time(1000, ""));
  CHECK(time(1024, ".cm2") > time(1024, ""));
}

TEST_CASE("tiles follow the number of SMs") {
  // 16 tiles of 96 rows by 8 of 192 columns are one wave of 132 SMs; half as
  // many SMs take tiles of twice the size.
  llvm::StringRef problem = "gemm m=1536 n=1536 k=1536 dtype=bf16 layout=NT";
  std::string small = "sm90.bm192.bn96.bk64.st6.wg3.cm1.cn1.sg2",
              large = "sm90.bm192.bn192.bk64.st4.wg3.cm1.cn1.sg2";
  auto whole = spaceOf(problem);
  CHECK(whole.count(small) == 1);
  CHECK(whole.count(large) == 0);
  DeviceModel half = h200();
  half.smCount = 66;
  auto halved = spaceOf(problem, half);
  CHECK(halved.count(small) == 0);
  CHECK(halved.count(large) == 1);
}

TEST_CASE("tiles come before splits where both sides have many") {
  int first = 0, behind = 0;
  for (llvm::StringRef text :
       {"gemm m=256 n=256 k=16384 dtype=bf16 layout=NT",
        "gemm m=128 n=2112 k=7168 dtype=bf16 layout=NT"}) {
    Problem problem = parse(text);
    GemmProblem sizes = readGemmProblem(problem.values.array().data());
    forEachCandidate(problem, [&](const Candidate &candidate) {
      auto config = fromValues<Sm90GemmConfig>(candidate.config);
      if (config.splitK() == 1)
        return;
      CAPTURE(candidate.config.text());
      bool isMany = config.tilesM(sizes.m) >= 4 && config.tilesN(sizes.n) >= 4;
      CHECK(config.tilesFirst == isMany);
      ++(isMany ? first : behind);
    });
  }
  CHECK(first > 20);
  CHECK(behind > 20);
}

TEST_CASE("prune names what takes the wgmma kernel out") {
  auto reason = [](llvm::StringRef problem, llvm::StringRef config,
                   llvm::StringRef device = "h200-sxm") {
    auto named = sm90Config(config);
    auto rejection = named.tmpl->prune(parse(problem), named.config,
                                       llvm::cantFail(findDevice(device)));
    return rejection ? rejection->text() : "none";
  };
  llvm::StringRef nt = "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT";
  llvm::StringRef wide = "sm90.bm128.bn256.bk64.st4.wg2";
  llvm::StringRef split = "sm90.bm128.bn128.bk64.st4.wg2";
  auto with = [](llvm::StringRef a, llvm::StringRef b) {
    return (a + b).str();
  };
  CHECK(reason(nt, wide) == "none");
  CHECK(reason(nt, wide, "a100-sxm4-80gb") == "architecture: 80, 90 needed");
  CHECK(reason(nt, wide, "b200-sxm") == "architecture: 100, limit 90");
  CHECK(reason("gemm m=64 n=64 k=64 dtype=fp32", wide) == "type");
  CHECK(reason("gemm m=64 n=64 k=64 dtype=fp32 compute=tf32 layout=NT",
               "sm90.bm128.bn256.bk128.st4.wg2") ==
        "instruction-shape: 128 elements of k a stage, 32 or 64 allowed");
  CHECK(reason(nt, "sm90.bm96.bn256.bk64.st4.wg2") ==
        "instruction-shape: 96 rows, 128 or 256 allowed");
  CHECK(reason(nt, "sm90.bm128.bn256.bk64.st5.wg2") ==
        "shared-memory wall: 279712 B, 232448 allowed");
  CHECK(reason("gemm m=64 n=64 k=0 dtype=bf16", wide) ==
        "dominated: 1 splits, limit 0 splits");
  CHECK(reason("gemm m=64 n=64 k=192 dtype=bf16", with(split, ".sk4")) ==
        "dominated: 4 splits, limit 3 splits");
  CHECK(reason("gemm m=64 n=64 k=320 dtype=bf16", with(split, ".sk4")) ==
        "none");
  CHECK(reason("gemm m=64 n=64 k=68096 dtype=bf16", with(split, ".sk133")) ==
        "grid: 133 splits, limit 132 splits");
  CHECK(reason(nt, with(split, ".sk2")) ==
        "workspace: 134217728 B, limit 67108864 B");
  // A tile that is too large: the wall that it hits, and its numbers.
  CHECK(reason(nt, "sm90.bm256.bn256.bk64.st3.wg2") ==
        "register wall: 256 accumulators a thread, 192 allowed");
  CHECK(reason(nt, "sm90.bm192.bn208.bk64.st3.wg3") ==
        "register wall: 104 accumulators a thread, 100 allowed");
  CHECK(reason(nt, "sm90.bm128.bn136.bk64.st3.wg2.cs1") ==
        "instruction-shape: 68 columns a consumer, "
        "16 to 256 in steps of 8 allowed");
  CHECK(reason(nt, "sm90.bm128.bn128.bk64.st3.wg2.cs1.sk2") ==
        "instruction-shape: 1 columnShared, "
        "0 with one consumer, turns or splits allowed");
  CHECK(reason(nt, "sm90.bm64.bn128.bk64.st3.wg3.pp1") ==
        "instruction-shape: 3 consumers, 2 with turns allowed");
  CHECK(reason(nt, "sm90.bm128.bn128.bk64.st3.wg2.cm2.cn2") ==
        "instruction-shape: 4 blocks a cluster, 1 or 2 allowed");
  CHECK(reason(nt, "sm90.bm448.bn64.bk64.st3.wg2.cs1") ==
        "instruction-shape: 448 rows, 64 to 384 in steps of 64 allowed");
  CHECK(reason(nt, "sm90.bm320.bn64.bk64.st3.wg1") ==
        "instruction-shape: 320 rows, 64 to 256 in steps of 64 allowed");
  CHECK(reason(nt, "sm90.bm64.bn264.bk64.st3.wg1") ==
        "instruction-shape: 264 columns, up to 256 allowed");
  CHECK(reason(with(nt, " pointwise=residual"),
               "sm90.bm128.bn104.bk64.st3.wg2") ==
        "instruction-shape: 104 columns a consumer, "
        "16 to 256 in steps of 16 allowed");
  CHECK(reason(with(nt, " beta=1"), "sm90.bm136.bn128.bk64.st3.wg2.sw1") ==
        "instruction-shape: 136 columns a consumer, "
        "those that pieces of up to 128 divide allowed");
  CHECK(reason(nt, "sm90.bm200.bn192.bk64.st5.wg3.sw1.sg2") ==
        "dominated: 462 tiles, limit 132 tiles");
  CHECK(reason(nt, "sm90.bm128.bn128.bk64.st3.wg2.pp1.sg2") ==
        "instruction-shape: 2 staging, "
        "0 or 1 with turns, splits, clusters or a short ring allowed");
  // The operands of the epilogue share registers with the sums.
  llvm::StringRef tall = "sm90.bm256.bn192.bk64.st3.wg2";
  CHECK(reason(nt, tall) == "none");
  CHECK(reason(with(nt, " pointwise=bias"), tall) == "none");
  CHECK(reason(with(nt, " out=fp32 pointwise=bias"), tall) ==
        "register wall: 192 accumulators a thread, 160 allowed");
  CHECK(reason(with(nt, " pointwise=gelu_tanh,residual"),
               "sm90.bm128.bn192.bk64.st3.wg2.pp1") ==
        "register wall: 192 accumulators a thread, 176 allowed");
  // So do block scales with promoted sums.
  llvm::StringRef blocks = "gemm m=64 n=6144 k=4096 dtype=e4m3 out=bf16 "
                           "layout=NT scale_a=1x128 scale_b=128x128";
  CHECK(reason(blocks, "sm90.bm72.bn192.bk128.st4.wg3.sw1") == "none");
  CHECK(reason(blocks, "sm90.bm80.bn192.bk128.st4.wg3.sw1") ==
        "register wall: 80 columns a part, block scales, 72 allowed");
  CHECK(reason(blocks, "sm90.bm64.bn192.bk128.st4.wg3.sw1.sk2") ==
        "register wall: 64 columns a part, block scales, 56 allowed");
  CHECK(reason(blocks, "sm90.bm160.bn192.bk128.st3.wg3.sw1.sk2") ==
        "register wall: 120 sums a thread, block scales, 112 allowed");
  CHECK(reason(blocks, "sm90.bm256.bn128.bk128.st3.wg2.sw1.sk2") ==
        "register wall: 192 sums a thread, block scales, 160 allowed");
  CHECK(reason("gemm m=65536 n=65536 k=4095 dtype=bf16 layout=NT", wide) ==
        "workspace: 1073741824 B, limit 268435456 B");
}

TEST_CASE("a wgmma estimate explains itself") {
  Problem problem = parse("gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT");
  auto named = sm90Config("sm90.bm128.bn256.bk64.st4.wg2");
  Derivation derivation = named.tmpl->explain(problem, named.config, h200());
  auto textOf = [&](llvm::StringRef name) {
    for (int number = 1; number <= int(derivation.size()); ++number)
      if (derivation[number].name() == name)
        return derivation.formulaText(number);
    return std::string();
  };
  // The walls of this tile, known from the literature: 128 sums a thread, 48
  // KiB a stage, four of which fit.
  CHECK(textOf("accumulators") == "accumulators = tile's rows 128 x columns "
                                  "256 / threads that share it 256 = 128");
  CHECK(textOf("shared memory") ==
        "shared memory = stages 4 x ( of A 16384 B + of B 32768 B ) + "
        "epilogue and barriers 33936 B = 230544 B");
  CHECK(derivation.find("S_min"));
}
