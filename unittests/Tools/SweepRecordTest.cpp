#include "kiln-bench/SweepRecord.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

using namespace kiln;
using namespace kiln::cli;
namespace fs = std::filesystem;

static SweepResult recordedOf(const std::vector<double> &times) {
  SweepResult result;
  result.spaceSize = 10 * times.size();
  for (double ns : times) {
    SweptConfig &config = result.configs.emplace_back();
    config.rank = 3 * (static_cast<int>(result.configs.size()) - 1);
    config.result.config = "fast.t" + std::to_string(result.configs.size());
    config.result.medianNs = ns;
    config.result.samples = ns > 0 ? 7 : 0;
  }
  return result;
}

TEST_CASE("a record keeps what has a time, and reads as it was written") {
  SweepRecord record;
  record.what = "a \"suite\"";
  record.gpu = "NVIDIA H200";
  record.device = "h200-sxm";
  SweepResult result = recordedOf({1234.5678, 0, 999});
  result.configs[0].inPlayoff = true;
  record.spaces.push_back(RecordedSpace::of("a", "fake m=1 n=2", result));
  record.spaces.push_back(
      RecordedSpace::of("b", "fake m=2 n=2", recordedOf({})));
  const std::string text = record.text();
  const auto read = llvm::cantFail(SweepRecord::parse(
      llvm::cantFail(parseJson(text, "test")), "record.json"));
  CHECK(read.text() == text);
  CHECK(read.what == "a \"suite\"");
  CHECK(read.gpu == "NVIDIA H200");
  CHECK(read.device == "h200-sxm");
  REQUIRE(read.spaces.size() == 2);
  const RecordedSpace &space = read.spaces[0];
  CHECK(space.problem == "fake m=1 n=2");
  CHECK(space.size == 30);
  REQUIRE(space.configs.size() == 2);
  CHECK(space.configs[0].config == "fast.t1");
  CHECK(space.configs[0].ns == 1235);
  CHECK(space.configs[0].inPlayoff);
  CHECK(space.configs[1].rank == 6);
  CHECK_FALSE(space.configs[1].inPlayoff);
  // A config that was too slow for the playoff is not the best.
  CHECK(space.bestNs() == 1235);
  CHECK(read.spaces[1].bestNs() == 0);
}

TEST_CASE("a record without a commit has no member for it") {
  SweepRecord record;
  CHECK(record.text().find("commit") == std::string::npos);
  record.commit = "444f5d08";
  CHECK(record.text().find("\"commit\": \"444f5d08\"") != std::string::npos);
}

TEST_CASE(
    "the recorded sweeps name one commit, or their sentence tells of it") {
  const std::regex hash("[0-9a-f]{7,40}");
  const fs::path folder = fs::path(KILN_SOURCE_DIR) / "benchmarks/sweeps/h200";
  size_t files = 0;
  for (const fs::directory_entry &entry :
       fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json")
      continue;
    CAPTURE(entry.path().string());
    ++files;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const llvm::json::Value json = llvm::cantFail(parseJson(text, "test"));
    const auto record = llvm::cantFail(SweepRecord::parse(json, "test"));
    const bool hasMember = json.getAsObject()->get("commit");
    CHECK(hasMember == std::regex_match(record.commit, hash));
    const bool isTold = record.what.find("ommit") != std::string::npos;
    CHECK((hasMember || isTold));
  }
  CHECK(files > 10);
}

TEST_CASE("a third of all problems is for tests") {
  int tests = 0;
  for (int m = 1; m <= 600; ++m)
    tests += RecordedSpace{"", "fake m=" + std::to_string(m), 0, {}}.isTest();
  CHECK(tests > 160);
  CHECK(tests < 240);
}

TEST_CASE("what is no record of sweeps is refused") {
  for (const char *text :
       {"[]", "{}", R"({"spaces": [1]})", R"({"spaces": [{"name": "a"}]})",
        R"({"spaces": [{"name": "a", "problem": "p", "configs": [["c", 0]]}]})",
        R"({"spaces": [{"name": "a", "problem": "p",
                        "configs": [["c", 0, 0]]}]})"}) {
    CAPTURE(text);
    auto record = SweepRecord::parse(llvm::cantFail(parseJson(text, "test")),
                                     "record.json");
    REQUIRE_FALSE(static_cast<bool>(record));
    CHECK(summarize(record.takeError()).message.find("record.json") !=
          std::string::npos);
  }
}
