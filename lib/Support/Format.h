//===- Format.h - fmt for LLVM's string types -----------------------------===//
#pragma once

#include <fmt/format.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/ADT/StringRef.h>

template <> struct fmt::formatter<llvm::StringRef> : formatter<string_view> {
  template <class Context> auto format(llvm::StringRef s, Context &ctx) const {
    return formatter<string_view>::format({s.data(), s.size()}, ctx);
  }
};

template <unsigned N>
struct fmt::formatter<llvm::SmallString<N>> : formatter<llvm::StringRef> {
  template <class Context>
  auto format(const llvm::SmallString<N> &s, Context &ctx) const {
    return formatter<llvm::StringRef>::format(s.str(), ctx);
  }
};
