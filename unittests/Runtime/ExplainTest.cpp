// Explanations, candidates and keys: their contents, their devices, and the
// calls that they refuse. unittests/Tools compares them with the tool's output.
#include "Runtime/Capi.h"
#include "Runtime/RuntimeFixture.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

const char *const kText = "gemm m=128 n=256 k=512 dtype=bf16 layout=NT";

struct ExplainFixture : RuntimeFixture {
  /// An engine that plans for \p device where no driver is.
  kiln_engine *planner(const char *device = "h200-sxm") {
    kiln_engine_options made = options();
    made.driver_path = "/nowhere/libcuda.so";
    made.device_model = device;
    return engine(made);
  }
};

kiln_explain_options optionsOf(kiln_text_format format,
                               const char *config = nullptr) {
  kiln_explain_options options = KILN_INIT(kiln_explain_options);
  options.format = format;
  options.config = config;
  return options;
}

std::string explained(kiln_engine *engine, const kiln_problem &problem,
                      kiln_text_format format = KILN_TEXT_PLAIN,
                      const char *config = nullptr) {
  std::string text(1 << 20, '\0');
  size_t length = 0;
  const kiln_explain_options options = optionsOf(format, config);
  const kiln_status status = kiln_explain(engine, &problem, nullptr, &options,
                                          text.data(), text.size(), &length);
  INFO(lastError());
  REQUIRE(status == KILN_SUCCESS);
  text.resize(length);
  return text;
}

std::string keysOf(kiln_engine *engine, const kiln_problem &problem,
                   kiln_text_format format = KILN_TEXT_PLAIN) {
  std::string text(1 << 20, '\0');
  size_t length = 0;
  const kiln_explain_options options = optionsOf(format);
  const kiln_status status = kiln_problem_keys(
      engine, &problem, nullptr, &options, text.data(), text.size(), &length);
  INFO(lastError());
  REQUIRE(status == KILN_SUCCESS);
  text.resize(length);
  return text;
}

std::string keyOf(kiln_engine *engine, const kiln_problem &problem) {
  std::string text(1 << 16, '\0');
  size_t length = 0;
  REQUIRE(kiln_problem_key(engine, &problem, nullptr, text.data(), text.size(),
                           &length) == KILN_SUCCESS);
  text.resize(length);
  return text;
}

llvm::json::Object parsed(const std::string &text) {
  llvm::json::Value value = llvm::cantFail(llvm::json::parse(text));
  return std::move(*value.getAsObject());
}

std::vector<kiln_candidate> candidatesOf(kiln_engine *engine,
                                         const kiln_problem &problem,
                                         size_t most = 4096) {
  std::vector<kiln_candidate> list(most, KILN_INIT(kiln_candidate));
  size_t count = 0;
  const kiln_status status = kiln_candidates(engine, &problem, nullptr, nullptr,
                                             list.data(), most, &count);
  INFO(lastError());
  REQUIRE(status == KILN_SUCCESS);
  list.resize(std::min(most, count));
  return list;
}

size_t countWith(const std::vector<kiln_candidate> &list, uint32_t flag) {
  return static_cast<size_t>(llvm::count_if(
      list, [&](const kiln_candidate &one) { return one.flags & flag; }));
}

} // namespace

TEST_CASE("an explanation needs no GPU, and takes text and structs alike") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  const std::string text = explained(engine, problemOf(kText));
  CHECK(text.find(kText) == 0);
  CHECK(text.find("on h200-sxm (sm_90") != std::string::npos);
  CHECK(text.find("1 accumulators = ") != std::string::npos);
  CHECK(text.back() == '\n');
  kiln_gemm_args args = gemmArgs();
  args.c.data = nullptr;
  CHECK(explained(engine, problemOf(args)) == text);
  const llvm::json::Object json =
      parsed(explained(engine, problemOf(args), KILN_TEXT_JSON));
  CHECK(json.getString("problem") == kText);
  CHECK(json.getObject("choice")->getInteger("rank") == 1);
  CHECK(json.getObject("derivation"));
  CHECK(statisticsOf(engine).compiles == 0);

  // Another config instead of the first choice, and one that cannot run.
  const std::string third =
      candidatesOf(engine, problemOf(kText), 3).back().config;
  CHECK(
      parsed(explained(engine, problemOf(kText), KILN_TEXT_JSON, third.c_str()))
          .getObject("choice")
          ->getInteger("rank") == 3);
  CHECK(explained(engine, problemOf(kText), KILN_TEXT_PLAIN,
                  "sm90.bm256.bn256.bk64.st2.wg2.cm1.cn1")
            .find("cannot run: register wall") != std::string::npos);
}

