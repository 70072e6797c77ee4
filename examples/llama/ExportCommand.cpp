//===- ExportCommand.cpp - an engine's weights for transformers -----------===//
#include "CheckpointExport.h"
#include "Commands.h"
#include "Error.h"

#include <filesystem>

namespace llama {

int exportCommand(Options &options) {
  const std::string out = options.text("out");
  if (out.empty())
    throw Error("--out FOLDER is missing");
  const ChosenModel chosen = chooseModel(options);
  options.requireNoOthers();
  std::filesystem::create_directories(out);
  exportCheckpoint(out, chosen.configText, chosen.source);
  return 0;
}

} // namespace llama
