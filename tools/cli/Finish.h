//===- Finish.h - how commands that measure end ---------------------------===//
#pragma once

#include "cli/Options.h"
#include "cli/Report.h"

#include <llvm/Support/Error.h>

#include <optional>
#include <string>

namespace kiln::cli {

/// Of commands that measure.
inline constexpr OptionSpec kDocumentOptions[] = {
    {"--out", "FILE", "write the JSON document there as well"},
    {"--commit", "TEXT",
     "commit that the document names, as of git rev-parse; --out needs it"}};

/// Whether writeFile will be able to open \p path, for asking before long work.
/// What the file holds is kept; one that is missing is made, empty. Without a
/// path and for "-" there is nothing to ask. Errors: Io.
llvm::Error checkOutput(const std::optional<std::string> &path);

/// The commit that a document names, by --commit. Errors (InvalidArgument):
/// --out without one, a result that nobody could measure again.
llvm::Expected<std::string> commitOf(const ParsedOptions &options);

/// Ends a command that measured all, or what it could until \p failure: tells
/// the failure, writes \p report's document to \p out and the report to stdout,
/// each though another went wrong. Answers \p exitCode, or that of what went
/// wrong. Does not return where the device hangs or its context is dead: no
/// destructor may wait for it, so the process ends here.
int finish(const Report &report, const std::optional<std::string> &out,
           bool asJson, llvm::Error failure, int exitCode);

} // namespace kiln::cli
