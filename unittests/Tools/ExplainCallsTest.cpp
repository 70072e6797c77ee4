// kiln_explain, kiln_candidates and kiln_problem_keys say what the tool says.
#include "Tools/ToolRunner.h"

#include "kiln/kiln.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace kiln::testing;

namespace {

/// An engine on the tool's cache, and no GPU.
class Planner {
public:
  Planner(const Tool &tool, const char *device) : cache(tool.folder / "cache") {
    kiln_engine_options options = KILN_INIT(kiln_engine_options);
    options.mode = KILN_MODE_PREDICT;
    options.flags = KILN_ENGINE_IGNORE_ENVIRONMENT | KILN_ENGINE_READ_ONLY;
    options.cache_dir = cache.c_str();
    options.driver_path = "/nonexistent/libcuda.so";
    options.device_model = device;
    REQUIRE(kiln_engine_create(&options, &engine) == KILN_SUCCESS);
  }
  ~Planner() { kiln_engine_destroy(engine); }
  Planner(const Planner &) = delete;
  Planner &operator=(const Planner &) = delete;

  std::string explain(const std::string &text, kiln_text_format format) const {
    const kiln_problem problem = problemOf(text);
    kiln_explain_options options = KILN_INIT(kiln_explain_options);
    options.format = format;
    return written([&](char *buffer, size_t capacity, size_t *length) {
      return kiln_explain(engine, &problem, nullptr, &options, buffer, capacity,
                          length);
    });
  }
  std::string keys(const std::string &text, const kiln_range *range) const {
    kiln_problem problem = problemOf(text);
    problem.ranges = range;
    problem.range_count = range ? 1 : 0;
    return written([&](char *buffer, size_t capacity, size_t *length) {
      return kiln_problem_keys(engine, &problem, nullptr, nullptr, buffer,
                               capacity, length);
    });
  }
  std::vector<kiln_candidate> candidates(const std::string &text, size_t most,
                                         size_t &count) const {
    const kiln_problem problem = problemOf(text);
    std::vector<kiln_candidate> list(most, KILN_INIT(kiln_candidate));
    const kiln_status status = kiln_candidates(
        engine, &problem, nullptr, nullptr, list.data(), most, &count);
    INFO(kiln_last_error_message());
    REQUIRE(status == KILN_SUCCESS);
    list.resize(std::min(most, count));
    return list;
  }

private:
  static kiln_problem problemOf(const std::string &text) {
    kiln_problem problem = KILN_INIT(kiln_problem);
    problem.text = text.c_str();
    return problem;
  }
  static std::string
  written(const std::function<kiln_status(char *, size_t, size_t *)> &write) {
    std::string text(1 << 20, '\0');
    size_t length = 0;
    const kiln_status status = write(text.data(), text.size(), &length);
    INFO(kiln_last_error_message());
    REQUIRE(status == KILN_SUCCESS);
    text.resize(length);
    return text;
  }

  const std::string cache;
  kiln_engine *engine = nullptr;
};

struct Asked {
  const char *problem, *device;
};
const Asked kAsked[] = {
    {"gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT", "h200-sxm"},
    {"gemm m=3 n=4096 k=4095 dtype=fp16 layout=NN", "a100-sxm4-80gb"},
    {"gemm m=512 n=512 k=512 dtype=e4m3 layout=NT", "v100-sxm2"},
    {"rmsnorm rows=8192 cols=8192 dtype=bf16 weight=1", "h200-sxm"},
    {"transpose2d rows=1000 cols=3000 dtype=fp32", "v100-sxm2"},
    {"softmax rows=64 cols=128 dtype=fp32", "a100-sxm4-80gb"}};

} // namespace

