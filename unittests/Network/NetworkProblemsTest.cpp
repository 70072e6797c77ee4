// The problems of models: that they exist, their sizes in ranks, and the texts
// of a list.
#include "Network/NetworkProblems.h"

#include "Call/RangeParts.h"
#include "Families/Families.h"
#include "Network/Configs.h"
#include "Support/Error.h"
#include "kiln/allreduce.h"

#include <doctest/doctest.h>

#include <map>

using namespace kiln;
using namespace kiln::testing;

static_assert(kMostSummedRanks == KILN_ALLREDUCE_MOST_RANKS);

static std::vector<NetworkProblem> listOf(const char *json,
                                          const NetworkOptions &options) {
  auto config = NetworkConfig::parse(json, "config.json");
  REQUIRE(static_cast<bool>(config));
  auto list = problemsOf(*config, options);
  if (!list)
    FAIL(summarize(list.takeError()).message);
  return std::move(*list);
}

static std::map<std::string, std::string>
linesOf(const char *json, const NetworkOptions &options) {
  std::map<std::string, std::string> lines;
  for (const NetworkProblem &problem : listOf(json, options))
    CHECK(lines.try_emplace(problem.name, problem.line.text()).second);
  return lines;
}

static void checkExist(const std::vector<NetworkProblem> &list,
                       const Registry &registry) {
  for (const NetworkProblem &problem : list) {
    CAPTURE(problem.line.text());
    auto spec = problem.line.read(registry);
    if (!spec)
      FAIL_CHECK(summarize(spec.takeError()).message);
    else if (auto parts = partsOf(*spec); !parts)
      FAIL_CHECK(summarize(parts.takeError()).message);
    else
      CHECK(parts->size() == 1);
  }
}

TEST_CASE("every problem of every format exists") {
  const Registry registry = makeBuiltinRegistry();
  for (const char *json : {kLlama8B, kLlama70B, kQwen3Moe, kMixtral})
    for (WeightFormat weights : {WeightFormat::Bf16, WeightFormat::Fp8,
                                 WeightFormat::W4, WeightFormat::Mxfp4})
      for (CacheFormat cache : {CacheFormat::Bf16, CacheFormat::E4m3})
        for (int64_t ranks : {1, 2, 4})
          for (RankSums sums : {RankSums::Kiln, RankSums::Nccl})
            checkExist(listOf(json, {weights, cache, ranks, sums}), registry);
  const std::string bf16 = changed(kGptOss, "quantization_config", "");
  for (const char *json : {kGptOss, bf16.c_str()})
    for (CacheFormat cache : {CacheFormat::Bf16, CacheFormat::E4m3})
      checkExist(listOf(json, {.cache = cache}), registry);
}

TEST_CASE("a dense model has a product of each projection") {
  auto lines = linesOf(kLlama8B, {});
  CHECK(lines.size() == 14);
  CHECK(lines["qkv"] ==
        "gemm m=8192 n=6144 k=4096 dtype=bf16 layout=NT; m=1..8192");
  CHECK(lines["gate and up"] == "gemm m=8192 n=28672 k=4096 dtype=bf16 "
                                "layout=NT pointwise=swiglu; m=1..8192");
  CHECK(lines["output"] == "gemm m=8192 n=4096 k=4096 dtype=bf16 layout=NT "
                           "beta=1; m=1..8192");
  CHECK(lines["head"] == "gemm m=256 n=128256 k=4096 dtype=bf16 out=fp32 "
                         "layout=NT; m=1..256");
  CHECK(lines["sampling"].find("vocab=128256") != std::string::npos);
}

