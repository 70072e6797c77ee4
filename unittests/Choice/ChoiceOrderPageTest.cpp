// The table of docs/design.md, "The order of choice", follows from the lists of
// ChoiceOrder.cpp and the comments of ChoiceStep. With KILN_UPDATE_GOLDENS=1 in
// the environment the test writes the table instead.
#include "Choice/ChoiceOrder.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/MemoryBuffer.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace kiln;

namespace {

constexpr const char *kHeader = KILN_SOURCE_DIR "/lib/Choice/ChoiceOrder.h";
constexpr const char *kPage = KILN_SOURCE_DIR "/docs/design.md";
constexpr const char *kHead =
    "| step | offers | tune | predict | background | strict | frozen |\n"
    "|---|---|---|---|---|---|---|\n";

/// A step with the name and the comment that the header has.
struct PageStep {
  ChoiceStep step;
  std::string name, offers;
};

std::string textOf(const char *path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  REQUIRE(file);
  return (*file)->getBuffer().str();
}

/// The enumerators of ChoiceStep in \p header, each with the comment above it.
/// They have no values of their own.
std::vector<PageStep> stepsIn(llvm::StringRef header) {
  std::vector<PageStep> steps;
  auto [before, rest] = header.split("enum class ChoiceStep {\n");
  llvm::StringRef body = rest.split("};").first;
  std::string comment;
  while (!body.empty()) {
    llvm::StringRef line;
    std::tie(line, body) = body.split('\n');
    line = line.trim();
    if (line.consume_front("/// ")) {
      comment += (comment.empty() ? "" : " ") + line.str();
    } else if (line.consume_back(",")) {
      steps.push_back({static_cast<ChoiceStep>(steps.size()), line.str(),
                       std::exchange(comment, "")});
    }
  }
  return steps;
}

/// The place of \p step in \p list, from 1; "" if it is not there.
std::string placeIn(llvm::ArrayRef<ChoiceStep> list, ChoiceStep step) {
  const auto *found = llvm::find(list, step);
  return found == list.end() ? "" : fmt::format("{}", found - list.begin() + 1);
}

/// The places of a step in a mode whose launches have a list of their own.
std::string bothPlaces(kiln_mode mode, ChoiceStep step) {
  const std::string thread = placeIn(choiceOrder(mode), step);
  const std::string launch = placeIn(choiceOrder(mode, Haste::Launch), step);
  if (thread == launch)
    return thread;
  if (launch.empty())
    return "thread: " + thread;
  return fmt::format("{}{}launch: {}", thread, thread.empty() ? "" : "; ",
                     launch);
}

std::string tableOf(llvm::ArrayRef<PageStep> steps) {
  std::string table = kHead;
  for (const PageStep &one : steps) {
    table += fmt::format("| `{}` | {} |", one.name, one.offers);
    for (kiln_mode mode :
         {kiln_mode(KILN_MODE_TUNE), kiln_mode(KILN_MODE_PREDICT),
          kiln_mode(KILN_MODE_BACKGROUND), kiln_mode(KILN_MODE_STRICT),
          kFrozenPredict}) {
      const std::string place = bothPlaces(mode, one.step);
      table += place.empty() ? " |" : " " + place + " |";
    }
    table += '\n';
  }
  return table;
}

/// The lines of \p page from the table's head to its last row.
llvm::StringRef tableIn(llvm::StringRef page) {
  const size_t begin = page.find(kHead);
  REQUIRE(begin != llvm::StringRef::npos);
  return page.slice(begin, page.find("\n\n", begin) + 1);
}

} // namespace

TEST_CASE("the comments of the steps are read") {
  const std::vector<PageStep> steps = stepsIn(textOf(kHeader));
  REQUIRE(steps.size() == static_cast<size_t>(ChoiceStep::Existing) + 1);
  CHECK(steps.front().name == "Stored");
  CHECK(steps.back().name == "Existing");
  for (const PageStep &one : steps)
    CHECK(one.offers != "");
}

TEST_CASE("the table of the order of choice is that of the lists") {
  const std::string page = textOf(kPage);
  const std::string table = tableOf(stepsIn(textOf(kHeader)));
  const llvm::StringRef shown = tableIn(page);
  if (shown == table)
    return;
  const char *value = std::getenv("KILN_UPDATE_GOLDENS");
  if (value && llvm::StringRef(value) == "1") {
    const size_t begin = page.find(kHead);
    std::ofstream(kPage) << page.substr(0, begin) + table +
                                page.substr(begin + shown.size());
    return;
  }
  MESSAGE("run KILN_UPDATE_GOLDENS=1 KilnChoiceTests -tc='*order of choice*', "
          "look at the difference and commit it");
  CHECK(shown.str() == table);
}
