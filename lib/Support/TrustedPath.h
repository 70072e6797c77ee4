//===- TrustedPath.h - whose files may be run -----------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <optional>
#include <string>

namespace kiln {

/// Why code at \p path may come from other users: it is relative, or the file,
/// a folder or a link on the way to it belongs to another user than root and
/// the effective one, or others may write to it. In a folder with the sticky
/// bit (as /tmp) others cannot replace what is ours, so such a folder may be on
/// the way. Groups are trusted with what owners let them write. Nullopt: none
/// of that, or nothing is there. Some 2 us a component.
std::optional<std::string> describeUntrusted(llvm::StringRef path);

} // namespace kiln
