#include "Cache/Entry.h"

#include "Cache/StoreTesting.h"
#include "Support/Error.h"
#include "Support/Hash.h"

#include <doctest/doctest.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/Endian.h>

using namespace kiln;
using namespace kiln::cache;
using namespace kiln::cache::testing;

static const llvm::json::Object kEntryAttributes{{"toolchain", "13.0"},
                                                 {"registers", 128}};

static std::string encode(llvm::StringRef key, llvm::StringRef payload,
                          Kind kind = Kind::Artifact) {
  auto bytes = encodeEntry(kind, key, kEntryAttributes, payload);
  REQUIRE(bool(bytes));
  return std::move(*bytes);
}

/// An artifact of the key "k" without payload.
static std::string withText(llvm::StringRef json) {
  return withAttributes(encode("k", ""), json);
}

static EntryFault faultOf(llvm::StringRef bytes,
                          std::optional<llvm::StringRef> key = "the key") {
  return decodeEntry(bytes.str(), Kind::Artifact, key).fault;
}

TEST_CASE("an entry is read as it was written") {
  for (size_t bytes : {0, 1, 63, 65536, 1000000})
    for (Kind kind : kAllKinds) {
      std::string payload = makePayload(7, std::max<size_t>(bytes, 4));
      payload.resize(bytes);
      std::string key("a key\n\0\xff with any bytes", 24);
      DecodedEntry decoded =
          decodeEntry(encode(key, payload, kind), kind, llvm::StringRef(key));
      REQUIRE(decoded.fault == EntryFault::None);
      CHECK(decoded.entry.key == key);
      CHECK(decoded.entry.payload == payload);
      CHECK(decoded.entry.attributes == kEntryAttributes);
    }
}

// Every cache on every disk depends on these bytes: a change of format needs a
// new kFormatVersion, not a new expectation.
TEST_CASE("the bytes of format version 1") {
  auto bytes =
      encodeEntry(Kind::Record, "key", llvm::json::Object{{"a", 1}}, "payload");
  REQUIRE(bool(bytes));
  std::string expected("\x89KILN\r\n\x1a"
                       "\1\0\0\0"
                       "\x80\0\0\0"
                       "\2\0\0\0"
                       "\3\0\0\0"
                       "\7\0\0\0"
                       "\0\0\0\0"
                       "\7\0\0\0\0\0\0\0",
                       40);
  expected.resize(64); // zeros
  CHECK(bytes->substr(0, 64) == expected);
  // From another implementation of BLAKE3.
  CHECK(llvm::toHex(bytes->substr(64, 32), /*LowerCase=*/true) ==
        "ec90915fa26ab012a89a88ecc8b47e4dd76c4adfd6abd1fc10e321b0fca18d1d");
  CHECK(llvm::toHex(bytes->substr(96, 32), /*LowerCase=*/true) ==
        "4f17c4bb65447a7bf021719a8232243f6d2031b4d6411fc5871965e7c6b6ad03");
  CHECK(bytes->substr(128) == "key{\"a\":1}payload");
  CHECK(fileNameOf(Kind::Record, "key") == strongHash("record\nkey").hex());
}

TEST_CASE("what the format cannot hold is refused") {
  auto refused = [](llvm::StringRef key, const llvm::json::Object &attributes) {
    auto bytes = encodeEntry(Kind::Artifact, key, attributes, "");
    return !bytes &&
           summarize(bytes.takeError()).code == ErrorCode::InvalidArgument;
  };
  CHECK(refused("", {}));
  CHECK(refused("k", llvm::json::Object{{"mac", std::string(64, '0')}}));
  CHECK(refused(std::string(kMaxKeyBytes + 1, 'k'), {}));
  CHECK(refused(
      "k", llvm::json::Object{{"a", std::string(kMaxAttributeBytes, 'a')}}));
}

TEST_CASE("fault 1: truncated at every length") {
  std::string payload = makePayload(1, 20000);
  std::string bytes = encode("the key", payload);
  size_t payloadAt = bytes.size() - payload.size();
  for (size_t length = 0; length <= payloadAt + 16; ++length)
    CHECK(faultOf(llvm::StringRef(bytes).take_front(length)) ==
          EntryFault::Truncated);
  std::mt19937 random(1);
  for (int i = 0; i < 32; ++i)
    CHECK(faultOf(llvm::StringRef(bytes).take_front(
              payloadAt + random() % payload.size())) == EntryFault::Truncated);
}

TEST_CASE("fault 2: every flipped bit of the head, 10000 of the payload") {
  std::string payload = makePayload(2, 65536);
  std::string bytes = encode("the key", payload);
  size_t payloadAt = bytes.size() - payload.size();
  int accepted = 0;
  auto flip = [&](size_t bit) {
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    accepted += faultOf(bytes) == EntryFault::None;
    accepted += faultOf(bytes, std::nullopt) == EntryFault::None;
    bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
  };
  for (size_t bit = 0; bit < payloadAt * 8; ++bit)
    flip(bit);
  std::mt19937 random(2);
  for (int i = 0; i < 10000; ++i)
    flip(payloadAt * 8 + random() % (payload.size() * 8));
  CHECK(accepted == 0);
  CHECK(faultOf(bytes) == EntryFault::None);
}

