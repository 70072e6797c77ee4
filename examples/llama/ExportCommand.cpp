//===- ExportCommand.cpp - random weights for transformers ----------------===//
#include "Commands.h"
#include "Error.h"
#include "RandomCheckpoint.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace llama {

static std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

int exportCommand(Options &options) {
  const std::string out = options.text("out");
  const std::string config = options.text("config");
  if (out.empty())
    throw Error("--out FOLDER is missing");
  const auto seed = static_cast<uint64_t>(options.number("seed", 1));
  const std::string text =
      config.empty() ? chooseModel(options).configText : readText(config);
  options.requireNoOthers();
  std::filesystem::create_directories(out);
  writeRandomCheckpoint(out, text, seed);
  return 0;
}

} // namespace llama
