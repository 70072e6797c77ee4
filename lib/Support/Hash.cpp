//===- Hash.cpp -----------------------------------------------------------===//
#include "Support/Hash.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>
#include <llvm/Support/SHA256.h>
#include <llvm/Support/xxhash.h>

namespace kiln {

static llvm::ArrayRef<uint8_t> toBytes(llvm::StringRef text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::string Digest::hex() const {
  return llvm::toHex(bytes, /*LowerCase=*/true);
}

Digest strongHash(llvm::StringRef bytes) {
  return {llvm::SHA256::hash(toBytes(bytes))};
}

Digest contentHash(std::initializer_list<llvm::StringRef> parts) {
  llvm::BLAKE3 hasher;
  for (llvm::StringRef part : parts)
    hasher.update(part);
  return {hasher.final()};
}

uint64_t quickHash(llvm::StringRef bytes) {
  return llvm::xxh3_64bits(toBytes(bytes));
}

} // namespace kiln
