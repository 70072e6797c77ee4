//===- Entry.cpp ----------------------------------------------------------===//
#include "Cache/Entry.h"

#include "Support/EnumName.h"
#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/Endian.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstring>

namespace kiln::cache {

using llvm::support::endian::read32le;
using llvm::support::endian::read64le;
using llvm::support::endian::write32le;
using llvm::support::endian::write64le;

// A byte over 127, a CR LF and an end-of-file mark: text-mode copies and
// seven-bit channels damage these first bytes already.
static constexpr llvm::StringLiteral kMagic("\x89KILN\r\n\x1a");
static_assert(kMagic.size() == 8);

// Offsets of the header's fields.
static constexpr size_t kVersionAt = 8, kHeaderLengthAt = 12, kKindAt = 16,
                        kKeyLengthAt = 20, kAttributeLengthAt = 24,
                        kFirstZeroAt = 28, kPayloadLengthAt = 32,
                        kSecondZeroAt = 40, kPayloadHashAt = 64,
                        kHeadHashAt = 96;
static constexpr size_t kHashBytes = sizeof(Digest::bytes);
static_assert(kHeadHashAt + kHashBytes == kHeaderBytes);

static constexpr llvm::StringLiteral kMac("mac");
static constexpr llvm::StringLiteral kMacPrefix("{\"mac\":\"");

llvm::StringRef nameOf(Kind kind) {
  using enum Kind;
  static constexpr EnumName<Kind> kNames[] = {
      {Artifact, "artifact"}, {Record, "record"},
      {Probe, "probe"},       {Portfolio, "portfolio"},
      {Pool, "pool"},         {Calibration, "calibration"}};
  return nameIn(kNames, kind, "unknown");
}

llvm::StringRef nameOf(EntryFault fault) {
  using enum EntryFault;
  static constexpr EnumName<EntryFault> kNames[] = {
      {None, "ok"},
      {Truncated, "truncated"},
      {TrailingBytes, "bytes after its end"},
      {NotAnEntry, "not a cache entry"},
      {OtherVersion, "another format version"},
      {BadHeader, "header field out of range"},
      {BadHeaderHash, "header does not match its hash"},
      {BadPayloadHash, "payload does not match its hash"},
      {BadAttributes, "attributes are no JSON object"},
      {BadMac, "malformed mac"},
      {OtherKind, "entry of another kind"},
      {OtherKey, "entry of another key"}};
  return nameIn(kNames, fault, "unknown");
}

bool isForeign(EntryFault fault) { return fault == EntryFault::OtherVersion; }

std::string fileNameOf(Kind kind, llvm::StringRef key) {
  return strongHash((nameOf(kind) + "\n" + key).str()).hex();
}

/// The hash over all that precedes the payload, without the hash itself.
static Digest headHash(llvm::StringRef head) {
  return contentHash(
      {head.take_front(kHeadHashAt), head.drop_front(kHeaderBytes)});
}

static Digest readHash(const char *at) {
  Digest digest;
  std::memcpy(digest.bytes.data(), at, kHashBytes);
  return digest;
}

static void writeHash(char *at, const Digest &digest) {
  std::memcpy(at, digest.bytes.data(), kHashBytes);
}

llvm::Expected<std::string> encodeEntry(Kind kind, llvm::StringRef key,
                                        const llvm::json::Object &attributes,
                                        llvm::StringRef payload) {
  std::string json;
  llvm::raw_string_ostream(json)
      << llvm::json::Value(llvm::json::Object(attributes));
  if (key.empty() || key.size() > kMaxKeyBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "a cache key of {} bytes, between 1 and {} are allowed",
                     key.size(), kMaxKeyBytes);
  if (attributes.get(kMac))
    return makeError(ErrorCode::InvalidArgument,
                     "the cache attribute '{}' is reserved", kMac);
  if (json.size() > kMaxAttributeBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "cache attributes of {} bytes, {} are allowed",
                     json.size(), kMaxAttributeBytes);
  if (payload.size() > kMaxPayloadBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "a cache payload of {} bytes, {} are allowed",
                     payload.size(), kMaxPayloadBytes);

  std::string bytes;
  bytes.reserve(kHeaderBytes + key.size() + json.size() + payload.size());
  bytes.resize(kHeaderBytes); // zero-filled
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  write32le(&bytes[kVersionAt], kFormatVersion);
  write32le(&bytes[kHeaderLengthAt], kHeaderBytes);
  write32le(&bytes[kKindAt], static_cast<uint32_t>(kind));
  write32le(&bytes[kKeyLengthAt], static_cast<uint32_t>(key.size()));
  write32le(&bytes[kAttributeLengthAt], static_cast<uint32_t>(json.size()));
  write64le(&bytes[kPayloadLengthAt], payload.size());
  writeHash(&bytes[kPayloadHashAt], contentHash({payload}));
  bytes += key;
  bytes += json;
  writeHash(&bytes[kHeadHashAt], headHash(bytes));
  bytes += payload;
  return bytes;
}

namespace {
/// The fixed fields as they stand in the file, unchecked.
struct Header {
  uint32_t version, headerBytes, kind, keyBytes, attributeBytes, firstZero;
  uint64_t payloadBytes;
  llvm::StringRef secondZero;
  Digest payloadHash, headHash;

