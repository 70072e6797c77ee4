//===- SafetensorsFuzzTest.cpp - damaged headers --------------------------===//
//
// Mutations of valid files, the same in every run. A parser either throws Error
// or returns tensors whose bytes all lie in the file. The file is in an array
// of exactly its size, so the address sanitizer finds any byte read beyond it.
//
//===----------------------------------------------------------------------===//
#include "llama/Safetensors.h"

#include "Examples/SafetensorsFixture.h"
#include "llama/Error.h"
#include "llama/Hash.h"

#include <doctest/doctest.h>

#include <cctype>
#include <vector>

using namespace llama;
using namespace llama::testing;

namespace {

constexpr int kCases = 20000;

std::vector<std::string> validFiles() {
  return {
      safetensorsBytes("{}", 0),
      safetensorsBytes(
          R"({"w": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}})",
          24),
      safetensorsBytes(
          R"({"__metadata__":{"format":"pt"},"a.b":{"dtype":"F32","shape":[2],)"
          R"("data_offsets":[0,8]},"c":{"dtype":"U8","shape":[],)"
          R"("data_offsets":[8,9]},"d":{"dtype":"I64","shape":[0],)"
          R"("data_offsets":[9,9]}}   )",
          9)};
}

/// Puts \p length, the right one by default, into the first eight bytes.
void setLength(std::string &file, uint64_t length) {
  for (size_t i = 0; i < 8 && i < file.size(); ++i)
    file[i] = static_cast<char>(length >> (8 * i));
}

void replaceNumber(std::string &file, Random &random) {
  static const char *const kNumbers[] = {"0",
                                         "-1",
                                         "1.0",
                                         "1e400",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "1152921504606846976",
                                         "4294967296",
                                         "25",
                                         "null",
                                         "[[[]]]",
                                         "{}"};
  std::vector<size_t> digits;
  for (size_t i = 8; i < file.size(); ++i)
    if (std::isdigit(static_cast<unsigned char>(file[i])))
      digits.push_back(i);
  if (digits.empty())
    return;
  const size_t begin = digits[random.below(digits.size())];
  size_t end = begin;
  while (end < file.size() &&
         std::isdigit(static_cast<unsigned char>(file[end])))
    ++end;
  file.replace(begin, end - begin, kNumbers[random.below(std::size(kNumbers))]);
}

/// One mutation of \p file, whose data follows \p dataBytes from its end.
void mutate(std::string &file, const std::vector<std::string> &all,
            Random &random) {
  if (file.empty())
    return;
  const size_t at = random.below(file.size());
  switch (random.below(6)) {
  case 0: // A bit.
    file[at] = static_cast<char>(file[at] ^ (1 << random.below(8)));
    break;
  case 1: // A byte.
    file[at] = static_cast<char>(random.next());
    break;
  case 2: // The end is missing.
    file.resize(at);
    break;
  case 3: { // A piece of a valid file in the middle.
    const std::string &other = all[random.below(all.size())];
    const size_t from = random.below(other.size());
    file.insert(at, other, from, random.below(64));
    break;
  }
  case 4: // A piece is missing.
    file.erase(at, random.below(32));
    break;
  default:
    replaceNumber(file, random);
  }
}

/// Whether \p file is accepted; then all of its tensors can be read.
bool accepts(const std::string &file) {
  const std::vector<std::byte> exact(
      reinterpret_cast<const std::byte *>(file.data()),
      reinterpret_cast<const std::byte *>(file.data()) + file.size());
  try {
    const auto header = parseSafetensors(exact.data(), exact.size(), "file");
    REQUIRE(header.dataOffset <= exact.size());
    const uint64_t dataBytes = exact.size() - header.dataOffset;
    uint64_t sum = 0, covered = 0;
    for (const auto &[name, tensor] : header.entries) {
      REQUIRE(tensor.begin <= tensor.end);
      REQUIRE(tensor.end <= dataBytes);
      covered += tensor.end - tensor.begin;
      for (uint64_t i = tensor.begin; i < tensor.end; ++i)
        sum += std::to_integer<uint64_t>(exact[header.dataOffset + i]);
    }
    CHECK(covered == dataBytes);
    return sum < UINT64_MAX;
  } catch (const Error &) {
    return false;
  }
}

} // namespace

TEST_CASE("fuzz: damaged headers are refused, or harmless") {
  const std::vector<std::string> valid = validFiles();
  for (const std::string &file : valid)
    REQUIRE(accepts(file));
  int accepted = 0;
  for (int i = 0; i < kCases; ++i) {
    CAPTURE(i);
    Random random(static_cast<uint64_t>(i));
    std::string file = valid[random.below(valid.size())];
    uint64_t header = 0;
    for (int j = 7; j >= 0; --j)
      header = header << 8 | static_cast<unsigned char>(file[j]);
    const uint64_t dataBytes = file.size() - 8 - header;
    for (uint64_t count = 1 + random.below(3); count > 0; --count)
      mutate(file, valid, random);
    // Otherwise nearly all would fail for the length of the header alone.
    if (random.below(4) != 0 && file.size() >= 8 + dataBytes)
      setLength(file, file.size() - 8 - dataBytes);
    accepted += accepts(file);
  }
  MESSAGE(accepted << " of " << kCases << " damaged files are still valid");
  CHECK(accepted > kCases / 100);
  CHECK(accepted < kCases / 2);
}
