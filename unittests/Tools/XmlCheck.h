//===- XmlCheck.h - is it XML? --------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <string>
#include <vector>

namespace kiln::testing {

/// Whether \p text is XML: elements nest, and no sign stands where it would be
/// read as another.
inline bool isWellFormed(llvm::StringRef text) {
  std::vector<std::string> open;
  text.consume_front("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  text.consume_front("<!DOCTYPE html>\n");
  while (!text.empty()) {
    auto [content, rest] = text.split('<');
    for (llvm::StringRef left = content; left.contains('&');) {
      left = left.split('&').second;
      llvm::StringRef entity = left.split(';').first;
      if (entity != "amp" && entity != "lt" && entity != "gt" &&
          entity != "quot")
        return false;
    }
    if (content.contains('>') || rest.empty())
      return open.empty() && rest.empty() && !content.contains('>');
    auto [tag, behind] = rest.split('>');
    text = behind;
    if (tag.count('"') % 2 != 0 || tag.contains('<'))
      return false;
    if (tag.consume_front("/")) {
      if (open.empty() || open.back() != tag)
        return false;
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(tag.split(' ').first.str());
    }
  }
  return open.empty();
}

} // namespace kiln::testing