TEST_CASE("an explanation tells why the choice is generic") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner("v100-sxm2");
  const kiln_problem problem =
      problemOf("gemm m=512 n=512 k=512 dtype=e4m3 layout=NT");
  CHECK(explained(engine, problem).find(" is generic: ") != std::string::npos);
  CHECK(
      parsed(explained(engine, problem, KILN_TEXT_JSON)).getObject("generic"));
  CHECK(candidatesOf(engine, problem, 1).front().flags ==
        KILN_CANDIDATE_GENERIC);
}

TEST_CASE("the device is that of the stream, or the one that is named") {
  ExplainFixture fixture;
  const kiln_problem problem = problemOf(kText);
  kiln_engine *here = fixture.engine(), *foreign = fixture.engine([&] {
    kiln_engine_options made = fixture.options();
    made.device_model = "a100-sxm4-80gb";
    return made;
  }());
  CHECK(explained(foreign, problem).find("on a100-sxm4-80gb (sm_80") !=
        std::string::npos);
  CHECK(explained(here, problem).find("on a100") == std::string::npos);
  CHECK(keysOf(here, problem) != keysOf(foreign, problem));
  CHECK(keysOf(foreign, problem).find(" sm_80\n") != std::string::npos);
  // Not even what is loaded here.
  kiln_gemm_args args = gemmArgs();
  REQUIRE(kiln_gemm(here, &args, nullptr, nullptr) == KILN_SUCCESS);
  CHECK(countWith(candidatesOf(foreign, problemOf(args)),
                  KILN_CANDIDATE_LOADED) == 0);
  // Without a device there is nothing to ask about.
  kiln_engine_options none = fixture.options();
  none.driver_path = "/nowhere/libcuda.so";
  kiln_engine *blind = fixture.engine(none);
  CHECK(kiln_explain(blind, &problem, nullptr, nullptr, nullptr, 0, nullptr) ==
        KILN_DRIVER_MISSING);
  CHECK(kiln_candidates(blind, &problem, nullptr, nullptr, nullptr, 0,
                        nullptr) == KILN_DRIVER_MISSING);
  CHECK(kiln_problem_keys(blind, &problem, nullptr, nullptr, nullptr, 0,
                          nullptr) == KILN_DRIVER_MISSING);
}

TEST_CASE("texts and arrays are cut at their capacity") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  const kiln_problem problem = problemOf(kText);
  const std::string text = explained(engine, problem);
  char cut[16];
  size_t length = 0;
  REQUIRE(kiln_explain(engine, &problem, nullptr, nullptr, cut, sizeof cut,
                       &length) == KILN_SUCCESS);
  CHECK(length == text.size());
  CHECK(std::string(cut) == text.substr(0, sizeof cut - 1));
  length = 0;
  REQUIRE(kiln_problem_keys(engine, &problem, nullptr, nullptr, nullptr, 0,
                            &length) == KILN_SUCCESS);
  CHECK(length == keysOf(engine, problem).size());

  const auto all = candidatesOf(engine, problem);
  REQUIRE(all.size() > 3);
  size_t count = 0;
  REQUIRE(kiln_candidates(engine, &problem, nullptr, nullptr, nullptr, 0,
                          &count) == KILN_SUCCESS);
  CHECK(count == all.size());
  // The first element alone has a size. A later version's is larger.
  struct Larger {
    kiln_candidate known;
    uint64_t more;
  };
  std::vector<Larger> larger(3);
  for (Larger &one : larger)
    std::memset(&one, 0xff, sizeof one);
  larger[0].known.struct_size = sizeof(Larger);
  REQUIRE(kiln_candidates(engine, &problem, nullptr, nullptr, &larger[0].known,
                          2, nullptr) == KILN_SUCCESS);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(larger[i].known.struct_size == sizeof(Larger));
    CHECK(larger[i].known.rank == i + 1);
    CHECK(std::string(larger[i].known.config) == all[i].config);
    CHECK(larger[i].known.reserved[4] == 0);
    CHECK(larger[i].more == 0);
  }
  CHECK(larger[2].known.rank == ~0u);
}