TEST_CASE("fault 3: appended bytes, zeros of the right size") {
  std::string bytes = encode("the key", makePayload(3, 5000));
  CHECK(faultOf(bytes + '\0') == EntryFault::TrailingBytes);
  CHECK(faultOf(bytes + bytes) == EntryFault::TrailingBytes);
  CHECK(faultOf(std::string(bytes.size(), '\0')) == EntryFault::NotAnEntry);
  // A power cut may leave a prefix and zeros behind it.
  for (size_t kept : {4096u, 128u, 200u})
    CHECK(faultOf(bytes.substr(0, kept) +
                  std::string(bytes.size() - kept, '\0')) != EntryFault::None);
}

TEST_CASE("fault 4: declared sizes are checked before anything is allocated") {
  std::string good = encode("the key", "");
  auto withSizes = [&](uint32_t key, uint32_t attributes, uint64_t payload) {
    std::string bytes = good;
    llvm::support::endian::write32le(&bytes[20], key);
    llvm::support::endian::write32le(&bytes[24], attributes);
    llvm::support::endian::write64le(&bytes[32], payload);
    return faultOf(withHeadHash(bytes));
  };
  std::string reserved = good;
  reserved[63] = 1;
  CHECK(faultOf(withHeadHash(reserved)) == EntryFault::BadHeader);
  CHECK(withSizes(7, 2, 1ull << 63) == EntryFault::BadHeader);
  CHECK(withSizes(7, 2, ~0ull) == EntryFault::BadHeader);
  CHECK(withSizes(~0u, 2, 7) == EntryFault::BadHeader);
  CHECK(withSizes(7, ~0u, 7) == EntryFault::BadHeader);
  CHECK(withSizes(0, 2, 7) == EntryFault::BadHeader);
  CHECK(withSizes(kMaxKeyBytes, 2, 7) == EntryFault::Truncated);
  CHECK(withSizes(7, 2, kMaxPayloadBytes) == EntryFault::Truncated);
}

TEST_CASE("fault 5: another format version is foreign, not damage") {
  for (uint32_t version : {0u, 2u, 1000u}) {
    std::string bytes = encode("the key", "payload");
    llvm::support::endian::write32le(&bytes[8], version);
    CHECK(faultOf(bytes) == EntryFault::OtherVersion);
    CHECK(isForeign(faultOf(bytes)));
  }
  CHECK_FALSE(isForeign(EntryFault::NotAnEntry));
}

TEST_CASE("fault 6: the entry of another key or kind") {
  std::string bytes = encode("the key", "payload");
  CHECK(faultOf(bytes, "another key") == EntryFault::OtherKey);
  CHECK(decodeEntry(bytes, Kind::Record, "the key").fault ==
        EntryFault::OtherKind);
  CHECK(faultOf(bytes, std::nullopt) == EntryFault::None);
}

TEST_CASE("attributes must be an object, also from a faulty writer") {
  for (llvm::StringRef json : {"[]", "{", "", "nul", "{}{}"}) {
    CHECK(faultOf(withText(json), "k") == EntryFault::BadAttributes);
  }
}

TEST_CASE("a mac has one place and one form, and is no attribute") {
  const std::string digits(64, 'a');
  auto withMac = [&](const std::string &mac, const std::string &rest = "") {
    return "{\"mac\":" + mac + rest + "}";
  };
  auto faultWith = [](const std::string &json) {
    return faultOf(withText(json), "k");
  };
  const std::string good = "\"" + digits + "\"";
  for (const char *rest : {"", ",\"a\":1", " , \"b\":{\"mac\":7}"})
    CHECK(faultWith(withMac(good, rest)) == EntryFault::None);
  DecodedEntry decoded =
      decodeEntry(withText(withMac(good, ",\"a\":1")), Kind::Artifact, "k");
  CHECK(decoded.entry.attributes == llvm::json::Object{{"a", 1}});

  std::string upper = good, odd = good;
  upper[1] = 'A';
  odd[64] = 'g';
  for (const std::string &value :
       {std::string("\"\""), "\"" + digits.substr(1) + "\"",
        "\"" + digits + "a\"", upper, odd, std::string("7"),
        std::string("null"), "[" + good + "]", " " + good,
        "\"\\u0061" + digits.substr(1) + "\""})
    CHECK_MESSAGE(faultWith(withMac(value)) == EntryFault::BadMac, value);
  for (const std::string &json :
       {"{\"a\":1,\"mac\":" + good + "}", "{ \"mac\":" + good + "}",
        "{\"mac\" :" + good + "}", "{\"m\\u0061c\":" + good + "}",
        withMac(good, ",\"mac\":\"" + std::string(64, 'b') + "\"")})
    CHECK_MESSAGE(faultWith(json) == EntryFault::BadMac, json);
  CHECK_FALSE(isForeign(EntryFault::BadMac));
}

TEST_CASE("the head is enough to describe an entry") {
  std::string bytes = encode("the key", makePayload(4, 9000));
  uint64_t wanted =
      headBytes(llvm::StringRef(bytes).take_front(128), bytes.size());
  CHECK(wanted == bytes.size() - 9000);
  EntryHead head =
      decodeHead(llvm::StringRef(bytes).take_front(wanted), bytes.size());
  CHECK(head.fault == EntryFault::None);
  CHECK(head.key == "the key");
  CHECK(head.payloadBytes == 9000);
  CHECK(decodeHead(llvm::StringRef(bytes).take_front(wanted - 1), bytes.size())
            .fault == EntryFault::Truncated);
}
