// The table of docs/limits.md shows KnownGaps.txt with today's predicted times.
// With KILN_UPDATE_GOLDENS=1 in the environment the test writes the table
// instead.
#include "Families/Conformance/KnownGaps.h"

#include "Support/Format.h"

#include <llvm/Support/MemoryBuffer.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

using namespace kiln;
using namespace kiln::conformance;

namespace {

constexpr const char *kPage = KILN_SOURCE_DIR "/docs/limits.md";
constexpr const char *kHead = "| class | worst | why | instead |\n"
                              "|---|---|---|---|\n";
constexpr size_t kMostRows = 12;

/// The worst fault of \p one: "no kernel", or the ratio of a problem's time to
/// its neighbour's; "" for a wrong estimate.
std::string worstOf(const KnownClass &one) {
  double ratio = 0;
  std::string device;
  for (const KnownGap &gap : one.gaps) {
    const std::optional<Fault> fault = gap.example();
    if (!fault)
      continue; // CoverageTest.cpp checks that
    if (fault->promise == Promise::Kernel)
      return "no kernel";
    if (fault->ratio > ratio) {
      ratio = fault->ratio;
      device = fault->device;
    }
  }
  if (ratio == 0)
    return "";
  // Two digits, because builds differ in the last ones.
  double unit = 1;
  while (ratio >= 100 * unit)
    unit *= 10;
  return fmt::format("{:.0f}x ({})", std::round(ratio / unit) * unit, device);
}

std::string tableOf(llvm::ArrayRef<KnownClass> classes) {
  std::string table = kHead;
  for (const KnownClass &one : classes)
    table += fmt::format("| {} | {} | {} | {} |\n", one.name, worstOf(one),
                         one.why, one.avoid);
  return table;
}

} // namespace

TEST_CASE("conformance: the page of limits shows the known gaps") {
  const std::vector<KnownClass> classes = readKnownGaps().classes;
  CHECK_MESSAGE(classes.size() <= kMostRows,
                "nobody reads so many exceptions: mend some");
  auto file = llvm::MemoryBuffer::getFile(kPage);
  REQUIRE(file);
  const std::string page = (*file)->getBuffer().str();
  const size_t begin = page.find(kHead);
  REQUIRE(begin != std::string::npos);
  const size_t end = std::min(page.find("\n\n", begin), page.size() - 1) + 1;
  const std::string table = tableOf(classes);
  if (page.substr(begin, end - begin) == table)
    return;
  const char *value = std::getenv("KILN_UPDATE_GOLDENS");
  if (value && llvm::StringRef(value) == "1") {
    std::ofstream(kPage) << page.substr(0, begin) + table + page.substr(end);
    return;
  }
  MESSAGE("run KILN_UPDATE_GOLDENS=1 KilnFamiliesTests -tc='*page of limits*', "
          "look at the difference and commit it");
  CHECK(page.substr(begin, end - begin) == table);
}
