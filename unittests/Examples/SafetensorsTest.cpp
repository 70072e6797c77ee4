#include "llama/Safetensors.h"

#include "Examples/SafetensorsFixture.h"
#include "llama/Error.h"

#include <doctest/doctest.h>

using namespace llama;
using namespace llama::testing;

namespace {

SafetensorsHeader parseBytes(const std::string &file) {
  return parseSafetensors(reinterpret_cast<const std::byte *>(file.data()),
                          file.size(), "file");
}

void refuseBytes(const std::string &file, const char *message) {
  CHECK_THROWS_WITH_AS(parseBytes(file), doctest::Contains(message), Error);
}

/// The header \p json with \p dataBytes bytes of data is refused.
void refuseHeader(const std::string &json, uint64_t dataBytes,
                  const char *message) {
  CAPTURE(json);
  refuseBytes(safetensorsBytes(json, dataBytes), message);
}

/// An entry of eight bytes, of which \p part replaces the rest of the object.
std::string entry(const std::string &part) { return "{\"a\": {" + part + "}}"; }

} // namespace

TEST_CASE("tensors of a file, with padding, metadata and empty shapes") {
  const auto header = parseBytes(safetensorsBytes(
      R"({"__metadata__": {"format": "pt"},
          "b": {"dtype": "F32", "shape": [], "data_offsets": [6, 10]},
          "none": {"dtype": "I64", "shape": [0, 9], "data_offsets": [6, 6]},
          "a": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [0, 6]}}    )",
      10));
  CHECK(header.metadata.at("format") == "pt");
  REQUIRE(header.entries.size() == 3);
  CHECK(header.entries.at("a").shape == std::vector<int64_t>{1, 3});
  CHECK(header.entries.at("a").dtype == DType::BF16);
  CHECK(header.entries.at("b").shape.empty());
  CHECK(header.entries.at("b").begin == 6);
  CHECK(header.entries.at("none").end == 6);
  CHECK(parseBytes(safetensorsBytes("{}", 0)).entries.empty());
}

TEST_CASE("every type has its size") {
  for (const auto &[name, bits] :
       {std::pair("BOOL", 8), std::pair("F4", 4), std::pair("F6_E2M3", 6),
        std::pair("F8_E4M3", 8), std::pair("I16", 16), std::pair("F16", 16),
        std::pair("U32", 32), std::pair("C64", 64), std::pair("U64", 64)}) {
    const std::string json =
        entry("\"dtype\": \"" + std::string(name) +
              "\", \"shape\": [8], \"data_offsets\": [0, " +
              std::to_string(bits) + "]");
    CHECK(parseBytes(safetensorsBytes(json, bits)).entries.size() == 1);
  }
  refuseHeader(entry(R"("dtype": "F4", "shape": [3], "data_offsets": [0, 2])"),
               2, "12 bits");
  refuseHeader(entry(R"("dtype": "F3", "shape": [8], "data_offsets": [0, 3])"),
               3, "dtype is \"F3\"");
}

TEST_CASE("lengths of the header are checked") {
  refuseBytes("", "0 bytes");
  refuseBytes("1234567", "7 bytes");
  refuseBytes(std::string(8, '\0'), "does not begin with {");
  refuseBytes(std::string("\3\0\0\0\0\0\0\0{}", 10), "a header of 3 bytes");
  refuseBytes(std::string(8, '\xff') + "{}", "18446744073709551615 bytes");
  refuseHeader(" {}", 0, "does not begin with {");
  refuseHeader("[]", 0, "does not begin with {");
  refuseHeader("{}{}", 0, "file: ");
  refuseHeader(std::string("{}\0 ", 4), 0, "NUL");
}

