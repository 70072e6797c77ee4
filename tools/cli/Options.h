//===- Options.h - a command's options as a table -------------------------===//
//
// Each command declares one table of options. The parser, the help text and
// the suggestions after a typing error all come from it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Error.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

/// One option of a command.
struct OptionSpec {
  const char *name;               ///< "--top"
  const char *argument = nullptr; ///< "N"; null: a flag
  const char *help = "";
  bool repeats = false; ///< may be given more than once
};

/// One table of several, in their order.
template <size_t... counts>
constexpr auto joinOptions(const OptionSpec (&...tables)[counts]) {
  std::array<OptionSpec, (counts + ...)> joined{};
  size_t place = 0;
  auto add = [&](const auto &table) {
    for (const OptionSpec &option : table)
      joined[place++] = option;
  };
  (add(tables), ...);
  return joined;
}

class ParsedOptions;

/// One command: its name, its options and its function.
struct CommandSpec {
  const char *name;
  const char *operands; ///< "PROBLEM..."; empty: takes none
  const char *summary;  ///< one line
  /// Paragraphs of its help. One that begins with two spaces is an example;
  /// helpText() replaces its PROBLEM.
  const char *details;
  llvm::ArrayRef<OptionSpec> options;
  /// Does the work and answers the exit code; an error becomes the one line on
  /// stderr and the code that exitCodeOf() gives.
  llvm::Expected<int> (*run)(const ParsedOptions &);
};

/// The values of the command line. A plain value.
class ParsedOptions {
public:
  /// Parses the words behind the command's name. "--name value" and
  /// "--name=value" are equal; "--" ends the options. Errors (InvalidArgument):
  /// unknown options with the nearest known one, missing or surplus values,
  /// repetitions, operands of a command that takes none.
  static llvm::Expected<ParsedOptions>
  parse(const CommandSpec &command, llvm::ArrayRef<llvm::StringRef> words);

  bool has(llvm::StringRef name) const;
  /// The value of an option given at most once.
  std::optional<std::string> value(llvm::StringRef name) const;
  std::vector<std::string> values(llvm::StringRef name) const;
  llvm::ArrayRef<std::string> operands() const { return words; }

  /// A whole number from \p least up to \p greatest; \p otherwise if it was not
  /// given. Error: InvalidArgument with option and value.
  llvm::Expected<unsigned> number(llvm::StringRef name, unsigned otherwise,
                                  unsigned least = 1,
                                  unsigned greatest = 1u << 20) const;

  /// A duration: "500ms", "10s", "2m", "1h", "30d". Errors as number().
  llvm::Expected<std::chrono::milliseconds> duration(
      llvm::StringRef name, std::chrono::milliseconds otherwise,
      std::chrono::milliseconds longest = std::chrono::hours(30 * 24)) const;

  /// A number of bytes: "0", "500000", "64K", "512M", "4G", "1T", the letters
  /// for powers of 1024; nullopt if it was not given. Errors as number().
  llvm::Expected<std::optional<uint64_t>> bytes(llvm::StringRef name) const;
  /// The least and the greatest of a range of them: "512K..2G", above 0.
  llvm::Expected<std::optional<std::pair<uint64_t, uint64_t>>>
  bytesRange(llvm::StringRef name) const;

  bool wantsJson() const { return has("--json"); }

private:
  struct Given {
    std::string name, value;
  };
  std::vector<Given> given;
  std::vector<std::string> words;
};

/// The help of one command; \p problem, unless it is empty, is the problem of
/// its example.
std::string helpText(const CommandSpec &command, llvm::StringRef problem);

/// The one of \p known that \p word was probably meant to be, empty if none is
/// near.
llvm::StringRef nearest(llvm::StringRef word,
                        llvm::ArrayRef<llvm::StringRef> known);

} // namespace kiln::cli
