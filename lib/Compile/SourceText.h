//===- SourceText.h - CUDA C++ texts without their prose ------------------===//
//
// A comment or a blank line changes no kernel, so neither may change the key of
// one. The rule that tells prose from tokens stands here, once, for embedded
// sources, for folders of an author, and for the texts of translation units. It
// uses the standard library alone: the build runs it too, in kiln_embed.
//
// A preprocessor sees the same tokens in the result as in the text, with blanks
// between the same tokens. Known are line splices (a backslash at the end of a
// line, anywhere), comments that a splice continues or begins, string,
// character and raw string literals, digit separators, and the names behind
// #include and in __has_include(), where // begins no comment.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// \p text without comments, and without blanks that separate nothing: a row of
/// blanks and comments becomes one blank, or nothing at either end of a line.
/// Every line stays where it was, so that a compiler's message names the right
/// one. Literals stay as they are. A comment or literal without an end stays,
/// for the compiler to refuse. Applied to its own result it changes nothing.
/// Some 10 ns a byte.
std::string withoutProse(std::string_view text);

/// As above for keys: lines without tokens are left out, and lines that a
/// splice continues are joined. Texts with equal key texts have the same
/// tokens, perhaps on other lines. A key text holds neither comments nor
/// splices outside of literals, so that a directive is on one line.
std::string keyText(std::string_view text);

/// Whether the code of \p text depends on the lines of its tokens: it names
/// __LINE__, __builtin_LINE, source_location or assert outside of comments. \p
/// text is of withoutProse() or keyText(). Not seen: a name that macros put
/// together.
bool dependsOnLines(std::string_view text);

} // namespace kiln
