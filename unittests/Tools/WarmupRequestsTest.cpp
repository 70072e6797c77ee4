// kiln warmup --model and --history, with the stand-in compiler: counts before
// work, several devices, and requests that cannot be read.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln::testing;

static const std::string kConfig = R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
  "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
  "vocab_size": 512, "max_position_embeddings": 1024, "rms_norm_eps": 1e-06})";

static const std::vector<std::string> kSmallStep = {
    "--max-tokens", "64", "--max-batch", "4", "--max-positions", "256"};

static std::vector<std::string>
operator+(std::vector<std::string> left,
          const std::vector<std::string> &right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

static llvm::json::Object warmedDevice(const ToolResult &result,
                                       size_t index = 0) {
  llvm::json::Object json = result.json();
  return *(*json.getArray("devices"))[index].getAsObject();
}

static int64_t numberOf(const llvm::json::Object &device, const char *key) {
  return device.getInteger(key).value_or(-1);
}

TEST_CASE("warm-up of a model counts first, then compiles each kernel once") {
  Tool tool;
  const std::vector<std::string> line =
      std::vector<std::string>{"warmup", "--model",
                               tool.suite(kConfig, "config.json"), "--device",
                               "h200-sxm"} +
      kSmallStep;
  const std::vector<std::string> json =
      line + std::vector<std::string>{"--json"};
  // A dry run compiles nothing: it needs no NVRTC.
  const std::string nvrtc = tool.environment["KILN_NVRTC"];
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  const ToolResult dry = tool.run(json + std::vector<std::string>{"--dry-run"});
  CHECK(dry.code == 0);
  const llvm::json::Object planned = warmedDevice(dry);
  const int64_t kernels = numberOf(planned, "kernels");
  CHECK(kernels > 20);
  CHECK(numberOf(planned, "present") == 0);
  CHECK(numberOf(planned, "compiled") == 0);
  CHECK(numberOf(planned, "estimated_bytes") > 0);
  CHECK(planned.getNumber("estimated_s").value_or(0) > 0);
  CHECK(planned.getArray("requests")->size() == 14);
  tool.environment["KILN_NVRTC"] = nvrtc;
  const llvm::json::Object first = warmedDevice(tool.run(json));
  CHECK(numberOf(first, "kernels") == kernels);
  CHECK(numberOf(first, "compiled") == kernels);
  CHECK(numberOf(first, "failed_kernels") == 0);
  for (const llvm::json::Value &value : *first.getArray("requests")) {
    const llvm::json::Object &request = *value.getAsObject();
    CHECK(request.getString("state") == "ready");
    CHECK(request.getInteger("kernels").value_or(0) > 0);
  }
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  const llvm::json::Object second = warmedDevice(tool.run(json));
  CHECK(numberOf(second, "present") == kernels);
  CHECK(numberOf(second, "compiled") == 0);
  // The folder of the config serves as well.
  const ToolResult text =
      tool.run(std::vector<std::string>{"warmup", "--model", tool.folder.path,
                                        "--device", "h200-sxm"} +
               kSmallStep);
  CHECK(text.code == 0);
  CHECK(text.out.find("h200-sxm (sm_90): 14 requests, ") == 0);
  CHECK(text.out.find("gate and up") != std::string::npos);
  CHECK(text.out.find("0 kernels compiled, 0 failed") != std::string::npos);
}

TEST_CASE("formats, caches, ranks and several devices in one call") {
  Tool tool;
  const std::string config = tool.suite(kConfig, "config.json");
  for (const char *format : {"fp8", "w4", "mxfp4"}) {
    CAPTURE(format);
    const ToolResult result =
        tool.run(std::vector<std::string>{
                     "warmup", "--model", config, "--device", "h200-sxm",
                     "--device", "a100-sxm4-80gb", "--dtype", format,
                     "--kv-cache", "e4m3", "--tp", "2", "--dry-run", "--json"} +
                 kSmallStep);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(numberOf(warmedDevice(result, 0), "kernels") > 20);
    CHECK(warmedDevice(result, 1).getString("arch") == "sm_80");
  }
}

TEST_CASE("a history is warmed up, and lines that cannot be read are told") {
  Tool tool;
  const std::string path =
      tool.suite("kiln_history 1\n"
                 "gemm m=64 n=256 k=256 dtype=bf16 layout=NT; m=1..64\n"
                 "gemm m=64 n=256 k=256 dtype=bf16 layout=NT; m=1..64\n"
                 "rmsnorm rows=7 cols=256 dtype=bf16 weight=1\n"
                 "nothing like=this\n"
                 "gemm m=1 n=2 k=3 dtype=bf16; m=1\n"
                 "gemm m=6",
                 "history");
  const std::vector<std::string> line = {"warmup",   "--history", path,
                                         "--device", "h200-sxm",  "--json"};
  const ToolResult result = tool.run(line);
  CHECK(result.code == 0);
  const llvm::json::Object device = warmedDevice(result);
  CHECK(device.getArray("requests")->size() == 2);
  CHECK(numberOf(device, "compiled") == numberOf(device, "kernels"));
  llvm::json::Object json = result.json();
  const llvm::json::Array &skipped = *json.getArray("skipped");
  REQUIRE(skipped.size() == 3);
  CHECK(skipped[0].getAsString()->contains("history:6: "));
  CHECK(skipped[1].getAsString()->contains("history:7: the line has no end"));
  CHECK(skipped[2].getAsString()->contains("nothing"));
  CHECK(numberOf(warmedDevice(tool.run(line)), "compiled") == 0);
}

TEST_CASE("input that makes no sense is refused in one line") {
  Tool tool;
  const std::string config = tool.suite(kConfig, "config.json");
  const std::string model = "warmup --device h200-sxm --model " + config + " ";
  for (const std::string &line :
       {std::string("warmup --device h200-sxm --model /nonexistent"),
        std::string("warmup --device h200-sxm --history /nonexistent"),
        "warmup --device h200-sxm --history " + config, model + "--dtype fp4",
        model + "--kv-cache int8", model + "--tp 3", model + "--tp 0",
        model + "--sums mpi", model + "--tp 16", model + "--max-positions 9999",
        model + "--range m=1..8", model + "--pool", model + "--top 2",
        model + kSmallProblem,
        "warmup --device h200-sxm --tp 2 " + kSmallProblem,
        "warmup --device h200-sxm --dry-run " + kSmallProblem}) {
    CAPTURE(line);
    const ToolResult result = tool.run(line);
    CHECK(result.code == 2);
    CHECK(result.hasOneErrorLine());
  }
  const ToolResult refused =
      tool.run("warmup --device h200-sxm --model " +
               tool.suite(R"({"model_type": "gpt2"})", "other.json"));
  CHECK(refused.code == 2);
  CHECK(refused.err.find("other.json: model_type is \"gpt2\"") !=
        std::string::npos);
}

TEST_CASE("without NVRTC, or without a cache, a warm-up of a model fails") {
  Tool tool;
  const std::string line = "warmup --device h200-sxm --max-tokens 8 "
                           "--max-batch 2 --max-positions 64 --model " +
                           tool.suite(kConfig, "config.json");
  tool.environment["KILN_CACHE_DIR"] = "/proc/kiln";
  CHECK(tool.run(line).code == 1);
  tool.environment["KILN_NVRTC"] = "/nonexistent/libnvrtc.so";
  CHECK(tool.run(line).code == 3);
}
