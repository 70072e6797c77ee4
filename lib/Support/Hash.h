//===- Hash.h - the two hashes Kiln uses ----------------------------------===//
//
// Keys are named by SHA-256, the only strong hash in every supported LLVM.
// Payloads are checked against bit rot by xxh3, which costs microseconds.
// Neither is a signature: what protects against a hostile writer is who owns
// the directory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <array>
#include <cstdint>
#include <string>

namespace kiln {

/// A SHA-256 digest. Ordered and comparable; thread-safe as any value.
struct Digest {
  std::array<uint8_t, 32> bytes{};

  /// 64 lower-case hexadecimal digits.
  std::string hex() const;
  friend bool operator==(const Digest &, const Digest &) = default;
  friend auto operator<=>(const Digest &, const Digest &) = default;
};

/// SHA-256 of \p bytes; about 4 us per KiB.
Digest strongHash(llvm::StringRef bytes);

/// xxh3-64 of \p bytes, for bit rot only; about 0.1 us per KiB.
uint64_t payloadHash(llvm::StringRef bytes);

} // namespace kiln
