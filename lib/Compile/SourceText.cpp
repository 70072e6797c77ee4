//===- SourceText.cpp -----------------------------------------------------===//
//
// One pass over the text. Between two tokens of a logical line only two things
// are remembered: whether a blank is due, and how many ends of lines were
// passed, by splices and by comments. Before a token behind others both are
// written: the ends of lines as splices, since a real one would end a directive
// or begin one. Where the line has no token yet, and at its end, they are plain
// empty lines.
//
//===----------------------------------------------------------------------===//
#include "Compile/SourceText.h"

#include <algorithm>
#include <array>

namespace kiln {

/// A carriage return is one where no newline follows.
static bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

static bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Bytes of other alphabets are letters.
static bool isWordCharacter(char c) {
  static constexpr std::array<bool, 256> kTable = [] {
    std::array<bool, 256> table{};
    for (unsigned i = 0; i < table.size(); ++i)
      table[i] = (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z') ||
                 (i >= '0' && i <= '9') || i == '_' || i == '$' || i >= 0x80;
    return table;
  }();
  return kTable[static_cast<unsigned char>(c)];
}

namespace {

class ProseFilter {
public:
  ProseFilter(std::string_view text, bool keepsLines)
      : text(text), keepsLines(keepsLines) {
    result.reserve(text.size());
  }

  std::string run();

private:
  /// The kind of the line's tokens so far: behind some, angle brackets enclose
  /// a name.
  enum class Line {
    Empty,
    Percent, ///< the first half of "%:", which is another spelling of "#"
    Hash,
    Include,
    HasInclude,
    HasIncludeOpen,
    Code
  };

  char at(size_t place) const { return place < text.size() ? text[place] : 0; }
  size_t newlineAt(size_t place) const;
  size_t spliceAt(size_t place) const;
  size_t pastSplices(size_t place, int *lines = nullptr) const;
  char next(size_t place) const { return at(pastSplices(place)); }

  void flush();
  void copy(size_t count);
  void keepBackslash();
  void endLine(size_t width);
  void skipLineComment();
  bool skipBlockComment();
  void copyWord();
  void copyNumber();
  void copyQuoted(char quote);
  void copyRaw();
  bool copyHeaderName();
  void copyOther();
  void readWord(std::string_view word);

  std::string_view text;
  bool keepsLines;
  std::string result;
  size_t place = 0;
  bool blankIsDue = false;
  int linesDue = 0;
  Line line = Line::Empty;
};

/// The width of the end of a line at \p place, 0 without one.
size_t ProseFilter::newlineAt(size_t place) const {
  if (at(place) == '\n')
    return 1;
  return at(place) == '\r' && at(place + 1) == '\n' ? 2 : 0;
}

size_t ProseFilter::spliceAt(size_t place) const {
  if (at(place) != '\\')
    return 0;
  size_t width = newlineAt(place + 1);
  return width ? width + 1 : 0;
}

size_t ProseFilter::pastSplices(size_t place, int *lines) const {
  while (size_t width = spliceAt(place)) {
    place += width;
    if (lines)
      ++*lines;
  }
  return place;
}

/// Writes the blanks and ends of lines that are due before a token.
void ProseFilter::flush() {
  const bool isFirst = line == Line::Empty;
  if (blankIsDue && !isFirst)
    result += ' ';
  for (; keepsLines && linesDue > 0; --linesDue)
    result += isFirst ? "\n" : "\\\n";
  blankIsDue = false;
  linesDue = 0;
  if (isFirst)
    line = Line::Code;
}

void ProseFilter::copy(size_t count) {
  result.append(text, place, count);
  place += count;
}

/// Before the end of a line: a backslash that a blank or a comment followed was
/// no splice, and becomes none.
void ProseFilter::keepBackslash() {
  if (line != Line::Empty && result.back() == '\\')
    result += ' ';
}

void ProseFilter::endLine(size_t width) {
  const bool isEmpty = line == Line::Empty;
  keepBackslash();
  if (keepsLines)
    result.append(static_cast<size_t>(linesDue) + 1, '\n');
  else if (!isEmpty)
    result += '\n';
  blankIsDue = false;
  linesDue = 0;
  line = Line::Empty;
  place += width;
}

void ProseFilter::skipLineComment() {
  while (true) {
    place = std::min(text.find('\n', place), text.size());
    const bool isWindows = text[place - 1] == '\r';
    const size_t last = place - (isWindows ? 2 : 1);
    if (place == text.size() || text[last] != '\\')
      break;
    ++linesDue;
    ++place;
  }
  if (place < text.size() && text[place - 1] == '\r')
    --place; // a part of the line's end
  blankIsDue = true;
}

/// False: it has no end.
bool ProseFilter::skipBlockComment() {
  size_t end = pastSplices(place + 1) + 1;
  while (end < text.size() && !(text[end] == '*' && next(end + 1) == '/'))
    ++end;
  if (end >= text.size())
    return false;
  end = pastSplices(end + 1) + 1;
  linesDue += static_cast<int>(
      std::count(text.begin() + static_cast<std::ptrdiff_t>(place),
                 text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  place = end;
  blankIsDue = true;
  return true;
}

/// Copies \p quote ... \p quote, or the text up to the line's end.
void ProseFilter::copyQuoted(char quote) {
  size_t end = place + 1;
  while (end < text.size() && text[end] != quote) {
    if (size_t width = spliceAt(end)) {
      end += width;
      continue;
    }
    if (newlineAt(end)) {
      while (text[end - 1] == '\r')
        --end;
      return copy(end - place);
    }
    end = text[end] == '\\' ? pastSplices(end + 1) + 1 : end + 1;
  }
  copy(std::min(end + 1, text.size()) - place);
}

/// At the quote behind an R.
void ProseFilter::copyRaw() {
  const size_t open = text.find_first_of("() \t\v\f\r\n\\\"", place + 1);
  if (at(open) != '(')
    return copyQuoted('"'); // the compiler refuses it
  std::string close = ")";
  close += text.substr(place + 1, open - place - 1);
  close += '"';
  const size_t end = text.find(close, open);
  copy((end == std::string_view::npos ? text.size() : end + close.size()) -
       place);
}

/// Notes what the word tells about its line.
void ProseFilter::readWord(std::string_view word) {
  static constexpr std::array<std::string_view, 4> kIncludes = {
      "include", "include_next", "import", "embed"};
  if (line == Line::Hash &&
      std::find(kIncludes.begin(), kIncludes.end(), word) != kIncludes.end())
    line = Line::Include;
  else if (word.starts_with("__has_") &&
           (word == "__has_include" || word == "__has_include_next" ||
            word == "__has_embed"))
    line = Line::HasInclude;
  else
    line = Line::Code;
}

/// A word, and the literal that it may be the prefix of.
void ProseFilter::copyWord() {
  static constexpr std::array<std::string_view, 5> kRaw = {"R", "LR", "uR",
                                                           "UR", "u8R"};
  flush();
  std::string word;
  while (true) {
    size_t end = place;
    while (isWordCharacter(at(end)))
      ++end;
    word += text.substr(place, end - place);
    copy(end - place);
    int lines = 0;
    end = pastSplices(place, &lines);
    if (end == place || !isWordCharacter(at(end)))
      break;
    for (; keepsLines && lines > 0; --lines)
      result += "\\\n";
    place = end;
  }
  readWord(word);
  if (next(place) == '"' &&
      std::find(kRaw.begin(), kRaw.end(), word) != kRaw.end()) {
    linesDue = 0;
    place = pastSplices(place, &linesDue);
    flush();
    copyRaw();
  }
}

/// A number: digits, letters, dots, separators, signs of exponents.
void ProseFilter::copyNumber() {
  flush();
  line = Line::Code;
  char last = 0;
  while (true) {
    int lines = 0;
    const size_t end = pastSplices(place, &lines);
    const char c = at(end);
    const bool isSign = (c == '+' || c == '-') && (last == 'e' || last == 'E' ||
                                                   last == 'p' || last == 'P');
    const bool isSeparator = c == '\'' && isWordCharacter(next(end + 1));
    if (!isWordCharacter(c) && c != '.' && !isSign && !isSeparator)
      break;
    for (; keepsLines && lines > 0; --lines)
      result += "\\\n";
    place = end;
    last = c;
    copy(1);
  }
}

/// "<a//b>" where the line allows it. False: there is no such name here.
bool ProseFilter::copyHeaderName() {
  if (line != Line::Include && line != Line::HasIncludeOpen)
    return false;
  size_t end = place;
  while (end < text.size() && text[end] != '>' && !newlineAt(end))
    end += std::max<size_t>(spliceAt(end), 1);
  if (at(end) != '>')
    return false;
  flush();
  copy(end + 1 - place);
  line = Line::Code;
  return true;
}

void ProseFilter::copyOther() {
  const char c = text[place];
  const Line before = line;
  flush();
  if (c == '"' || c == '\'') {
    copyQuoted(c);
    line = Line::Code;
    return;
  }
  if (before == Line::Empty && c == '%' && next(place + 1) == ':')
    line = Line::Percent;
  else if ((before == Line::Empty && c == '#') ||
           (before == Line::Percent && c == ':'))
    line = Line::Hash;
  else if (before == Line::HasInclude && c == '(')
    line = Line::HasIncludeOpen;
  else
    line = Line::Code;
  copy(1);
}

std::string ProseFilter::run() {
  while (place < text.size()) {
    const char c = text[place];
    if (size_t width = newlineAt(place)) {
      endLine(width);
    } else if (isBlank(c)) {
      blankIsDue = true;
      ++place;
    } else if (size_t width = spliceAt(place)) {
      ++linesDue;
      place += width;
    } else if (c == '/' && next(place + 1) == '/') {
      skipLineComment();
    } else if (c == '/' && next(place + 1) == '*') {
      if (!skipBlockComment()) {
        flush();
        copy(text.size() - place);
      }
    } else if (isDigit(c) || (c == '.' && isDigit(next(place + 1)))) {
      copyNumber();
    } else if (isWordCharacter(c)) {
      copyWord();
    } else if (c != '<' || !copyHeaderName()) {
      copyOther();
    }
  }
  keepBackslash();
  if (keepsLines)
    result.append(static_cast<size_t>(linesDue), '\n');
  else if (!result.empty() && result.back() == '\n')
    result.pop_back(); // as where the last line has no end
  return std::move(result);
}

} // namespace

std::string withoutProse(std::string_view text) {
  return ProseFilter(text, /*keepsLines=*/true).run();
}

std::string keyText(std::string_view text) {
  return ProseFilter(text, /*keepsLines=*/false).run();
}

bool dependsOnLines(std::string_view text) {
  for (std::string_view word :
       {"__LINE__", "__builtin_LINE", "source_location", "assert"})
    for (size_t found = text.find(word); found != std::string_view::npos;
         found = text.find(word, found + 1)) {
      const size_t end = found + word.size();
      const bool begins = found == 0 || !isWordCharacter(text[found - 1]);
      const bool ends = end == text.size() || !isWordCharacter(text[end]);
      if (begins && ends)
        return true;
    }
  return false;
}

} // namespace kiln
