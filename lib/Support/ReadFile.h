//===- ReadFile.h - files that users name ---------------------------------===//
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringRef.h>
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

/// Reads the file \p path as above, whatever its length, and hands its bytes
/// to \p take in pieces of at most a MiB, which live for the call.
llvm::Error
readNamedPieces(const std::string &path,
                llvm::function_ref<void(llvm::StringRef piece)> take);

} // namespace kiln
