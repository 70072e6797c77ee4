// The writer of a history: files that are deleted or locked meanwhile, bounds,
// and the lines that values of launches need.
#include "Runtime/HistoryWriter.h"

#include "Call/HistoryFile.h"
#include "Families/Families.h"
#include "Runtime/Hooks.h"
#include "Support/AtomicFile.h"
#include "Support/Error.h"
#include "Support/FileOps.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

using namespace kiln;
using kiln::testing::TemporaryFolder;

namespace {

struct WriterFixture {
  WriterFixture() : hooks(options()) {}

  kiln_engine_options options() {
    kiln_engine_options made = KILN_INIT(kiln_engine_options);
    made.log = [](void *user, kiln_log_level, const char *message) {
      static_cast<WriterFixture *>(user)->logged += std::string(message) + '\n';
    };
    made.log_user = this;
    made.log_level = KILN_LOG_WARNING;
    return made;
  }
  Problem problem(const std::string &text) const {
    auto parsed = families.parseProblem(text);
    REQUIRE(static_cast<bool>(parsed));
    return parsed->problem;
  }
  ProblemSpec spec(const std::string &line) const {
    auto parsed = ProblemLine::parse(line);
    REQUIRE(static_cast<bool>(parsed));
    auto read = parsed->read(families);
    REQUIRE(static_cast<bool>(read));
    return *read;
  }
  std::vector<std::string> lines() const {
    auto history = History::readShared(path);
    REQUIRE(static_cast<bool>(history));
    std::vector<std::string> lines;
    for (const ProblemLine &line : history->requests)
      lines.push_back(line.text());
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  TemporaryFolder folder;
  const std::string path = folder / "history";
  const Registry families = makeBuiltinRegistry();
  std::string logged; ///< read at the end of a writer
  Hooks hooks;
};

std::string gemm(int64_t m) {
  return "gemm m=" + std::to_string(m) + " n=256 k=512 dtype=bf16 layout=NT";
}

template <class Condition> bool comesTrue(const Condition &condition) {
  for (int i = 0; i < 2000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

} // namespace

TEST_CASE("a file that is deleted meanwhile gets all lines again") {
  WriterFixture f;
  const std::vector<std::string> all = {gemm(1), gemm(2)};
  {
    HistoryWriter writer(f.hooks, f.families, f.path,
                         std::chrono::milliseconds(1));
    writer.note(f.problem(gemm(1)));
    CHECK(comesTrue([&] { return f.lines().size() == 1; }));
    std::filesystem::remove(f.path);
    writer.note(f.problem(gemm(2)));
    CHECK(comesTrue([&] { return f.lines() == all; }));
    std::filesystem::remove(f.path);
  }
  CHECK(f.lines() == all); // by the end, without news
  CHECK(f.logged.empty());
}

TEST_CASE("lines that cannot be written in the end are told") {
  WriterFixture f;
  FileOps &ops = FileOps::system();
  const ScopedFd holder(ops, ops.open(AT_FDCWD, f.path.c_str(),
                                      O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  REQUIRE(ops.tryLock(holder.get(), kWriterLockOffset) == 0);
  {
    HistoryWriter writer(f.hooks, f.families, f.path);
    writer.note(f.problem(gemm(1)));
  }
  CHECK(f.logged.find("up to 1 requests are lost") != std::string::npos);
}

TEST_CASE("values leave room for requests, and what is left out is told") {
  WriterFixture f;
  const std::string asked = gemm(64) + "; m=1..64";
  {
    HistoryWriter writer(f.hooks, f.families, f.path, std::chrono::hours(1));
    Problem layer = f.problem(gemm(1));
    for (size_t n = 0; n <= kMostHistoryLines; ++n) {
      layer.values.set("n", 8 * static_cast<int64_t>(n + 1));
      writer.note(layer);
    }
    writer.note(f.spec(asked));
  }
  const std::vector<std::string> lines = f.lines();
  CHECK(lines.size() > kMostHistoryLines / 2);
  CHECK(lines.size() < kMostHistoryLines);
  CHECK(std::binary_search(lines.begin(), lines.end(), asked));
  CHECK(f.logged.find("requests are left out") != std::string::npos);
}

TEST_CASE("values within a request need no line, others have a few") {
  const WriterFixture f;
  HistoryValues values(f.families);
  values.cover(f.spec(gemm(64) + "; m=8..64"));
  CHECK(values.lineOf(f.problem(gemm(8))).empty());
  CHECK(values.lineOf(f.problem(gemm(64))).empty());
  CHECK(values.lineOf(f.problem(gemm(7))) == gemm(7));
  CHECK(values.lineOf(f.problem(gemm(7))).empty());
  const std::string other = "gemm m=8 n=256 k=1024 dtype=bf16 layout=NT";
  CHECK(values.lineOf(f.problem(other)) == other);
}

TEST_CASE("a few ranges have all lengths of decodes") {
  const WriterFixture f;
  HistoryValues values(f.families);
  size_t lines = 0;
  std::string last;
  for (int64_t sk = 1; sk <= 5000; ++sk) {
    const std::string line = values.lineOf(f.problem(fmt::format(
        "attention batch={} sq=1 sk={} heads=32 kvheads=8 d=128 dtype=bf16 "
        "kvlen=used pages=table page=64",
        1 + sk % 7, sk)));
    if (line.empty())
      continue;
    ++lines;
    last = line;
    f.spec(line);
  }
  CHECK(lines < 40);
  CHECK(last.find(" sk=1..8192") != std::string::npos);
  CHECK(last.find(" sq=1..") == std::string::npos);
}
