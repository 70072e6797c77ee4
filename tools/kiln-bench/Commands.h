//===- Commands.h - every subcommand of kiln-bench ------------------------===//
#pragma once

#include "cli/Options.h"

namespace kiln::cli {

extern const CommandSpec kDrawCommand;
extern const CommandSpec kChainCommand;
extern const CommandSpec kBackgroundCommand;
extern const CommandSpec kJitCommand;
extern const CommandSpec kStudyCommand;
extern const CommandSpec kSweepCommand;
extern const CommandSpec kQualityCommand;

} // namespace kiln::cli
