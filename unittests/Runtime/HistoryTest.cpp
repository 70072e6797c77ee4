// The history of an engine: the requests that it notes, several engines
// with one file, places where none can be written, and preparing from it.
#include "Runtime/HistoryWriter.h"

#include "Call/HistoryFile.h"
#include "Runtime/RuntimeFixture.h"
#include "Support/Error.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr const char *kRanged = "gemm m=64 n=256 k=512 dtype=bf16 layout=NT";

/// A machine whose engines write a history.
struct HistoryFixture : RuntimeFixture {
  kiln_engine *writer(kiln_mode mode = KILN_MODE_PREDICT) {
    kiln_engine_options asked = options(mode);
    asked.history = path.c_str();
    asked.log = [](void *user, kiln_log_level, const char *message) {
      auto &self = *static_cast<HistoryFixture *>(user);
      const std::lock_guard<std::mutex> lock(self.mutex);
      self.logged += std::string(message) + '\n';
    };
    asked.log_user = this;
    return engine(asked);
  }
  std::string log() {
    const std::lock_guard<std::mutex> lock(mutex);
    return logged;
  }
  std::set<std::string> lines() const {
    auto history = History::read(path);
    REQUIRE(static_cast<bool>(history));
    CHECK(history->skipped.empty());
    std::set<std::string> lines;
    for (const ProblemLine &line : history->requests)
      lines.insert(line.text());
    CHECK(lines.size() == history->requests.size());
    return lines;
  }

  std::string path = cache / "history";

private:
  std::mutex mutex;
  std::string logged;
};

/// kRanged over m = 1..64.
struct RangedProblem {
  RangedProblem() {
    range.name = "m";
    range.first = 1;
    range.last = 64;
    problem.ranges = &range;
    problem.range_count = 1;
  }
  kiln_range range = KILN_INIT(kiln_range);
  kiln_problem problem = problemOf(kRanged);
};

kiln_status launch(HistoryFixture &f, kiln_engine *engine, int64_t m) {
  const kiln_gemm_args args = gemmArgs(m);
  return kiln_gemm(engine, &args, nullptr, f.gpu.stream());
}

kiln_statistics countsOf(kiln_engine *engine) {
  kiln_statistics counts = KILN_INIT(kiln_statistics);
  REQUIRE(kiln_get_statistics(engine, &counts) == KILN_SUCCESS);
  return counts;
}

} // namespace

TEST_CASE("a history has requests, and launches that no request covers") {
  HistoryFixture f;
  kiln_engine *engine = f.writer();
  const RangedProblem ranged;
  REQUIRE(kiln_prepare(engine, &ranged.problem, 1, nullptr, nullptr) ==
          KILN_SUCCESS);
  // Plans do not depend on the value of a scalar, and lines do not tell it.
  constexpr const char *kNorm =
      "rmsnorm rows=8 cols=64 dtype=bf16 weight=1 eps=1";
  const kiln_problem single =
      problemOf("rmsnorm rows=8 cols=64 dtype=bf16 weight=1 eps=1e-6");
  kiln_plan *plan = nullptr;
  REQUIRE(kiln_plan_acquire(engine, &single, f.gpu.stream(), &plan) ==
          KILN_SUCCESS);
  kiln_plan_release(plan);
  for (int64_t m : {7, 64, 7, 65, 65})
    REQUIRE(launch(f, engine, m) == KILN_SUCCESS);
  // A problem that cannot be read is no request.
  const kiln_problem bad = problemOf("gemm m=1");
  CHECK(kiln_prepare(engine, &bad, 1, nullptr, nullptr) != KILN_SUCCESS);
  f.destroy(engine);
  CHECK(f.lines() ==
        std::set<std::string>{std::string(kRanged) + "; m=1..64", kNorm,
                              "gemm m=65 n=256 k=512 dtype=bf16 layout=NT"});
}