TEST_CASE("with fp8 rows are quantised ahead of each product") {
  auto lines = linesOf(kLlama8B, {WeightFormat::Fp8, CacheFormat::E4m3});
  CHECK(lines["quantised norm"].find(" out=fp8_e4m3") != std::string::npos);
  CHECK(lines["norm"].find(" out=") == std::string::npos);
  CHECK(lines["quantised attention"] ==
        "rowquant rows=8192 cols=4096 dtype=bf16; rows=1..8192");
  CHECK(lines["quantised gate and up"] ==
        "rowquant rows=8192 cols=14336 dtype=bf16; rows=1..8192");
  CHECK(lines["down"] == "gemm m=8192 n=4096 k=14336 dtype=e4m3 out=bf16 "
                         "layout=NT scale_a=row scale_b=row beta=1; m=1..8192");
  CHECK(lines["head"].find("dtype=bf16") != std::string::npos);
  CHECK(lines["rope"].find(" kv=e4m3 scales=tensor") != std::string::npos);
  CHECK(linesOf(kLlama8B, {WeightFormat::W4})["down"].find(
            "b=int4 order_b=k64r16 scale_b=1x128 scale_type_b=fp16") !=
        std::string::npos);
}

TEST_CASE("ranks have their share, and add the residual in the norm") {
  auto lines = linesOf(kLlama70B, {.ranks = 8, .sums = RankSums::Nccl});
  CHECK(lines["qkv"] ==
        "gemm m=8192 n=1280 k=8192 dtype=bf16 layout=NT; m=1..8192");
  CHECK(lines["output"] ==
        "gemm m=8192 n=8192 k=1024 dtype=bf16 layout=NT; m=1..8192");
  CHECK(lines["down"] ==
        "gemm m=8192 n=8192 k=3584 dtype=bf16 layout=NT; m=1..8192");
  CHECK(lines["norm with residual"].find(" residual=1") != std::string::npos);
  CHECK(lines.count("norm") == 1);
  // More ranks than heads of K and V share them.
  CHECK(linesOf(kLlama70B, {.ranks = 16, .sums = RankSums::Nccl})["qkv"].find(
            " n=768 ") != std::string::npos);
}

TEST_CASE("ranks add up by one launch with the residual and the norm") {
  auto lines = linesOf(kLlama70B, {.ranks = 8});
  CHECK(lines["sum over the ranks"] ==
        "allreduce rows=8192 cols=8192 ranks=8 dtype=bf16 norm=1 residual=1 "
        "eps=1e-05; rows=1..8192");
  // A row of 128256 logits is 64 rows of 2004.
  CHECK(lines["logits of the ranks"] ==
        "allreduce rows=16384 cols=2004 ranks=8 dtype=fp32; rows=64..16384");
  CHECK(lines["head"].find(" n=16032 ") != std::string::npos);
  CHECK(lines["head"].find(" ldd=128256") != std::string::npos);
  CHECK(lines.count("norm") == 1);
  CHECK(lines.count("norm with residual") == 0);
  lines = linesOf(kLlama70B, {.weights = WeightFormat::Fp8, .ranks = 2});
  CHECK(lines["quantised sum over the ranks"] ==
        "rowquant rows=8192 cols=8192 dtype=bf16; rows=1..8192");
}

TEST_CASE("gpt-oss has sinks, windows, biases and experts in MXFP4") {
  auto lines = linesOf(kGptOss, {.maxTokens = 512});
  CHECK(lines["attention of decodes in a window"].find(
            " mask=window left=127 right=0 ") != std::string::npos);
  CHECK(lines["attention of decodes"].find(" sinks=1") != std::string::npos);
  CHECK(lines["attention of prefills"].find(" mask=causal ") !=
        std::string::npos);
  CHECK(lines["qkv"].find(" pointwise=bias") != std::string::npos);
  CHECK(lines["output"].find(" beta=1 pointwise=bias") != std::string::npos);
  CHECK(lines["routing"].find(" logit_bias=1") != std::string::npos);
  CHECK(lines["down of experts"].find(" b=e2m1 ") != std::string::npos);
  CHECK(lines["gate and up of experts"].find(
            " pointwise=bias,swiglu_clamped") != std::string::npos);
  CHECK(lines["qkv"].find(" b=e2m1 ") == std::string::npos);
}

TEST_CASE("ranks that do not divide the vocabulary have the whole head") {
  // Parts are of whole vectors of four logits.
  for (const char *size : {"32001", "32004"}) {
    const std::string json = changed(kLlama8B, "vocab_size", size);
    auto lines = linesOf(json.c_str(), {.ranks = 2});
    CHECK(lines["head"].find(std::string(" n=") + size + " ") !=
          std::string::npos);
    CHECK(lines["qkv"].find(" n=3072 ") != std::string::npos);
  }
  const std::string even = changed(kLlama8B, "vocab_size", "32008");
  CHECK(linesOf(even.c_str(), {.ranks = 2})["head"].find(" n=16004 ") !=
        std::string::npos);
}