TEST_CASE("what is wrong with a question is told") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  const kiln_problem problem = problemOf(kText);
  auto explain = [&](kiln_engine *of, const kiln_problem *about,
                     const char *config, kiln_text_format format, char *buffer,
                     size_t capacity) {
    const kiln_explain_options options = optionsOf(format, config);
    return kiln_explain(of, about, nullptr, &options, buffer, capacity,
                        nullptr);
  };
  CHECK(explain(nullptr, &problem, nullptr, 0, nullptr, 0) ==
        KILN_INVALID_ARGUMENT);
  CHECK(explain(engine, nullptr, nullptr, 0, nullptr, 0) ==
        KILN_INVALID_ARGUMENT);
  CHECK(explain(engine, &problem, nullptr, 0, nullptr, 1) ==
        KILN_INVALID_ARGUMENT);
  CHECK(explain(engine, &problem, "no.config", 0, nullptr, 0) ==
        KILN_INVALID_ARGUMENT);
  CHECK(explain(engine, &problem, nullptr, 5, nullptr, 0) == KILN_UNSUPPORTED);
  CHECK(lastErrorHas("text format 5"));
  auto keys = [&](kiln_engine *of, const kiln_problem *about,
                  const kiln_explain_options *options) {
    return kiln_problem_keys(of, about, nullptr, options, nullptr, 0, nullptr);
  };
  CHECK(keys(nullptr, &problem, nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(keys(engine, nullptr, nullptr) == KILN_INVALID_ARGUMENT);
  const kiln_explain_options noFormat = optionsOf(-1);
  CHECK(keys(engine, &problem, &noFormat) == KILN_UNSUPPORTED);
  kiln_candidate one = KILN_INIT(kiln_candidate);
  CHECK(kiln_candidates(nullptr, &problem, nullptr, nullptr, &one, 1,
                        nullptr) == KILN_INVALID_ARGUMENT);
  CHECK(kiln_candidates(engine, nullptr, nullptr, nullptr, &one, 1, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(kiln_candidates(engine, &problem, nullptr, nullptr, nullptr, 1,
                        nullptr) == KILN_INVALID_ARGUMENT);
  one.struct_size -= 8;
  CHECK(kiln_candidates(engine, &problem, nullptr, nullptr, &one, 1, nullptr) ==
        KILN_INVALID_ARGUMENT);
  one.struct_size = sizeof one + 4;
  CHECK(kiln_candidates(engine, &problem, nullptr, nullptr, &one, 1, nullptr) ==
        KILN_INVALID_ARGUMENT);
  // There is nothing to rank in nothing.
  const kiln_problem empty = problemOf("gemm m=0 n=8 k=8 dtype=bf16");
  CHECK(explain(engine, &empty, nullptr, 0, nullptr, 0) ==
        KILN_INVALID_ARGUMENT);
  CHECK(candidatesOf(engine, empty).empty());
  CHECK(keysOf(engine, empty).find("artifact") == std::string::npos);
}

TEST_CASE("options are checked, and each call takes those that it has") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  const kiln_problem problem = problemOf(kText);
  auto explain = [&](const kiln_explain_options &options) {
    return kiln_explain(engine, &problem, nullptr, &options, nullptr, 0,
                        nullptr);
  };
  auto candidates = [&](const kiln_explain_options &options) {
    return kiln_candidates(engine, &problem, nullptr, &options, nullptr, 0,
                           nullptr);
  };
  auto keys = [&](const kiln_explain_options &options) {
    return kiln_problem_keys(engine, &problem, nullptr, &options, nullptr, 0,
                             nullptr);
  };
  auto all = [&](const kiln_explain_options &options, kiln_status expected) {
    CHECK(explain(options) == expected);
    CHECK(candidates(options) == expected);
    CHECK(keys(options) == expected);
  };
  kiln_explain_options options = optionsOf(KILN_TEXT_PLAIN);
  all(options, KILN_SUCCESS);
  options.flags = 1;
  all(options, KILN_UNSUPPORTED);
  CHECK(lastErrorHas("flags 0x1 are unknown"));
  options = optionsOf(KILN_TEXT_PLAIN);
  options.reserved[4] = 1;
  all(options, KILN_UNSUPPORTED);
  options = optionsOf(KILN_TEXT_PLAIN);
  options.struct_size = 0;
  all(options, KILN_INVALID_ARGUMENT);
  const std::string config = candidatesOf(engine, problem, 1).front().config;
  options = optionsOf(KILN_TEXT_PLAIN, config.c_str());
  CHECK(explain(options) == KILN_SUCCESS);
  CHECK(candidates(options) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("kiln_candidates takes no config"));
  CHECK(keys(options) == KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("kiln_problem_keys takes no config"));
  options = optionsOf(KILN_TEXT_JSON);
  CHECK(explain(options) == KILN_SUCCESS);
  CHECK(candidates(options) == KILN_INVALID_ARGUMENT);
  CHECK(keys(options) == KILN_SUCCESS);
}

TEST_CASE("a text that its field has no room for is an error, and not cut") {
  char field[8] = "before";
  llvm::cantFail(copyText("seven..", field));
  CHECK(std::string(field) == "seven..");
  const ErrorSummary error = summarize(copyText("eight...", field));
  CHECK(error.code == ErrorCode::Internal);
  CHECK(error.message == "'eight...' has 8 bytes, its field has room for 7");
  CHECK(std::string(field) == "seven..");
}

TEST_CASE("candidates tell what is measured, loaded, on disk and wrong") {
  ExplainFixture fixture;
  judgeTrials();
  kilnFakeSetHollowMemory(1 << 20);
  kiln_gemm_args args = gemmArgs();
  const kiln_problem problem = problemOf(args);
  kiln_engine *tuner = fixture.engine(KILN_MODE_TUNE);
  const auto before = candidatesOf(tuner, problem);
  for (const kiln_candidate &one : before) {
    CHECK((one.flags & ~uint32_t(KILN_CANDIDATE_GENERIC)) == 0);
    CHECK(one.measured_us == 0);
    CHECK(one.predicted_us > 0);
  }
  CHECK(statisticsOf(tuner).compiles == 0);
  REQUIRE(tuneValue(tuner, args) == KILN_SUCCESS);
  const auto after = candidatesOf(tuner, problem);
  REQUIRE(after.size() == before.size());
  const kiln_query_result query = queryOf(tuner, problem);
  size_t measured = 0, chosen = 0;
  for (const kiln_candidate &one : after) {
    measured += one.measured_us > 0;
    // Trials compile and measure; the choice is loaded.
    CHECK((one.measured_us == 0 || (one.flags & KILN_CANDIDATE_ON_DISK)));
    chosen += (one.flags & KILN_CANDIDATE_LOADED) &&
              one.measured_us == query.measured_us;
  }
  CHECK(measured > 1);
  CHECK(chosen >= 1);
  CHECK(countWith(after, KILN_CANDIDATE_WRONG) == 0);
  // Another process knows the same, but has loaded nothing.
  kiln_engine *other = fixture.engine();
  const auto there = candidatesOf(other, problem);
  CHECK(countWith(there, KILN_CANDIDATE_LOADED) == 0);
  CHECK(countWith(there, KILN_CANDIDATE_ON_DISK) ==
        countWith(after, KILN_CANDIDATE_ON_DISK));
  CHECK(llvm::count_if(there, [](const kiln_candidate &one) {
          return one.measured_us > 0;
        }) == static_cast<long>(measured));
}

TEST_CASE("candidates tell which kernels trials found wrong") {
  ExplainFixture fixture;
  judgeTrials(/*wrong=*/true);
  kiln_gemm_args args = gemmArgs();
  kiln_engine *engine = fixture.engine(KILN_MODE_TUNE);
  CHECK(tuneValue(engine, args) != KILN_SUCCESS);
  const auto list = candidatesOf(engine, problemOf(args));
  CHECK(countWith(list, KILN_CANDIDATE_WRONG) > 1);
  for (const kiln_candidate &one : list)
    CHECK((one.measured_us == 0 || !(one.flags & KILN_CANDIDATE_WRONG)));
  judgeTrials();
}

TEST_CASE("a problem with ranges is told at its hint, or at its last value") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  kiln_problem ranged = problemOf("gemm m=1 n=256 k=512 dtype=bf16 layout=NT");
  kiln_range range = rangeOf("m", 1, 128);
  ranged.ranges = &range;
  ranged.range_count = 1;
  CHECK(explained(engine, ranged) == explained(engine, problemOf(kText)));
  CHECK(std::string(candidatesOf(engine, ranged, 1).front().config) ==
        candidatesOf(engine, problemOf(kText), 1).front().config);
  range.last = 4096;
  range.hint = 128;
  CHECK(explained(engine, ranged).find("gemm m=128 n=256") == 0);
}

TEST_CASE("a hint of any alignment is told, and not its range's last value") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  // Rows of op(A) are stored along m: each alignment has its own signature.
  const std::string rest = " n=256 k=512 dtype=bf16 layout=TN";
  const std::string one = "gemm m=1" + rest;
  kiln_problem ranged = problemOf(one.c_str());
  kiln_range range = rangeOf("m", 1, 8192);
  ranged.ranges = &range;
  ranged.range_count = 1;
  for (int64_t hint : {1, 77, 1004, 8192}) {
    CAPTURE(hint);
    range.hint = hint;
    const std::string alone = "gemm m=" + std::to_string(hint) + rest;
    const kiln_problem value = problemOf(alone.c_str());
    CHECK(explained(engine, ranged) == explained(engine, value));
    CHECK(std::string(candidatesOf(engine, ranged, 1).front().config) ==
          candidatesOf(engine, value, 1).front().config);
  }
}

