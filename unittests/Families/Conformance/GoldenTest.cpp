// Translation units of every family of Families.def, compared with goldens.
//
// golden/<family>/<name>.cu begins with its problem, its config and its
// architecture on an H200, each in a comment, followed by the text of the
// plan's first kernel. A family has at least one file. With
// KILN_UPDATE_GOLDENS=1 in the environment the test writes the texts instead:
// for a family without files, its first choice for a drawn problem; for an
// existing file, the text for its first two comments. So a new golden starts as
// a file of two lines.
#include "Families/Conformance/Draw.h"

#include "Kernel/Space.h"
#include "Support/Error.h"
#include "Support/Format.h"
#include "Support/ReadFile.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

using namespace kiln;
using namespace kiln::conformance;

namespace {

constexpr const char *kFolder = KILN_SOURCE_DIR "/unittests/Families/golden";
constexpr uint64_t kMostBytes = 1 << 20;
const std::string kHowTo =
    "run KILN_UPDATE_GOLDENS=1 build/release/bin/KilnFamiliesTests "
    "-tc='*golden*', look at the difference and commit it";

bool isUpdating() {
  const char *value = std::getenv("KILN_UPDATE_GOLDENS");
  return value && llvm::StringRef(value) == "1";
}

struct Golden {
  Problem problem;
  KernelFamily::NamedConfig named;

  std::string text() const {
    Plan plan = named.tmpl->plan(problem, named.config, h200());
    return fmt::format("// {}\n// {}\n// {}\n{}", problem.text(),
                       plan.configText(), plan.kernels[0].arch(),
                       plan.kernels[0].source());
  }
};

/// The problem and the config in the comments at the head of \p file.
Golden parseGolden(const KernelFamily &family, const std::string &file) {
  auto [problemLine, rest] = llvm::StringRef(file).split('\n');
  llvm::StringRef configLine = rest.split('\n').first;
  REQUIRE(problemLine.consume_front("// "));
  REQUIRE(configLine.consume_front("// "));
  auto problem = family.parseProblem(problemLine);
  if (!problem)
    FAIL(summarize(problem.takeError()).message);
  auto named = family.parseConfig(configLine);
  if (!named)
    FAIL(summarize(named.takeError()).message);
  if (auto rejection = named->tmpl->prune(*problem, named->config, h200()))
    FAIL(configLine.str(), ": ", rejection->text());
  return {std::move(*problem), std::move(*named)};
}

Golden firstChoice(const KernelFamily &family) {
  Problem problem = drawWork(family, Sizes::Usual, 1)[0];
  Space space = llvm::cantFail(exploreSpace(family, problem, h200()));
  Candidate &first = space.ranked.front();
  return {std::move(problem), {first.tmpl, std::move(first.config)}};
}

std::vector<std::filesystem::path> filesOf(const KernelFamily &family) {
  std::vector<std::filesystem::path> files;
  std::filesystem::path folder = kFolder + ("/" + family.name()).str();
  if (std::filesystem::is_directory(folder))
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      files.push_back(entry.path());
  llvm::sort(files);
  return files;
}

void write(const std::filesystem::path &path, const std::string &text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::trunc) << text;
  MESSAGE("wrote ", path.string());
}

} // namespace

TEST_CASE("conformance: the translation units are the golden ones") {
  for (const auto &family : registry().families()) {
    std::vector<std::filesystem::path> files = filesOf(*family);
    if (files.empty() && isUpdating()) {
      Golden first = firstChoice(*family);
      write(std::filesystem::path(kFolder) / family->name().str() /
                (first.named.tmpl->name() + ".cu").str(),
            first.text());
      continue;
    }
    CHECK_MESSAGE(!files.empty(), family->name().str(),
                  " has no golden translation unit: ", kHowTo);
    for (const std::filesystem::path &path : files) {
      CAPTURE(path.string());
      std::string file =
          llvm::cantFail(readNamedFile(path.string(), kMostBytes));
      std::string text = parseGolden(*family, file).text();
      if (text == file)
        continue;
      if (isUpdating())
        write(path, text);
      else
        CHECK_MESSAGE(text == file, kHowTo);
    }
  }
}

TEST_CASE("conformance: every golden translation unit is a family's") {
  for (const auto &entry : std::filesystem::directory_iterator(kFolder)) {
    CAPTURE(entry.path().string());
    CHECK(registry().find(entry.path().filename().string()));
  }
}
