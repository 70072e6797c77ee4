//===- Tool.h - a program of commands -------------------------------------===//
//
// The common parts of the programs kiln and kiln-bench: they find the command,
// print help, turn errors into one line and an exit code, and end in order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cli/Options.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln::cli {

/// One program: its name and its commands.
struct ToolSpec {
  const char *name;    ///< "kiln"
  const char *summary; ///< one line
  llvm::ArrayRef<const CommandSpec *> commands;
  const char *sibling; ///< the other program
  /// Commands of the sibling program, for an error that leads there.
  llvm::ArrayRef<const char *> siblingCommands;
};

/// Kiln's version, "0.1.0".
const char *version();

/// The whole of main(): runs the command that \p argv names and answers the
/// exit code. Call it once, before anything else.
int runTool(const ToolSpec &tool, int argc, char **argv);

} // namespace kiln::cli
