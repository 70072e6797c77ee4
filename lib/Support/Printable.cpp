//===- Printable.cpp ------------------------------------------------------===//
#include "Support/Printable.h"

#include "Support/Format.h"

#include <llvm/Support/ConvertUTF.h>

namespace kiln {

/// Whether a terminal may take \p character for more than a sign to show.
static bool isHarmful(llvm::UTF32 character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
         // Directions, which show text in another order than it has.
         character == 0x061c || character == 0x200e || character == 0x200f ||
         (character >= 0x2028 && character <= 0x202e) ||
         (character >= 0x2066 && character <= 0x2069);
}

/// Takes a character off \p text; its bytes, and whether they may be shown.
static std::pair<llvm::StringRef, bool> takeCharacter(llvm::StringRef &text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  const llvm::UTF8 *next = begin;
  llvm::UTF32 character = 0;
  bool isGood =
      llvm::convertUTF8Sequence(&next, begin + text.size(), &character,
                                llvm::strictConversion) == llvm::conversionOK;
  size_t bytes = isGood ? static_cast<size_t>(next - begin) : 1;
  llvm::StringRef taken = text.take_front(bytes);
  text = text.drop_front(bytes);
  return {taken, isGood && !isHarmful(character)};
}

std::string printable(llvm::StringRef text) {
  std::string shown;
  while (!text.empty()) {
    auto [bytes, isShown] = takeCharacter(text);
    if (isShown)
      shown += bytes;
    else
      for (char byte : bytes)
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return shown;
}

std::string printableLines(llvm::StringRef text) {
  std::string shown;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    shown += printable(line);
    if (line.size() < text.size())
      shown += '\n';
    text = rest;
  }
  return shown;
}

} // namespace kiln
