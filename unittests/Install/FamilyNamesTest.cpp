// No file of lib or tools names a kernel family, except those of the family.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace fs = std::filesystem;

namespace {

/// What a family's name shows in, in lower case.
constexpr const char *kNames[] = {
    "gemm",     "elementwise", "softmax",       "layer_norm", "layernorm",
    "rms_norm", "rmsnorm",     "quantize",      "rowquant",   "transpose2d",
    "\"reduce", "kiln_reduce", "kiln_transpose"};

/// Where a name is meant to stand.
const std::set<std::string> kAllowed = {
    // Examples in messages and help texts.
    "tools/kiln/CommonOptions.cpp", "tools/kiln/Explain.cpp",
    "tools/kiln/Plan.cpp", "tools/kiln/Tune.cpp", "tools/kiln/Warmup.cpp",
    "tools/kiln/bench/Bench.cpp",
    // The peer of matrix products.
    "tools/kiln/bench/BenchRunner.cpp", "tools/kiln/bench/CublasLt.cpp",
    "tools/kiln/bench/CublasLt.h", "tools/kiln/bench/FirstCalls.cpp"};

/// \p line in lower case, without a comment.
std::string codeOf(std::string line) {
  line.resize(std::min(line.size(), line.find("//")));
  std::transform(line.begin(), line.end(), line.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return line;
}

bool namesFamily(const std::string &code) {
  return std::any_of(
      std::begin(kNames), std::end(kNames),
      [&](const char *name) { return code.find(name) != std::string::npos; });
}

/// A family's own files, and the lists that a new one is added to.
bool belongsToFamily(const std::string &file) {
  return file.rfind("lib/Families/", 0) == 0 &&
         (file.find('/', sizeof("lib/Families/")) != std::string::npos ||
          file == "lib/Families/Families.def" ||
          file == "lib/Families/CMakeLists.txt");
}

} // namespace

TEST_CASE("no file but a family's own names it") {
  const fs::path root = KILN_SOURCE_DIR;
  std::set<std::string> found;
  for (const char *folder : {"lib", "tools"})
    for (const auto &entry : fs::recursive_directory_iterator(root / folder)) {
      std::string file = entry.path().lexically_relative(root).string();
      if (!entry.is_regular_file() || belongsToFamily(file))
        continue;
      std::ifstream text(entry.path());
      for (std::string line; std::getline(text, line);) {
        if (!namesFamily(codeOf(line)))
          continue;
        found.insert(file);
        INFO(file << ": " << line);
        CHECK(kAllowed.count(file) == 1);
      }
    }
  CHECK(found == kAllowed); // none is allowed for nothing
}
