//===- TranslationUnit.cpp ------------------------------------------------===//
#include "Compile/TranslationUnit.h"

#include "Compile/SourceText.h"
#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <cassert>
#include <mutex>
#include <optional>

namespace kiln {

/// Longest name of a unit or an entry.
static constexpr size_t kMaxNameBytes = 200;

/// Registers a thread may be limited to; ptxas takes no fewer than 16.
static constexpr unsigned kMinRegisters = 16, kMaxRegisters = 255;

/// -lineinfo makes the unit's name a file name in the cubin, and brings lines
/// there.
static constexpr llvm::StringLiteral kLineInfo = "-lineinfo";

/// \p text made printable and short, for a message about it.
static std::string quoted(llvm::StringRef text) {
  std::string result = "'";
  for (char c : text.take_front(80))
    result += llvm::isPrint(c) ? c : '?';
  return result + (text.size() > 80 ? "...'" : "'");
}

struct TranslationUnit::Shared {
  explicit Shared(UnitParts given) : parts(std::move(given)) {}

  const UnitParts parts;
  std::mutex mutex;
  std::optional<Digest> digest; ///< set once, under the mutex
};

TranslationUnit::TranslationUnit(UnitParts parts)
    : shared(std::make_shared<Shared>(std::move(parts))) {}

const UnitParts &TranslationUnit::parts() const {
  assert(shared && "the unit was moved from");
  return shared->parts;
}

const SourceClosure &TranslationUnit::headers() const {
  static const SourceClosure &kNone = *new SourceClosure; // never destroyed
  return parts().headers ? parts().headers->closureOf(source()) : kNone;
}

std::string TranslationUnit::canonicalText() const {
  std::vector<std::string> sorted = options().vec();
  llvm::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());

  // The number is raised when the fixed options of the compiler change.
  std::string text = "kiln translation unit 1\n";
  text += fmt::format("arch {}\nentry {}\n", arch(), entry());
  for (const std::string &option : sorted)
    text += fmt::format("option {}\n", option);
  if (llvm::is_contained(sorted, kLineInfo))
    text += fmt::format("name {}\n", name());
  const SourceClosure &reached = headers();
  const std::string tokens = keyText(source());
  const bool linesCount = llvm::is_contained(sorted, kLineInfo) ||
                          reached.asksForLines || dependsOnLines(tokens);
  const Digest &digest = linesCount ? reached.digestOfLines : reached.digest;
  text += fmt::format("headers {}\n", reached.isEmpty ? "-" : digest.hex());
  const std::string &counted = linesCount ? source() : tokens;
  text += fmt::format("source {}\n", counted.size());
  return text + counted;
}

const Digest &TranslationUnit::digest() const {
  assert(shared && "the unit was moved from");
  std::lock_guard<std::mutex> lock(shared->mutex);
  if (!shared->digest)
    shared->digest = strongHash(canonicalText());
  return *shared->digest;
}

llvm::Error checkOption(llvm::StringRef option) {
  static constexpr llvm::StringLiteral kAllowed[] = {
      kLineInfo, "--use_fast_math", "--fmad=true", "--fmad=false"};
  if (llvm::is_contained(kAllowed, option))
    return llvm::Error::success();
  llvm::StringRef number = option;
  unsigned registers = 0;
  // The digits are compared with their own value so that "+32" and "032" are
  // refused: one meaning has one spelling, and so one cache key.
  if (number.consume_front("--maxrregcount=") &&
      !number.getAsInteger(10, registers) && registers >= kMinRegisters &&
      registers <= kMaxRegisters && number == std::to_string(registers))
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument,
                   "compiler option {} is not allowed; allowed are -lineinfo, "
                   "--use_fast_math, --fmad=true|false and "
                   "--maxrregcount={}..{}",
                   quoted(option), kMinRegisters, kMaxRegisters);
}

llvm::Error checkArch(llvm::StringRef arch) {
  llvm::StringRef rest = arch;
  if (rest.consume_front("sm_")) {
    llvm::StringRef digits = rest.take_while(llvm::isDigit);
    llvm::StringRef suffix = rest.drop_front(digits.size());
    if ((digits.size() == 2 || digits.size() == 3) && digits[0] != '0' &&
        (suffix.empty() || suffix == "a" || suffix == "f"))
      return llvm::Error::success();
  }
  return makeError(ErrorCode::InvalidArgument,
                   "{} is no architecture; expected sm_NN, sm_NNa or sm_NNf",
                   quoted(arch));
}

static bool isBareName(llvm::StringRef name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         (llvm::isAlpha(name[0]) || name[0] == '_') &&
         llvm::all_of(name, [](char c) {
           return llvm::isAlnum(c) || c == '_' || c == '-' || c == '.';
         });
}

static bool isIdentifier(llvm::StringRef name) {
  return isBareName(name) && name.find_first_of("-.") == llvm::StringRef::npos;
}

llvm::Error validate(const TranslationUnit &unit) {
  if (!isBareName(unit.name()))
    return makeError(ErrorCode::InvalidArgument,
                     "{} is no bare name of a translation unit",
                     quoted(unit.name()));
  if (!isIdentifier(unit.entry()))
    return makeError(ErrorCode::InvalidArgument,
                     "entry {} of '{}' is no identifier", quoted(unit.entry()),
                     unit.name());
  if (unit.source().empty())
    return makeError(ErrorCode::InvalidArgument, "source of '{}' is empty",
                     unit.name());
  if (unit.source().find('\0') != std::string::npos)
    return makeError(ErrorCode::InvalidArgument,
                     "source of '{}' contains a NUL", unit.name());
  if (llvm::Error error = SourceSet::checkSource(unit.source()))
    return addContext(std::move(error),
                      fmt::format("source of '{}'", unit.name()));
  for (const std::string &option : unit.options())
    if (llvm::Error error = checkOption(option))
      return addContext(std::move(error), unit.name());
  return checkArch(unit.arch());
}

} // namespace kiln
