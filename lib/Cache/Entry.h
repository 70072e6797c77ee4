//===- Entry.h - the bytes of one cache entry -----------------------------===//
//
// One file an entry: a fixed header, the full key text, attributes as JSON and
// the payload. Every number is little-endian. Format version 1:
//
//   offset size
//        0    8  magic 89 'K' 'I' 'L' 'N' 0d 0a 1a
//        8    4  format version
//       12    4  header length, 128
//       16    4  kind
//       20    4  key length
//       24    4  attribute length
//       28    4  zero
//       32    8  payload length
//       40   24  zero
//       64   32  BLAKE3 of the payload
//       96   32  BLAKE3 of bytes 0 to 95, the key and the attributes
//      128       key, attributes, payload; nothing after them
//
// The second hash, the head's, covers each bit of a file except its own: the
// payload by way of the payload's hash. It is not a signature: owner and mode
// of the directory decide which users may write. The attributes come from the
// last writer; a reader ignores unknown ones.
//
// The attribute "mac" is reserved for writers and readers that share a key.
// This version writes none and, without a key, ignores one that is well-formed.
// It stands first: the attributes begin with {"mac":" and go on with 64 digits
// (0-9, a-f) and a quote. The digits are a BLAKE3, keyed with 32 bytes, of the
// same bytes as the head's hash, in which these 64 digits are '0' each. So it
// covers all except itself and the head's hash, which follows from the rest.
// Any other member "mac" of the attributes makes the entry damaged.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Support/Hash.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kiln::cache {

/// The contents of an entry. The values are part of the format.
enum class Kind : uint32_t {
  Artifact = 1,    ///< a cubin and the compiler's report on it
  Record = 2,      ///< the facts that trials found
  Probe = 4,       ///< a device's answers to slow questions
  Portfolio = 5,   ///< the kernels that serve a range, or a value
  Pool = 6,        ///< the kernels that serve a signature; pins artifacts
  Calibration = 7, ///< values that were measured on a device
};
inline constexpr Kind kAllKinds[] = {Kind::Artifact, Kind::Record,
                                     Kind::Probe,    Kind::Portfolio,
                                     Kind::Pool,     Kind::Calibration};
/// The attribute of a pool with the names, fileNameOf(), of the artifacts that
/// stay as long as the pool: an array of texts.
inline constexpr const char *kPinsAttribute = "pins";

/// "artifact", "record", ...: also the name of the kind's folder.
llvm::StringRef nameOf(Kind kind);

/// Whether several processes add to one entry, by Store::update(). One of them
/// may have been told that its update is stored, so a removal of the entry
/// takes the commit lock.
constexpr bool isMerged(Kind kind) {
  switch (kind) {
  case Kind::Record:
  case Kind::Portfolio:
    return true;
  case Kind::Artifact:
  case Kind::Probe:
  case Kind::Pool:
  case Kind::Calibration:
    return false;
  }
  return false;
}

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint64_t kHeaderBytes = 128;
inline constexpr uint64_t kMaxKeyBytes = 1u << 20;
inline constexpr uint64_t kMaxAttributeBytes = 1u << 20;
inline constexpr uint64_t kMaxPayloadBytes = 256u << 20;

/// One entry as its users see it: plain data.
struct Entry {
  std::string key;               ///< canonical text, any bytes, not empty
  llvm::json::Object attributes; ///< small facts, valid UTF-8
  std::string payload;
};

/// Why bytes are not the entry that was asked for. Every value but None is a
/// miss.
enum class EntryFault {
  None,
  Truncated,      ///< shorter than the header or than it declares
  TrailingBytes,  ///< longer than the header declares
  NotAnEntry,     ///< another magic: not a file of ours
  OtherVersion,   ///< an older or newer format
  BadHeader,      ///< a field out of its limits
  BadHeaderHash,  ///< header, key or attributes do not match their hash
  BadPayloadHash, ///< the payload does not match its hash
  BadAttributes,  ///< not a JSON object (a faulty writer)
  BadMac,         ///< not of the form or at the place that a mac has
  OtherKind,      ///< a valid entry of another kind
  OtherKey,       ///< a valid entry of another key
};
llvm::StringRef nameOf(EntryFault fault);

/// Whether the bytes may well be right for another version of the library and
/// must not be deleted.
bool isForeign(EntryFault fault);

/// The file name of an entry without its suffix: SHA-256 of kind and key in
/// hexadecimal.
std::string fileNameOf(Kind kind, llvm::StringRef key);

/// The bytes of an entry; the views are only read. Errors: InvalidArgument for
/// an empty key, an attribute "mac" and any part over the limits above.
llvm::Expected<std::string> encodeEntry(Kind kind, llvm::StringRef key,
                                        const llvm::json::Object &attributes,
                                        llvm::StringRef payload);

/// The part of an entry before its payload. A mac is not among the attributes:
/// no later entry may have it.
struct EntryHead {
  EntryFault fault = EntryFault::None;
  Kind kind = Kind::Artifact;
  std::string key;
  llvm::json::Object attributes;
  uint64_t payloadOffset = 0;
  uint64_t payloadBytes = 0;
  Digest payloadHash;
};

/// How many bytes of the file decodeHead() wants to see, given its first
/// kHeaderBytes (or fewer); at most \p fileBytes.
uint64_t headBytes(llvm::StringRef start, uint64_t fileBytes);

/// Checks and reads the head of a file of \p fileBytes from its first bytes
/// \p start (headBytes() of them). Nothing is allocated before every length
/// agrees with \p fileBytes.
EntryHead decodeHead(llvm::StringRef start, uint64_t fileBytes);

/// The outcome of decodeEntry(): entry is meaningful if fault is None.
struct DecodedEntry {
  EntryFault fault = EntryFault::None;
  Entry entry;
};

/// Checks all of \p bytes, a whole file; with \p key also that it is that
/// kind's entry of that key. About 30 us for 64 KiB.
DecodedEntry decodeEntry(std::string bytes, Kind kind,
                         std::optional<llvm::StringRef> key);

} // namespace kiln::cache