TEST_CASE("experts have groups of rows, and the router a product") {
  auto lines = linesOf(kQwen3Moe, {.maxTokens = 1024});
  CHECK(lines["router"] == "gemm m=1024 n=128 k=2048 dtype=bf16 out=fp32 "
                           "layout=NT; m=1..1024");
  CHECK(lines["gate and up of experts"] ==
        "gemm m=8192 n=1536 k=2048 dtype=bf16 layout=NT batch=128 groups=ends "
        "gather=1 divisor=8 pointwise=swiglu; m=8..8192");
  CHECK(lines["down of experts"] ==
        "gemm m=8192 n=2048 k=768 dtype=bf16 layout=NT batch=128 groups=ends "
        "scatter=1 row_weights=1; m=8..8192");
  CHECK(lines["routing"] == "route tokens=1024 experts=128 topk=8 dtype=fp32 "
                            "renorm=0 count=1; tokens=1..1024");
  CHECK(lines["sum of experts with norm"] ==
        "combine tokens=1024 cols=2048 topk=8 dtype=bf16 weights=present "
        "residual=1 norm=1 eps=1e-06; tokens=1..1024");
  CHECK(lines.count("sum of experts") == 0);
  CHECK(lines.count("down") == 0);
  // fp8 rows are quantised ahead of the next product, and of those of experts.
  lines = linesOf(kQwen3Moe, {.weights = WeightFormat::Fp8, .maxTokens = 1024});
  CHECK(lines["quantised norm of experts"] ==
        "rowquant rows=1024 cols=2048 dtype=bf16; rows=1..1024");
  CHECK(lines["quantised gate and up of experts"] ==
        "rowquant rows=8192 cols=768 dtype=bf16; rows=8..8192");
  CHECK(lines["sum of experts"] == "combine tokens=1024 cols=2048 topk=8 "
                                   "dtype=bf16 weights=present residual=1; "
                                   "tokens=1..1024");
  CHECK(lines.count("sum of experts with norm") == 1);
  // Ranks add up their sums first.
  lines = linesOf(kQwen3Moe, {.ranks = 2, .maxTokens = 1024});
  CHECK(lines["sum of experts"] == "combine tokens=1024 cols=2048 topk=8 "
                                   "dtype=bf16 weights=present; "
                                   "tokens=1..1024");
  CHECK(lines.count("sum of experts with norm") == 0);
}

TEST_CASE("sums of experts depend on the layers that have them") {
  struct Case {
    const char *layers, *step, *denseLayers;
    bool isDense, hasPlainSum, hasNorm; ///< with fp8
  };
  for (const Case &one : {Case{"3", "1", "[0]", true, true, true},
                          Case{"3", "1", "[3]", false, true, true},
                          Case{"3", "1", "[2]", true, true, false},
                          Case{"3", "1", "[0, 1]", true, false, true},
                          Case{"3", "1", "[0, 1, 2]", true, false, false},
                          Case{"3", "2", "[]", true, true, false},
                          Case{"1", "1", "[]", false, false, true},
                          Case{"1", "2", "[]", true, false, false}}) {
    std::string json = changed(kQwen3Moe, "num_hidden_layers", one.layers);
    json = changed(json.c_str(), "decoder_sparse_step", one.step);
    json = changed(json.c_str(), "mlp_only_layers", one.denseLayers);
    CAPTURE(json);
    const bool hasExperts = one.hasPlainSum || one.hasNorm;
    auto lines = linesOf(json.c_str(), {.weights = WeightFormat::Fp8});
    CHECK(lines.count("down") == one.isDense);
    CHECK(lines.count("router") == hasExperts);
    CHECK(lines.count("down of experts") == hasExperts);
    CHECK(lines.count("sum of experts") == one.hasPlainSum);
    CHECK(lines.count("sum of experts with norm") == one.hasNorm);
    lines = linesOf(json.c_str(), {});
    CHECK(lines.count("sum of experts") == 0);
    CHECK(lines.count("sum of experts with norm") == hasExperts);
  }
}

