//===- Report.h - what a command prints -----------------------------------===//
#pragma once

#include "Support/ByteGauge.h"
#include "Support/Error.h"
#include "Support/Report.h"

#include <set>
#include <string>

namespace kiln::cli {

/// Writes \p report to stdout in the form that was asked for and answers
/// \p exitCode, or, after a line on stderr, that some work failed.
int emit(const Report &report, bool asJson, int exitCode = 0);

/// \p texts as JSON, made UTF-8.
llvm::json::Array textsToJson(llvm::ArrayRef<std::string> texts);

/// \p text as a cell of CSV, in quotes.
std::string csvCell(llvm::StringRef text);

/// The most memory that a command held at one time, of each kind.
struct MemoryPeaks {
  uint64_t scratch = 0, modules = 0, host = 0; ///< bytes; see MemoryGauges

  static MemoryPeaks of(const MemoryGauges &gauges);
  /// One line: "peak memory: ...".
  void print(llvm::raw_ostream &os) const;
  llvm::json::Object toJson() const;
};

/// "3 s", "5 min", "7 h", "30 d".
std::string formatAge(double seconds);

/// Errors and notes of cases, each once, which go below a table.
class OutcomeNotes {
public:
  /// \p error may be a success.
  void add(llvm::StringRef name, const ErrorSummary &error,
           llvm::ArrayRef<std::string> notes);
  void print(llvm::raw_ostream &os) const;

private:
  std::set<std::string> errors, notes;
};

} // namespace kiln::cli