TEST_CASE("holes, overlaps and missing bytes are refused by tensor") {
  const auto two = [](const char *a, const char *b) {
    return R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": )" +
           std::string(a) +
           R"(}, "b": {"dtype": "U8", "shape": [4], "data_offsets": )" + b +
           "}}";
  };
  CHECK(
      parseBytes(safetensorsBytes(two("[4, 8]", "[0, 4]"), 8)).entries.size() ==
      2);
  refuseHeader(two("[0, 4]", "[5, 9]"), 9, "\"b\": begins at byte 5");
  refuseHeader(two("[0, 4]", "[3, 7]"), 7, "inside the tensor before");
  refuseHeader(two("[0, 4]", "[0, 4]"), 4, "inside the tensor before");
  refuseHeader(two("[1, 5]", "[5, 9]"), 9, "\"a\": begins at byte 1");
  refuseHeader(two("[0, 4]", "[4, 8]"), 7, "ends at byte 8");
  refuseHeader(two("[0, 4]", "[4, 8]"), 9, "the tensors end at byte 8");
  refuseHeader(two("[0, 4]", "[8, 4]"), 8, "expected a begin and an end");
  refuseHeader("{}", 1, "the tensors end at byte 0");
}

TEST_CASE("numbers that are not sizes are refused") {
  for (const char *number :
       {"-1", "1.0", "1e3", "9223372036854775808", "18446744073709551616",
        "1e999", "\"4\"", "null", "true", "[4]", "01"}) {
    refuseHeader(entry("\"dtype\": \"U8\", \"shape\": [" + std::string(number) +
                       "], \"data_offsets\": [0, 4]"),
                 4, "file: ");
    refuseHeader(entry("\"dtype\": \"U8\", \"shape\": [4], "
                       "\"data_offsets\": [0, " +
                       std::string(number) + "]"),
                 4, "file: ");
  }
  refuseHeader(entry(R"("dtype": "F32", "shape": [4294967296, 4294967296],
                        "data_offsets": [0, 0])"),
               0, "more than 2^63 bits");
  refuseHeader(entry(R"("dtype": "U8", "shape": [9223372036854775807],
                        "data_offsets": [0, 9223372036854775807])"),
               8, "2^63 bits");
  refuseHeader(entry(R"("dtype": "U8", "shape": [1000000000000],
                        "data_offsets": [0, 1000000000000])"),
               8, "ends at byte 1000000000000");
}

TEST_CASE("entries of another form are refused") {
  const std::string good =
      R"("dtype": "U8", "shape": [4], "data_offsets": [0, 4])";
  CHECK(parseBytes(safetensorsBytes(entry(good), 4)).entries.size() == 1);
  refuseHeader(entry(good + ", \"more\": 1"), 4, "unknown key \"more\"");
  refuseHeader(entry(good + ", \"dtype\": \"I8\""), 4, "twice");
  refuseHeader(entry(R"("shape": [4], "data_offsets": [0, 4])"), 4,
               "dtype is missing");
  refuseHeader(entry(R"("dtype": "U8", "data_offsets": [0, 4])"), 4,
               "shape is missing");
  refuseHeader(entry(R"("dtype": "U8", "shape": [4], "data_offsets": [0])"), 4,
               "data_offsets");
  refuseHeader(entry(R"("dtype": "U8", "shape": [5], "data_offsets": [0, 4])"),
               4, "4 bytes of data, but its shape has 5");
  refuseHeader("{\"a\": 1}", 0, "expected an object");
  refuseHeader("{\"__metadata__\": {\"a\": 1}}", 0, "expected a string");
  refuseHeader("{\"\": {" + good + "}}", 4, "empty or has a NUL");
  refuseHeader("{\"a\\u0000b\": {" + good + "}}", 4, "\"a?b\"");
  refuseHeader("{\"a\": {" + good + "}, \"a\": {" + good + "}}", 8,
               "\"a\" is there twice");
  const std::string deep(1000000, '[');
  refuseHeader("{\"a\": " + deep, 0, "32 levels");
}

TEST_CASE("the time of a header grows with its length" * doctest::timeout(60)) {
  constexpr int kTensors = 200000;
  std::string json = "{";
  for (int i = 0; i < kTensors; ++i)
    json += (i == 0 ? "\"t" : ", \"t") + std::to_string(i) +
            R"(": {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]})";
  json += "}";
  CHECK(parseBytes(safetensorsBytes(json, 0)).entries.size() == kTensors);
}
