// Checks the include graph of the tree against the layer list of
// docs/design.md: the folder of a source decides which headers it may include.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// Rank of each layer by name. Peers have one rank.
using Layers = std::map<std::string, int>;

struct Include {
  int line = 0;
  std::string name; // as written
};

std::string readFile(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Reads "Include only to the left: A < {B, C} < D;" in \p designText, where
/// \p introduction is the text in front of A.
Layers parseLayers(const std::string &designText,
                   const std::string &introduction) {
  Layers layers;
  size_t begin = designText.find(introduction);
  if (begin == std::string::npos)
    return layers;
  begin += introduction.size();
  int rank = 0;
  std::string name;
  const size_t end = designText.find_first_of(";.", begin);
  for (char c : designText.substr(begin, end - begin)) {
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '-') {
      name += c;
      continue;
    }
    if (!name.empty())
      layers[name] = rank;
    name.clear();
    rank += c == '<';
  }
  if (!name.empty())
    layers[name] = rank;
  return layers;
}

std::vector<Include> includesOf(const fs::path &file) {
  std::vector<Include> includes;
  std::istringstream text(readFile(file));
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line[at] != '#')
      continue;
    at = line.find_first_not_of(" \t", at + 1);
    if (at == std::string::npos || line.compare(at, 7, "include") != 0)
      continue;
    size_t open = line.find_first_of("\"<", at);
    if (open == std::string::npos)
      continue;
    size_t close = line.find_first_of("\">", open + 1);
    if (close != std::string::npos)
      includes.push_back({number, line.substr(open + 1, close - open - 1)});
  }
  return includes;
}

/// The file of the tree that an include names, relative to \p root; empty for a
/// header of the system or of a dependency.
std::optional<fs::path> resolve(const fs::path &root, const fs::path &file,
                                const std::string &name) {
  for (const fs::path &folder :
       {file.parent_path(), root / "lib", root / "kernel_src", root / "include",
        root / "tools"})
    if (fs::is_regular_file(folder / name))
      return (folder / name).lexically_normal().lexically_relative(root);
  return std::nullopt;
}

/// The \p index-th part of a path, or "".
std::string partOf(const fs::path &path, int index) {
  auto part = path.begin();
  for (; part != path.end() && index > 0; --index)
    ++part;
  return part == path.end() ? "" : part->string();
}

/// The layer of a file of the tree, or "" outside of the layers. A folder of
/// the tools is a layer.
std::string layerOf(const fs::path &file) {
  return partOf(file, 0) == "lib" || partOf(file, 0) == "tools"
             ? partOf(file, 1)
             : "";
}

/// Whether lib/Families has a folder called \p name, in whichever case.
bool isFamily(const fs::path &root, const std::string &name) {
  auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  if (!fs::is_directory(root / "lib/Families"))
    return false;
  const fs::directory_iterator families(root / "lib/Families");
  return std::any_of(begin(families), end(families), [&](const auto &entry) {
    return entry.is_directory() &&
           lower(entry.path().filename().string()) == lower(name);
  });
}

/// The reason why \p file may not include \p target, both in the tree; "" if it
/// may.
std::string judgeInternal(const Layers &layers, const fs::path &root,
                          const fs::path &file, const fs::path &target) {
  std::string from = partOf(file, 0), to = partOf(target, 0);
  if (from == "kernel_src")
    return to == from ? "" : "kernel sources stand alone";
  if (from == "include")
    return to == from ? "" : "public headers stand alone";
  if (from == "examples")
    return to == from || to == "include" ? "" : "examples are users";
  std::string layer = layerOf(file);
  if (to == "include")
    return layer == "Call" || layer == "Families" || layer == "Choice" ||
                   layer == "Runtime" || from == "tools"
               ? ""
               : "only Call, Families, Choice, Runtime and the tools know the "
                 "public interface";
  if (to == "kernel_src") {
    // A folder of kernel sources named after a family belongs to it.
    return !isFamily(root, partOf(target, 1)) || layer == "Families" ||
                   layer == "kiln-bench"
               ? ""
               : "belongs to a family";
  }
  std::string targetLayer = layerOf(target);
  if (!layers.count(layer) || !layers.count(targetLayer))
    return "not in the layer list";
  return layer == targetLayer || layers.at(targetLayer) < layers.at(layer)
             ? ""
             : "not to the left of " + layer;
}

