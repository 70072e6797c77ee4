//===- TokenLists.h - lists of token ids from a file ----------------------===//
#ifndef KILN_EXAMPLES_LLAMA_TOKENLISTS_H
#define KILN_EXAMPLES_LLAMA_TOKENLISTS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llama {

/// A list for each sequence.
using TokenLists = std::vector<std::vector<int32_t>>;

/// The lists in \p json, such as [[1, 2], [3]]: one list at least, and none is
/// empty. Throws Error, whose message begins with \p source, for others and for
/// ids outside of [0, \p vocabulary).
TokenLists parseTokenLists(std::string_view json, const std::string &source,
                           int64_t vocabulary);

/// Reads \p path.
TokenLists readTokenLists(const std::string &path, int64_t vocabulary);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_TOKENLISTS_H
