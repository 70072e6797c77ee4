//===- Main.cpp - the kiln command: a table of contents -------------------===//
#include "cli/Tool.h"
#include "kiln/Commands.h"

using namespace kiln::cli;

static constexpr const CommandSpec *kCommands[] = {
    &kInfoCommand,   &kCalibrateCommand, &kPlanCommand,  &kExplainCommand,
    &kWarmupCommand, &kTuneCommand,      &kBenchCommand, &kProfileCommand,
    &kRunCommand,    &kTraceCommand,     &kStatsCommand, &kCacheCommand,
};

/// Commands of kiln-bench; "model" is an earlier name of "quality".
static constexpr const char *kElsewhere[] = {
    "draw", "chain", "background", "jit", "study", "sweep", "quality", "model"};

int main(int argc, char **argv) {
  return runTool({"kiln", "Plans, compiles and measures GPU kernels.",
                  kCommands, "kiln-bench", kElsewhere},
                 argc, argv);
}
