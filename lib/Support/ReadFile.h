//===- ReadFile.h - files that users name ---------------------------------===//
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

namespace kiln {

/// Reads the whole file \p path: a plain file, or a pipe, for whose writer it
/// waits. It takes at most \p maxBytes, whatever the file's size is said to be
/// or becomes. The file is not mapped: one that is cut meanwhile is a shorter
/// text. Errors (InvalidArgument, because the caller named the file): it is of
/// another kind, cannot be read, or is larger.
llvm::Expected<std::string> readNamedFile(const std::string &path,
                                          uint64_t maxBytes);

} // namespace kiln