TEST_CASE("packed weights need whole groups of k") {
  const auto refusalOf = [](const std::string &json,
                            const NetworkOptions &options) {
    auto config = NetworkConfig::parse(json, "config.json");
    REQUIRE(static_cast<bool>(config));
    auto list = problemsOf(*config, options);
    return list ? "" : summarize(list.takeError()).message;
  };
  for (const auto &[format, name] : {std::pair(WeightFormat::W4, "w4"),
                                     std::pair(WeightFormat::Mxfp4, "mxfp4")}) {
    const std::string why =
        std::string(", not a multiple of the 32 that share a scale in ") + name;
    const std::string hidden = changed(kQwen3Moe, "hidden_size", "2040");
    CHECK(refusalOf(hidden, {.weights = format}) ==
          "hidden_size is 2040" + why);
    CHECK(refusalOf(hidden, {.weights = WeightFormat::Fp8}).empty());
    std::string head = changed(kQwen3Moe, "num_attention_heads", "4");
    head = changed(head.c_str(), "head_dim", "100");
    CHECK(refusalOf(head, {.weights = format}) ==
          "num_attention_heads * head_dim is 400" + why);
    CHECK(refusalOf(changed(kLlama8B, "intermediate_size", "14350"),
                    {.weights = format}) == "intermediate_size is 14350" + why);
    const std::string inner =
        changed(kQwen3Moe, "moe_intermediate_size", "784");
    CHECK(refusalOf(inner, {.weights = format}) ==
          "moe_intermediate_size is 784" + why);
    // A multiple that the ranks' parts are not.
    const std::string part = changed(kLlama8B, "intermediate_size", "14400");
    CHECK(refusalOf(part, {.weights = format}).empty());
    CHECK(refusalOf(part, {.weights = format, .ranks = 4}) ==
          "intermediate_size of a rank is 3600" + why);
    // No layer has this MLP.
    CHECK(refusalOf(changed(kQwen3Moe, "intermediate_size", "6145"),
                    {.weights = format, .ranks = 2})
              .empty());
  }
  // The experts that a checkpoint stores.
  CHECK(refusalOf(changed(kGptOss, "intermediate_size", "2890"), {}) ==
        "intermediate_size is 2890, not a multiple of the 32 that share a "
        "scale in mxfp4");
  CHECK(refusalOf(changed(kGptOss, "hidden_size", "2890"), {}) ==
        "hidden_size is 2890, not a multiple of the 32 that share a scale in "
        "mxfp4");
}

TEST_CASE("options out of bounds are refused with their value") {
  auto config = NetworkConfig::parse(kLlama8B, "config.json");
  REQUIRE(static_cast<bool>(config));
  auto refusalOf = [&](const NetworkOptions &options) {
    auto list = problemsOf(*config, options);
    return list ? "" : summarize(list.takeError()).message;
  };
  CHECK(refusalOf({.ranks = 3}) == "3 ranks do not divide 32 heads");
  CHECK(refusalOf({.ranks = 16}) == "the number of ranks without NCCL is 16, "
                                    "expected 1 to 8");
  CHECK(refusalOf({.ranks = 2048, .sums = RankSums::Nccl}) ==
        "the number of ranks is 2048, expected 1 to 1024");
  CHECK(refusalOf({.maxTokens = -5}).find("the largest step is -5") == 0);
  CHECK(refusalOf({.maxBatch = 0}).find("the largest batch is 0") == 0);
  CHECK(
      refusalOf({.maxPositions = 8193}).find("the longest sequence is 8193") ==
      0);
  CHECK(refusalOf({.pageTokens = 0}).find("the size of a page is 0") == 0);
  CHECK(refusalOf({.maxTokens = 1, .maxBatch = 64}).empty());
  config = NetworkConfig::parse(kGptOss, "config.json");
  REQUIRE(static_cast<bool>(config));
  CHECK(refusalOf({.ranks = 2}) == "ranks divide neither sinks nor biases of "
                                   "the output projection");
  CHECK(refusalOf({.weights = WeightFormat::Fp8}) ==
        "the experts of gpt-oss are bf16 or mxfp4");
}