/// The reason why \p file may not include the header \p name from outside of
/// the tree; "" if it may.
std::string judgeExternal(const fs::path &file, const std::string &name) {
  std::string from = partOf(file, 0), layer = layerOf(file);
  if (from == "kernel_src")
    return "kernel sources include nothing from outside";
  if (from == "include")
    return name.find('/') == std::string::npos &&
                   (name.find('.') == std::string::npos || name == "stddef.h" ||
                    name == "stdint.h")
               ? ""
               : "public headers include standard headers only";
  if (name == "cuda.h")
    return layer == "Driver" ? "" : "only Driver knows the CUDA driver";
  if (name == "nvrtc.h")
    return layer == "Compile" ? "" : "only Compile knows NVRTC";
  for (const char *prefix : {"cuda", "cublas", "cudnn", "nv"})
    if (name.rfind(prefix, 0) == 0)
      return "cuda.h and nvrtc.h are all that comes from the toolkit";
  if (from == "lib" &&
      (name == "iostream" || name == "llvm/Support/CommandLine.h"))
    return "has static constructors";
  return "";
}

/// Each include that breaks a rule, as "file:line: name: why", sorted.
std::vector<std::string> violationsIn(const fs::path &root,
                                      const Layers &layers,
                                      size_t *checked = nullptr) {
  std::vector<std::string> violations;
  for (const char *folder :
       {"lib", "tools", "include", "kernel_src", "examples"}) {
    if (!fs::is_directory(root / folder))
      continue;
    for (const auto &entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file())
        continue;
      fs::path file = entry.path().lexically_relative(root);
      for (const Include &include : includesOf(entry.path())) {
        auto target = resolve(root, entry.path(), include.name);
        std::string why = target ? judgeInternal(layers, root, file, *target)
                                 : judgeExternal(file, include.name);
        if (!why.empty())
          violations.push_back(file.string() + ":" +
                               std::to_string(include.line) + ": " +
                               include.name + ": " + why);
        if (checked)
          ++*checked;
      }
    }
  }
  std::sort(violations.begin(), violations.end());
  return violations;
}

Layers designLayers() {
  const std::string text =
      readFile(fs::path(KILN_SOURCE_DIR) / "docs/design.md");
  Layers layers = parseLayers(text, "Include only to the left:");
  const int tools = layers["tools"];
  for (const auto &[name, rank] :
       parseLayers(text, "Within tools the same holds:"))
    layers[name] = tools + 1 + rank;
  return layers;
}

} // namespace

TEST_CASE("the layer list of the design is read") {
  Layers layers = designLayers();
  CHECK(layers.size() == 25);
  CHECK(layers["Support"] == 0);
  CHECK(layers["Device"] == layers["Cache"]);
  CHECK(layers["Driver"] == layers["Model"]);
  CHECK(layers["Cache"] < layers["Driver"]);
  CHECK(layers["Kernel"] < layers["Families"]);
  CHECK(layers["Call"] == layers["Store"]);
  CHECK(layers["Call"] < layers["Network"]);
  CHECK(layers["Runtime"] < layers["tools"]);
  CHECK(layers["tools"] < layers["cli"]);
  CHECK(layers["cli"] < layers["compare"]);
  CHECK(layers["trace"] == layers["compare"]);
  CHECK(layers["calibrate"] == layers["compare"]);
  CHECK(layers["kiln"] == layers["kiln-bench"]);
}

TEST_CASE("includes point to the left") {
  size_t checked = 0;
  auto violations = violationsIn(KILN_SOURCE_DIR, designLayers(), &checked);
  for (const std::string &violation : violations)
    FAIL_CHECK(violation);
  CHECK(checked > 20);
  for (const auto &entry :
       fs::directory_iterator(fs::path(KILN_SOURCE_DIR) / "lib"))
    if (entry.is_directory())
      CHECK(designLayers().count(entry.path().filename().string()) == 1);
}

TEST_CASE("each folder of kernel sources is a family's, or shared") {
  const fs::path root = KILN_SOURCE_DIR;
  for (const auto &entry : fs::directory_iterator(root / "kernel_src")) {
    const std::string folder = entry.path().filename().string();
    if (!entry.is_directory() || folder == "common" || folder == "trial" ||
        folder == "calibrate")
      continue;
    INFO("lib/Families has no folder of kernel_src/" << folder);
    CHECK(isFamily(root, folder));
  }
}