TEST_CASE("the next start prepares what the last one needed") {
  HistoryFixture f;
  const RangedProblem ranged;
  {
    kiln_engine *first = f.writer();
    // There is no file yet.
    CHECK(kiln_prepare_history(first, nullptr, nullptr, nullptr) ==
          KILN_SUCCESS);
    REQUIRE(kiln_prepare(first, &ranged.problem, 1, nullptr, nullptr) ==
            KILN_SUCCESS);
    REQUIRE(launch(f, first, 300) == KILN_SUCCESS);
    f.destroy(first);
  }
  const auto before = f.lines();
  kiln_engine *second = f.writer(KILN_MODE_STRICT);
  kiln_task *task = nullptr;
  REQUIRE(kiln_prepare_history(second, nullptr, nullptr, &task) ==
          KILN_SUCCESS);
  CHECK(kiln_task_wait(task, -1) == KILN_SUCCESS);
  kiln_task_release(task);
  for (int64_t m : {1, 13, 64, 300})
    CHECK(launch(f, second, m) == KILN_SUCCESS);
  CHECK(countsOf(second).compiles == 0);
  f.destroy(second);
  CHECK(f.lines() == before);
}

TEST_CASE("a history fills another cache without a GPU") {
  HistoryFixture f;
  const RangedProblem ranged;
  kiln_engine *first = f.writer();
  REQUIRE(kiln_prepare(first, &ranged.problem, 1, nullptr, nullptr) ==
          KILN_SUCCESS);
  REQUIRE(launch(f, first, 300) == KILN_SUCCESS);
  f.destroy(first);
  f.cachePath = f.cache / "other";
  kiln_engine_options options = f.options();
  options.device_model = "h200-sxm";
  options.driver_path = "/nonexistent/libcuda.so";
  kiln_prepare_options only = KILN_INIT(kiln_prepare_options);
  only.flags = KILN_PREPARE_COMPILE_ONLY;
  kiln_engine *compiler = f.engine(options);
  CHECK(kiln_prepare_history(compiler, f.path.c_str(), &only, nullptr) ==
        KILN_SUCCESS);
  CHECK(countsOf(compiler).compiles > 0);
  f.destroy(compiler);
  kiln_engine *strict = f.engine(KILN_MODE_STRICT);
  CHECK(kiln_prepare(strict, &ranged.problem, 1, nullptr, nullptr) ==
        KILN_SUCCESS);
  CHECK(launch(f, strict, 300) == KILN_SUCCESS);
}

TEST_CASE("two engines write one file") {
  HistoryFixture f;
  kiln_engine *one = f.writer(), *two = f.writer();
  onThreads(f, {[&] { CHECK(launch(f, one, 100) == KILN_SUCCESS); },
                [&] { CHECK(launch(f, two, 200) == KILN_SUCCESS); }});
  CHECK(launch(f, one, 200) == KILN_SUCCESS);
  f.destroy(two);
  CHECK(f.lines().size() == 1);
  f.destroy(one);
  CHECK(f.lines().size() == 2);
  CHECK(f.log().empty());
}

TEST_CASE("a layer with many values has a range, which serves them all") {
  HistoryFixture f;
  kiln_engine *engine = f.writer();
  for (int64_t m = 101; m <= 120; ++m)
    REQUIRE(launch(f, engine, m) == KILN_SUCCESS);
  for (int64_t m : {200, 180, 65})
    REQUIRE(launch(f, engine, m) == KILN_SUCCESS);
  f.destroy(engine);
  const auto lines = f.lines();
  CHECK(lines.size() == 18);
  CHECK(lines.count("gemm m=128 n=256 k=512 dtype=bf16 layout=NT; m=64..128") ==
        1);
  CHECK(lines.count("gemm m=256 n=256 k=512 dtype=bf16 layout=NT; m=64..256") ==
        1);
  // No launch has compiled the ranges: the mode strict needs another start.
  kiln_engine *strict = nullptr;
  for (kiln_mode mode : {KILN_MODE_PREDICT, KILN_MODE_STRICT}) {
    f.destroy(strict);
    strict = f.writer(mode);
    REQUIRE(kiln_prepare_history(strict, nullptr, nullptr, nullptr) ==
            KILN_SUCCESS);
  }
  for (int64_t m : {64, 101, 117, 150, 256})
    CHECK(launch(f, strict, m) == KILN_SUCCESS);
  f.destroy(strict);
  CHECK(f.lines() == lines);
}

