//===- Main.cpp - the kiln-bench command: a table of contents -------------===//
#include "cli/Tool.h"
#include "kiln-bench/Commands.h"

using namespace kiln::cli;

static constexpr const CommandSpec *kCommands[] = {
    &kDrawCommand,  &kChainCommand, &kBackgroundCommand, &kJitCommand,
    &kStudyCommand, &kSweepCommand, &kQualityCommand,
};

/// Commands of kiln.
static constexpr const char *kElsewhere[] = {
    "info", "plan", "explain", "warmup", "tune", "bench", "cache"};

int main(int argc, char **argv) {
  return runTool({"kiln-bench", "Measures Kiln, for its developers.", kCommands,
                  "kiln", kElsewhere},
                 argc, argv);
}
