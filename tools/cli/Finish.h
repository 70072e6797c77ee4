//===- Finish.h - the end of commands that measure ------------------------===//
#pragma once

#include "cli/Options.h"
#include "cli/Report.h"

#include <llvm/Support/Error.h>

#include <optional>
#include <string>

namespace kiln::cli {

/// Options of commands that measure.
inline constexpr OptionSpec kDocumentOptions[] = {
    {"--out", "FILE", "write the JSON document there as well"},
    {"--commit", "TEXT",
     "commit that the document names, as of git rev-parse; --out needs it"}};

/// Whether writeFile will be able to open \p path, to be asked before long
/// work. The file keeps its contents; a missing one is made, empty. Without a
/// path and for "-" it succeeds. Errors: Io.
llvm::Error checkOutput(const std::optional<std::string> &path);

/// The commit that a document names, by --commit. Error (InvalidArgument):
/// --out without one, because such a result could not be reproduced.
llvm::Expected<std::string> commitOf(const ParsedOptions &options);

/// Ends a command that measured all, or as much as it could until \p failure.
/// It tells the failure, writes \p report's document to \p out and the report
/// to stdout; each step runs even if another one failed. Returns \p exitCode,
/// or that of the step that failed. Does not return where the device hangs or
/// its context is dead: no destructor may wait for it, so the process ends
/// here.
int finish(const Report &report, const std::optional<std::string> &out,
           bool asJson, llvm::Error failure, int exitCode);

} // namespace kiln::cli