TEST_CASE("a file that is no history stays, and calls go on") {
  HistoryFixture f;
  writeBytes(f.path, "my notes\n");
  kiln_engine *engine = f.writer();
  CHECK(launch(f, engine, 100) == KILN_SUCCESS);
  CHECK(kiln_prepare_history(engine, nullptr, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  f.destroy(engine);
  CHECK(readBytes(f.path) == "my notes\n");
  CHECK(f.log().find("it is no history") != std::string::npos);
}

TEST_CASE("a folder that is not there is told once") {
  HistoryFixture f;
  f.path = f.cache / "missing/history";
  kiln_engine *engine = f.writer();
  CHECK(launch(f, engine, 100) == KILN_SUCCESS);
  f.destroy(engine);
  CHECK(f.log().find("missing/history: opening it: No such file") !=
        std::string::npos);
}

TEST_CASE("damaged lines and unknown problems are skipped with a warning") {
  HistoryFixture f;
  writeBytes(f.path, std::string("kiln_history 1\nof_later x=1\n; m=1..2\n") +
                         kRanged + "; m=1..64\n" + kRanged + "; q=1..64\n");
  kiln_engine *engine = f.writer();
  CHECK(kiln_prepare_history(engine, nullptr, nullptr, nullptr) ==
        KILN_SUCCESS);
  const std::string log = f.log();
  CHECK(std::count(log.begin(), log.end(), '\n') == 3);
  CHECK(log.find("history:3: ") != std::string::npos);
  CHECK(log.find("of_later") != std::string::npos);
  CHECK(log.find("\"q\"") != std::string::npos);
  const uint64_t misses = countsOf(engine).compiles;
  CHECK(launch(f, engine, 64) == KILN_SUCCESS);
  CHECK(countsOf(engine).compiles == misses);
}

TEST_CASE("a history that cannot be looked for is not an empty one") {
  HistoryFixture f;
  std::filesystem::create_symlink(f.path, f.path); // to itself
  kiln_engine *engine = f.writer();
  for (const char *path : {static_cast<const char *>(nullptr), f.path.c_str()})
    CHECK(kiln_prepare_history(engine, path, nullptr, nullptr) ==
          KILN_INVALID_ARGUMENT);
}

TEST_CASE("without a history there is none to prepare") {
  HistoryFixture f;
  kiln_engine *engine = f.engine();
  CHECK(kiln_prepare_history(engine, nullptr, nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(std::strstr(kiln_last_error_message(), "writes no history"));
  CHECK(kiln_prepare_history(engine, f.path.c_str(), nullptr, nullptr) ==
        KILN_SUCCESS);
  CHECK(kiln_prepare_history(nullptr, f.path.c_str(), nullptr, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK_FALSE(std::filesystem::exists(f.path));
}

TEST_CASE("the list of a model ends where its reader says") {
  const char *json =
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 160,
          "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,
          "max_position_embeddings": 1024, "rms_norm_eps": 1e-6})";
  struct Seen {
    std::vector<std::string> names;
    size_t most = SIZE_MAX;
  } seen;
  const auto take = [](void *user, const char *name,
                       const kiln_problem *problem) -> int32_t {
    auto &list = *static_cast<Seen *>(user);
    list.names.push_back(name);
    CHECK(problem->range_count > 0);
    CHECK(kiln_problem_text(problem, nullptr, 0, nullptr) == KILN_SUCCESS);
    return list.names.size() == list.most;
  };
  CHECK(kiln_model_problems(json, nullptr, take, &seen) == KILN_SUCCESS);
  CHECK(seen.names.size() == 14);
  seen = {{}, 3};
  CHECK(kiln_model_problems(json, nullptr, take, &seen) == KILN_CANCELLED);
  CHECK(seen.names.size() == 3);
  kiln_model_options options = KILN_INIT(kiln_model_options);
  CHECK(kiln_model_problems("{}", &options, take, &seen) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_model_problems(nullptr, &options, take, &seen) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_model_problems(json, &options, nullptr, &seen) ==
        KILN_INVALID_ARGUMENT);
  options.ranks = 3;
  CHECK(kiln_model_problems(json, &options, take, &seen) ==
        KILN_INVALID_ARGUMENT);
  options.ranks = 0;
  options.format = 7;
  CHECK(kiln_model_problems(json, &options, take, &seen) == KILN_UNSUPPORTED);
  options.format = KILN_MODEL_MXFP4;
  options.flags = 2;
  CHECK(kiln_model_problems(json, &options, take, &seen) == KILN_UNSUPPORTED);
  options.flags = KILN_MODEL_NCCL;
  seen = {{}, 3};
  CHECK(kiln_model_problems(json, &options, take, &seen) == KILN_CANCELLED);
  options.cache_type = KILN_FP32;
  CHECK(kiln_model_problems(json, &options, take, &seen) == KILN_UNSUPPORTED);
}