TEST_CASE("kiln_explain says what explain says") {
  Tool tool;
  for (const Asked &asked : kAsked) {
    CAPTURE(asked.problem);
    const std::string line =
        std::string("explain ") + asked.problem + " --device " + asked.device;
    const ToolResult text = tool.run(line), json = tool.run(line + " --json");
    REQUIRE(text.code == 0);
    const Planner planner(tool, asked.device);
    CHECK(planner.explain(asked.problem, KILN_TEXT_PLAIN) == text.out);
    CHECK(planner.explain(asked.problem, KILN_TEXT_JSON) == json.out);
  }
}

TEST_CASE("the registers that ptxas took stand beside the wall") {
  Tool tool;
  const std::string problem = "gemm m=256 n=256 k=256 dtype=bf16 layout=NT";
  const std::string line = "explain " + problem + " --device h200-sxm";
  CHECK(tool.run(line).out.find("ptxas took") == std::string::npos);
  REQUIRE(tool.run("warmup " + problem + " --device h200-sxm --json").code ==
          0);
  const ToolResult text = tool.run(line);
  CHECK(text.out.find("ptxas took") != std::string::npos);
  CHECK(Planner(tool, "h200-sxm").explain(problem, KILN_TEXT_PLAIN) ==
        text.out);
}

TEST_CASE("kiln_explain shows the portfolio that explain shows") {
  Tool tool;
  const std::string problem = "gemm m=16 n=256 k=256 dtype=bf16 layout=NT";
  REQUIRE(tool.run("warmup " + problem +
                   " --range m=1..64 --device h200-sxm --json")
              .code == 0);
  const std::string line = "explain " + problem + " --device h200-sxm";
  const ToolResult text = tool.run(line);
  CHECK(text.out.find("portfolio for m=1..64") != std::string::npos);
  const Planner planner(tool, "h200-sxm");
  CHECK(planner.explain(problem, KILN_TEXT_PLAIN) == text.out);
  CHECK(planner.explain(problem, KILN_TEXT_JSON) ==
        tool.run(line + " --json").out);

  // All of its kernels are files that `cache ls` lists.
  std::set<std::string> files;
  const llvm::json::Object listed =
      tool.run("cache ls --kind artifact --json").json();
  for (const llvm::json::Value &entry : *listed.getArray("entries"))
    files.insert(entry.getAsObject()
                     ->getString("path")
                     ->rsplit('/')
                     .second.take_front(64)
                     .str());
  kiln_range range = KILN_INIT(kiln_range);
  range.name = "m";
  range.first = 1;
  range.last = 64;
  const std::string keys = planner.keys(problem, &range);
  llvm::SmallVector<llvm::StringRef, 16> lines;
  llvm::StringRef(keys).split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::set<std::string> artifacts;
  for (llvm::StringRef each : lines)
    if (each.consume_front("artifact "))
      artifacts.insert(each.take_front(64).str());
  CHECK_FALSE(artifacts.empty());
  CHECK(artifacts == files);
}

TEST_CASE("kiln_candidates ranks as plan does") {
  Tool tool;
  for (const Asked &asked : kAsked) {
    CAPTURE(asked.problem);
    const llvm::json::Object json =
        tool.run(std::string("plan ") + asked.problem + " --device " +
                 asked.device + " --top 8 --json")
            .json();
    const llvm::json::Object &problem =
        *json.getArray("problems")->front().getAsObject();
    const llvm::json::Array &shown = *problem.getArray("candidates");
    const Planner planner(tool, asked.device);
    size_t count = 0;
    const auto list = planner.candidates(asked.problem, 8, count);
    CHECK(problem.getInteger("ranked") == static_cast<int64_t>(count));
    REQUIRE(list.size() == shown.size());
    for (auto [one, value] : llvm::zip_equal(list, shown)) {
      const llvm::json::Object &row = *value.getAsObject();
      CHECK(row.getString("config") == one.config);
      CHECK(row.getInteger("rank") == one.rank);
      CHECK(*row.getNumber("predicted_us") ==
            doctest::Approx(one.predicted_us).epsilon(1e-5));
    }
  }
}