TEST_CASE("the key of one value is told, and not that of a range") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  kiln_problem ranged = problemOf(kText);
  CHECK_FALSE(keyOf(engine, ranged).empty());
  kiln_range range = rangeOf("m", 1, 128);
  ranged.ranges = &range;
  ranged.range_count = 1;
  CHECK(kiln_problem_key(engine, &ranged, nullptr, nullptr, 0, nullptr) ==
        KILN_INVALID_ARGUMENT);
  CHECK(lastErrorHas("kiln_problem_keys"));
  CHECK_FALSE(keysOf(engine, ranged).empty());
}

TEST_CASE("the keys of a value are its record's and its choice's") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  const kiln_problem value = problemOf(kText);
  const llvm::json::Object before =
      parsed(keysOf(engine, value, KILN_TEXT_JSON));
  const llvm::json::Object &part =
      *before.getArray("parts")->front().getAsObject();
  CHECK(part.getObject("record")->getString("key") == keyOf(engine, value));
  CHECK(part.getString("from") == "estimate");
  const llvm::json::Object &first =
      *part.getArray("artifacts")->front().getAsObject();
  CHECK(first.getString("config") ==
        candidatesOf(engine, value, 1).front().config);
  CHECK(first.getBoolean("on_disk") == false);
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.flags = KILN_PREPARE_COMPILE_ONLY;
  REQUIRE(kiln_prepare(engine, &value, 1, &prepare, nullptr) == KILN_SUCCESS);
  const llvm::json::Object after =
      parsed(keysOf(engine, value, KILN_TEXT_JSON));
  const llvm::json::Object &stored =
      *after.getArray("parts")->front().getAsObject();
  CHECK(stored.getString("from") == "decision");
  const std::string file = stored.getArray("artifacts")
                               ->front()
                               .getAsObject()
                               ->getString("file")
                               ->str();
  CHECK(stored.getArray("artifacts")
            ->front()
            .getAsObject()
            ->getBoolean("on_disk") == true);
  size_t found = 0;
  for (const auto &entry :
       std::filesystem::recursive_directory_iterator(fixture.cachePath))
    found += entry.path().filename().string().rfind(file, 0) == 0;
  CHECK(found == 1);
  const std::string lines = keysOf(engine, value);
  CHECK(lines.rfind("record ", 0) == 0);
  CHECK(lines.find("\nartifact " + file + " kiln_gemm_") != std::string::npos);
}