TEST_CASE("each kind of bad include is found") {
  fs::path root = fs::path(KILN_BINARY_DIR) / "layers-test";
  fs::remove_all(root);
  auto write = [&](const char *name, const char *text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  // None of these breaks a rule.
  write("lib/Support/Error.h", "#include <llvm/Support/Error.h>\n");
  write("lib/Device/Model.h", "#include \"Support/Error.h\"\n");
  write("lib/Driver/Driver.cpp", "#include <cuda.h>\n");
  write("lib/Compile/Nvrtc.cpp", "#include <nvrtc.h>\n");
  write("lib/Families/Gemm/Gemm.h", "#include \"gemm/Params.h\"\n");
  write("lib/Call/Structs.cpp", "#include \"kiln/kiln.h\"\n");
  write("lib/Families/Gemm/Call.cpp", "#include \"kiln/kiln.h\"\n");
  write("lib/Runtime/Abi.cpp", "#include \"kiln/kiln.h\"\n");
  write("kernel_src/common/Types.h", "");
  write("kernel_src/gemm/Params.h", "#include \"common/Types.h\"\n");
  write("include/kiln/kiln.h", "#include <stdint.h>\n");
  write("include/kiln/kiln.hpp", "#include \"kiln.h\"\n#include <string>\n");
  write("examples/mlp.cpp", "#include <kiln/kiln.hpp>\n");
  write("tools/cli/Options.h", "#include \"Support/Error.h\"\n");
  write("tools/kiln/Plan.h", "");
  write("tools/kiln/Main.cpp", "#include \"cli/Options.h\"\n");
  CHECK(violationsIn(root, designLayers()).empty());

  write("examples/mlp.cpp", "#include \"Support/Error.h\"\n");
  write("include/kiln/kiln.hpp", "#include <cuda_runtime.h>\n");
  write("include/kiln/types.h", "#include \"Support/Error.h\"\n");
  write("kernel_src/gemm/A.cuh", "#include <cuda_fp16.h>\n");
  write("kernel_src/gemm/B.cuh", "\n# include \"Support/Error.h\"\n");
  write("lib/Cache/A.cpp", "#include \"Device/Model.h\"\n");
  write("lib/Cache/B.cpp", "#include \"../Device/Model.h\"\n");
  write("lib/Cache/C.cpp", "#include <Device/Model.h>\n");
  write("lib/Model/A.cpp", "#include <cuda.h>\n");
  write("lib/Stray/A.cpp", "#include \"Support/Error.h\"\n");
  write("lib/Support/A.cpp", "#include \"Device/Model.h\"\n");
  write("lib/Support/B.cpp", "#include <iostream>\n");
  write("lib/Tune/A.cpp", "#include \"gemm/Params.h\"\n");
  write("lib/Tune/B.cpp", "#include \"kiln/kiln.h\"\n");
  write("tools/cli/A.cpp", "#include \"kiln/Plan.h\"\n");
  write("tools/kiln-bench/A.cpp", "#include \"kiln/Plan.h\"\n");
  write("tools/kiln/Main.cpp", "#include <nvrtc.h>\n");
  std::vector<std::string> expected = {
      "examples/mlp.cpp:1",      "include/kiln/kiln.hpp:1",
      "include/kiln/types.h:1",  "kernel_src/gemm/A.cuh:1",
      "kernel_src/gemm/B.cuh:2", "lib/Cache/A.cpp:1",
      "lib/Cache/B.cpp:1",       "lib/Cache/C.cpp:1",
      "lib/Model/A.cpp:1",       "lib/Stray/A.cpp:1",
      "lib/Support/A.cpp:1",     "lib/Support/B.cpp:1",
      "lib/Tune/A.cpp:1",        "lib/Tune/B.cpp:1",
      "tools/cli/A.cpp:1",       "tools/kiln-bench/A.cpp:1",
      "tools/kiln/Main.cpp:1"};
  std::vector<std::string> found;
  for (const std::string &violation : violationsIn(root, designLayers()))
    found.push_back(violation.substr(0, violation.find(": ")));
  CHECK(found == expected);
}

TEST_CASE("F15: the environment is read in one place, with secure_getenv") {
  // The library and the tools have one, the helper in profiled programs
  // another.
  size_t secure = 0;
  for (const char *folder : {"lib", "tools"})
    for (const auto &entry :
         fs::recursive_directory_iterator(fs::path(KILN_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file())
        continue;
      std::istringstream text(readFile(entry.path()));
      for (std::string line; std::getline(text, line);) {
        size_t at = line.find("getenv(");
        if (at == std::string::npos || line.find("//") < at)
          continue;
        INFO(entry.path().string() << ": " << line);
        CHECK(entry.path().filename() == "Environment.cpp");
        CHECK(line.find("::secure_getenv(") != std::string::npos);
        ++secure;
      }
    }
  CHECK(secure == 2);
}
