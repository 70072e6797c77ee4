//===- Printable.h - text from outside, shown to people -------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <string>

namespace kiln {

/// \p text as a terminal may show it, on one line. Bytes that would steer a
/// terminal or forge a line become escapes such as "\x1b": control characters
/// (line breaks, DEL and C1 among them), characters that change the direction
/// of text, and bytes that are not UTF-8.
std::string printable(llvm::StringRef text);

/// As above for text of several lines: its line breaks stay.
std::string printableLines(llvm::StringRef text);

} // namespace kiln
