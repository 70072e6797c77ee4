//===- Hash.h - the hashes Kiln uses --------------------------------------===//
//
// Keys are named by SHA-256, contents are checked by BLAKE3, which is as strong
// and far cheaper. Neither is a signature: the ownership of the directory
// protects against a hostile writer. xxh3 tells versions of one thing apart
// where a collision gains nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace kiln {

/// A digest of SHA-256 or BLAKE3. Ordered and comparable; thread-safe as any
/// value.
struct Digest {
  std::array<uint8_t, 32> bytes{};

  /// 64 lower-case hexadecimal digits.
  std::string hex() const;
  friend bool operator==(const Digest &, const Digest &) = default;
  friend auto operator<=>(const Digest &, const Digest &) = default;
};

/// SHA-256 of \p bytes; about 4 us per KiB.
Digest strongHash(llvm::StringRef bytes);

/// BLAKE3 of all \p parts, one after another; below 1 us per KiB, and 0.2 us
/// where a part has many.
Digest contentHash(std::initializer_list<llvm::StringRef> parts);

/// xxh3-64 of \p bytes; about 0.1 us per KiB. A collision can be made on
/// purpose.
uint64_t quickHash(llvm::StringRef bytes);

} // namespace kiln
