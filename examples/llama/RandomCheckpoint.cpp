//===- RandomCheckpoint.cpp - random weights as a checkpoint --------------===//
#include "RandomCheckpoint.h"

#include "CheckpointExport.h"

namespace llama {

void writeRandomCheckpoint(const std::string &folder, std::string_view config,
                           uint64_t seed) {
  WeightSource source;
  source.seed = seed;
  exportCheckpoint(folder, config, source);
}

} // namespace llama
