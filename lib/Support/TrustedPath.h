//===- TrustedPath.h - files that may be run ------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <optional>
#include <string>

namespace kiln {

/// Why code at \p path may come from other users. The path is relative, or a
/// file, folder or link of it belongs to another user than root and the
/// effective one, or others may write there. A path may lead through a folder
/// with the sticky bit (as /tmp), because others cannot replace our files
/// there. Groups are trusted where owners let them write. Nullopt: the path is
/// trusted, or nothing is there. Some 2 us a component.
std::optional<std::string> describeUntrusted(llvm::StringRef path);

} // namespace kiln