TEST_CASE("the keys of a range are those of its parts") {
  ExplainFixture fixture;
  kiln_engine *engine = fixture.planner();
  // As many records as alignments, and no kernel before one is chosen.
  kiln_problem ranged = problemOf("gemm m=1 n=256 k=512 dtype=bf16 layout=TT");
  kiln_range range = rangeOf("m", 1, 64);
  ranged.ranges = &range;
  ranged.range_count = 1;
  const llvm::json::Object open =
      parsed(keysOf(engine, ranged, KILN_TEXT_JSON));
  const llvm::json::Array &parts = *open.getArray("parts");
  REQUIRE(parts.size() > 1);
  const std::string text = keysOf(engine, ranged);
  CHECK(llvm::count(text, '\n') == static_cast<long>(parts.size()));
  std::vector<std::string> files;
  for (const llvm::json::Value &one : parts) {
    const llvm::json::Object &object = *one.getAsObject();
    CHECK(object.getArray("artifacts")->empty());
    CHECK(object.getString("range"));
    CHECK_FALSE(object.getString("from"));
    const std::string record =
        object.getObject("record")->getString("file")->str();
    CHECK(text.find("record " + record + " problem gemm ") !=
          std::string::npos);
    CHECK_FALSE(llvm::is_contained(files, record));
    files.push_back(record);
  }
  kiln_prepare_options prepare = KILN_INIT(kiln_prepare_options);
  prepare.flags = KILN_PREPARE_COMPILE_ONLY;
  REQUIRE(kiln_prepare(engine, &ranged, 1, &prepare, nullptr) == KILN_SUCCESS);
  const llvm::json::Object chosen =
      parsed(keysOf(engine, ranged, KILN_TEXT_JSON));
  for (const llvm::json::Value &one : *chosen.getArray("parts")) {
    CHECK(one.getAsObject()->getString("from") == "portfolio");
    const llvm::json::Array &kernels =
        *one.getAsObject()->getArray("artifacts");
    CHECK_FALSE(kernels.empty());
    for (const llvm::json::Value &kernel : kernels)
      CHECK(kernel.getAsObject()->getBoolean("on_disk") == true);
  }
}