  /// \p start has at least kHeaderBytes and outlives the header.
  static Header read(llvm::StringRef start) {
    const char *at = start.data();
    return {read32le(at + kVersionAt),
            read32le(at + kHeaderLengthAt),
            read32le(at + kKindAt),
            read32le(at + kKeyLengthAt),
            read32le(at + kAttributeLengthAt),
            read32le(at + kFirstZeroAt),
            read64le(at + kPayloadLengthAt),
            start.slice(kSecondZeroAt, kPayloadHashAt),
            readHash(at + kPayloadHashAt),
            readHash(at + kHeadHashAt)};
  }
};
} // namespace

uint64_t headBytes(llvm::StringRef start, uint64_t fileBytes) {
  uint64_t wanted = kHeaderBytes;
  if (start.size() >= kHeaderBytes) {
    Header header = Header::read(start);
    wanted += std::min<uint64_t>(header.keyBytes, kMaxKeyBytes);
    wanted += std::min<uint64_t>(header.attributeBytes, kMaxAttributeBytes);
  }
  return std::min(wanted, fileBytes);
}

static bool isKind(uint32_t value) {
  return llvm::any_of(kAllKinds, [&](Kind kind) {
    return static_cast<uint32_t>(kind) == value;
  });
}

/// Checks the fixed fields and that they add up to \p fileBytes.
static EntryFault checkHeader(const Header &header, uint64_t fileBytes) {
  if (header.version != kFormatVersion)
    return EntryFault::OtherVersion;
  if (header.headerBytes != kHeaderBytes || !isKind(header.kind) ||
      header.keyBytes == 0 || header.keyBytes > kMaxKeyBytes ||
      header.attributeBytes > kMaxAttributeBytes ||
      header.payloadBytes > kMaxPayloadBytes || header.firstZero != 0 ||
      header.secondZero.find_first_not_of('\0') != llvm::StringRef::npos)
    return EntryFault::BadHeader;
  // The limits above keep this sum far from overflow.
  uint64_t total = kHeaderBytes + header.keyBytes + header.attributeBytes +
                   header.payloadBytes;
  if (fileBytes != total)
    return fileBytes < total ? EntryFault::Truncated
                             : EntryFault::TrailingBytes;
  return EntryFault::None;
}

/// Whether \p text, attributes with the member \p mac, has it at the place and
/// in the form of the format.
static bool isMac(const llvm::json::Value &mac, llvm::StringRef text) {
  constexpr size_t kMacDigits = 2 * kHashBytes;
  if (!text.consume_front(kMacPrefix))
    return false;
  llvm::StringRef digits = text.take_front(kMacDigits);
  return digits.size() == kMacDigits &&
         digits.find_first_not_of("0123456789abcdef") ==
             llvm::StringRef::npos &&
         text.drop_front(kMacDigits).starts_with("\"") &&
         mac.getAsString() == digits;
}

EntryHead decodeHead(llvm::StringRef start, uint64_t fileBytes) {
  EntryHead head;
  auto fail = [&](EntryFault fault) {
    head.fault = fault;
    return std::move(head);
  };
  if (start.size() < kHeaderBytes)
    return fail(EntryFault::Truncated);
  if (!start.starts_with(kMagic))
    return fail(EntryFault::NotAnEntry);
  Header header = Header::read(start);
  if (EntryFault fault = checkHeader(header, fileBytes);
      fault != EntryFault::None)
    return fail(fault);

  // From here on the lengths agree with the size of the file.
  uint64_t attributesAt = kHeaderBytes + header.keyBytes;
  head.payloadOffset = attributesAt + header.attributeBytes;
  head.payloadBytes = header.payloadBytes;
  head.payloadHash = header.payloadHash;
  head.kind = static_cast<Kind>(header.kind);
  if (start.size() < head.payloadOffset)
    return fail(EntryFault::Truncated);
  if (headHash(start.take_front(head.payloadOffset)) != header.headHash)
    return fail(EntryFault::BadHeaderHash);

  head.key = start.substr(kHeaderBytes, header.keyBytes).str();
  llvm::StringRef text = start.substr(attributesAt, header.attributeBytes);
  auto json = parseJson(text, "attributes", kMaxAttributeBytes);
  if (!json) {
    llvm::consumeError(json.takeError());
    return fail(EntryFault::BadAttributes);
  }
  llvm::json::Object *object = json->getAsObject();
  if (!object)
    return fail(EntryFault::BadAttributes);
  if (const llvm::json::Value *mac = object->get(kMac)) {
    if (!isMac(*mac, text))
      return fail(EntryFault::BadMac);
    object->erase(kMac);
  }
  head.attributes = std::move(*object);
  return head;
}

DecodedEntry decodeEntry(std::string bytes, Kind kind,
                         std::optional<llvm::StringRef> key) {
  DecodedEntry decoded;
  EntryHead head = decodeHead(bytes, bytes.size());
  decoded.fault = head.fault;
  if (head.fault != EntryFault::None)
    return decoded;

  const llvm::StringRef payload =
      llvm::StringRef(bytes).drop_front(head.payloadOffset);
  if (contentHash({payload}) != head.payloadHash)
    decoded.fault = EntryFault::BadPayloadHash;
  else if (head.kind != kind)
    decoded.fault = EntryFault::OtherKind;
  else if (key && head.key != *key)
    decoded.fault = EntryFault::OtherKey;
  if (decoded.fault != EntryFault::None)
    return decoded;
  // In place: a large payload is not copied to fresh memory.
  bytes.erase(0, head.payloadOffset);
  decoded.entry = {std::move(head.key), std::move(head.attributes),
                   std::move(bytes)};
  return decoded;
}

} // namespace kiln::cache
