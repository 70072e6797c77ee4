//===- Commands.h - every subcommand of kiln ------------------------------===//
#pragma once

#include "cli/Options.h"

namespace kiln::cli {

extern const CommandSpec kInfoCommand;
extern const CommandSpec kPlanCommand;
extern const CommandSpec kExplainCommand;
extern const CommandSpec kWarmupCommand;
extern const CommandSpec kTuneCommand;
extern const CommandSpec kBenchCommand;
extern const CommandSpec kCacheCommand;
extern const CommandSpec kCalibrateCommand;
extern const CommandSpec kProfileCommand;
extern const CommandSpec kRunCommand;
extern const CommandSpec kTraceCommand;
extern const CommandSpec kStatsCommand;

} // namespace kiln::cli
