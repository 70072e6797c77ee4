//===- Options.cpp --------------------------------------------------------===//
#include "cli/Options.h"

#include "cli/Console.h"

#include <llvm/ADT/StringExtras.h>

namespace kiln::cli {

/// Known to every command.
static constexpr OptionSpec kUniversal[] = {
    {"--json", nullptr, "print one JSON document instead of tables"},
    {"--help", nullptr, "print this"},
};

static const OptionSpec *findOption(const CommandSpec &command,
                                    llvm::StringRef name) {
  for (llvm::ArrayRef<OptionSpec> table :
       {command.options, llvm::ArrayRef<OptionSpec>(kUniversal)})
    for (const OptionSpec &option : table)
      if (name == option.name)
        return &option;
  return nullptr;
}

llvm::StringRef nearest(llvm::StringRef word,
                        llvm::ArrayRef<llvm::StringRef> known) {
  llvm::StringRef best;
  // More than a third of the letters wrong is another word.
  unsigned bestDistance = static_cast<unsigned>(word.size()) / 3 + 2;
  for (llvm::StringRef candidate : known) {
    unsigned distance = word.edit_distance(candidate);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best;
}

static llvm::Error unknownOption(const CommandSpec &command,
                                 llvm::StringRef name) {
  std::vector<llvm::StringRef> known;
  for (llvm::ArrayRef<OptionSpec> table :
       {command.options, llvm::ArrayRef<OptionSpec>(kUniversal)})
    for (const OptionSpec &option : table)
      known.push_back(option.name);
  llvm::StringRef meant = nearest(name, known);
  if (meant.empty())
    return makeError(ErrorCode::InvalidArgument,
                     "{}: unknown option '{}', see {} {} --help", command.name,
                     name, toolName(), command.name);
  return makeError(ErrorCode::InvalidArgument,
                   "{}: unknown option '{}', did you mean {}?", command.name,
                   name, meant);
}

llvm::Expected<ParsedOptions>
ParsedOptions::parse(const CommandSpec &command,
                     llvm::ArrayRef<llvm::StringRef> words) {
  ParsedOptions parsed;
  bool onlyOperands = false;
  for (size_t i = 0; i < words.size(); ++i) {
    llvm::StringRef word = words[i];
    if (word == "--" && !onlyOperands) {
      onlyOperands = true;
      continue;
    }
    if (onlyOperands || !word.starts_with("-")) {
      if (!*command.operands)
        return makeError(ErrorCode::InvalidArgument,
                         "{}: takes no operands, got '{}'", command.name, word);
      parsed.words.push_back(word.str());
      continue;
    }
    if (word == "-h")
      word = "--help";
    auto [name, attached] = word.split('=');
    bool isAttached = name.size() != word.size();
    const OptionSpec *option = findOption(command, name);
    if (!option)
      return unknownOption(command, name);
    if (!option->repeats && parsed.has(name) && name != "--help")
      return makeError(ErrorCode::InvalidArgument, "{}: {} is given twice",
                       command.name, name);
    if (!option->argument && isAttached)
      return makeError(ErrorCode::InvalidArgument, "{}: {} takes no value",
                       command.name, name);
    if (option->argument && !isAttached) {
      if (++i == words.size())
        return makeError(ErrorCode::InvalidArgument, "{}: {} needs a value, {}",
                         command.name, name, option->argument);
      attached = words[i];
    }
    parsed.given.push_back({name.str(), attached.str()});
  }
  return parsed;
}

bool ParsedOptions::has(llvm::StringRef name) const {
  return value(name).has_value();
}

std::optional<std::string> ParsedOptions::value(llvm::StringRef name) const {
  for (const Given &option : given)
    if (option.name == name)
      return option.value;
  return std::nullopt;
}

std::vector<std::string> ParsedOptions::values(llvm::StringRef name) const {
  std::vector<std::string> found;
  for (const Given &option : given)
    if (option.name == name)
      found.push_back(option.value);
  return found;
}

llvm::Expected<unsigned> ParsedOptions::number(llvm::StringRef name,
                                               unsigned otherwise,
                                               unsigned least,
                                               unsigned greatest) const {
  std::optional<std::string> text = value(name);
  if (!text)
    return otherwise;
  unsigned number;
  if (llvm::StringRef(*text).getAsInteger(10, number) || number < least ||
      number > greatest)
    return makeError(ErrorCode::InvalidArgument,
                     "{}={} is not a whole number from {} to {}", name, *text,
                     least, greatest);
  return number;
}

llvm::Expected<std::chrono::milliseconds>
ParsedOptions::duration(llvm::StringRef name,
                        std::chrono::milliseconds otherwise,
                        std::chrono::milliseconds longest) const {
  std::optional<std::string> text = value(name);
  if (!text)
    return otherwise;
  llvm::StringRef digits(*text);
  double unitMs = 0;
  // "ms" first: it ends in "s" too.
  if (digits.consume_back("ms"))
    unitMs = 1;
  else if (digits.consume_back("s"))
    unitMs = 1e3;
  else if (digits.consume_back("m"))
    unitMs = 60e3;
  else if (digits.consume_back("h"))
    unitMs = 3600e3;
  else if (digits.consume_back("d"))
    unitMs = 24 * 3600e3;
  double amount;
  const double longestMs = static_cast<double>(longest.count());
  if (unitMs == 0 || digits.getAsDouble(amount) || !(amount > 0) ||
      amount * unitMs < 1 || amount * unitMs > longestMs)
    return makeError(ErrorCode::InvalidArgument,
                     "{}={} is not a duration such as 500ms, 10s or 2m", name,
                     *text);
  return std::chrono::milliseconds(static_cast<int64_t>(amount * unitMs));
}

/// The bytes that \p digits stand for, as ParsedOptions::bytes() says.
static std::optional<uint64_t> parseBytes(llvm::StringRef digits) {
  unsigned shift = 0;
  if (digits.consume_back("K"))
    shift = 10;
  else if (digits.consume_back("M"))
    shift = 20;
  else if (digits.consume_back("G"))
    shift = 30;
  else if (digits.consume_back("T"))
    shift = 40;
  uint64_t amount;
  if (digits.getAsInteger(10, amount) || amount > (UINT64_MAX >> 1) >> shift)
    return std::nullopt;
  return amount << shift;
}

llvm::Expected<std::optional<uint64_t>>
ParsedOptions::bytes(llvm::StringRef name) const {
  std::optional<std::string> text = value(name);
  if (!text)
    return std::nullopt;
  std::optional<uint64_t> bytes = parseBytes(*text);
  if (!bytes)
    return makeError(ErrorCode::InvalidArgument,
                     "{}={} is not a size such as 500000, 512M or 4G", name,
                     *text);
  return bytes;
}

llvm::Expected<std::optional<std::pair<uint64_t, uint64_t>>>
ParsedOptions::bytesRange(llvm::StringRef name) const {
  std::optional<std::string> text = value(name);
  if (!text)
    return std::nullopt;
  auto [first, last] = llvm::StringRef(*text).split("..");
  std::optional<uint64_t> least = parseBytes(first), most = parseBytes(last);
  if (!least || !most || *least == 0 || *most < *least)
    return makeError(ErrorCode::InvalidArgument,
                     "{}={} is not a range of sizes such as 512K..2G", name,
                     *text);
  return std::pair(*least, *most);
}

/// \p text in lines of at most 80 columns, of which all but the first begin
/// with \p indent spaces.
static std::string wrapHelp(llvm::StringRef text, size_t indent) {
  std::string wrapped;
  size_t column = indent;
  for (llvm::StringRef word : llvm::split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > 80) {
      wrapped += fmt::format("\n{:{}}", "", indent);
      column = indent;
    } else if (column > indent) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

/// \p paragraph with \p problem in the place of PROBLEM.
static std::string exampleText(llvm::StringRef paragraph,
                               llvm::StringRef problem) {
  static constexpr llvm::StringLiteral kPlace = "PROBLEM";
  size_t at = paragraph.find(kPlace);
  if (problem.empty() || at == llvm::StringRef::npos)
    return paragraph.str();
  return (paragraph.take_front(at) + problem +
          paragraph.substr(at + kPlace.size()))
      .str();
}

std::string helpText(const CommandSpec &command, llvm::StringRef problem) {
  std::string text = fmt::format(
      "usage: {} {} [options]{}{}\n\n{}\n\n", toolName(), command.name,
      *command.operands ? " " : "", command.operands, command.summary);
  llvm::StringRef details = command.details;
  for (llvm::StringRef paragraph : llvm::split(details, "\n"))
    if (!details.empty()) // an example stays in one line
      text += (paragraph.starts_with("  ") ? exampleText(paragraph, problem)
                                           : wrapHelp(paragraph, 0)) +
              "\n\n";
  text += "options\n";
  std::vector<OptionSpec> all(command.options.begin(), command.options.end());
  all.insert(all.end(), std::begin(kUniversal), std::end(kUniversal));
  constexpr size_t kIndent = 22;
  for (const OptionSpec &option : all) {
    std::string spelling = option.name;
    if (option.argument)
      spelling += fmt::format(" {}", option.argument);
    // A long spelling has its line alone.
    if (spelling.size() + 4 > kIndent)
      spelling += fmt::format("\n{:{}}", "", kIndent);
    text += fmt::format("  {:<{}}{}\n", spelling, kIndent - 2,
                        wrapHelp(option.help, kIndent));
  }
  return text;
}

} // namespace kiln::cli
