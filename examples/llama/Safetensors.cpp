//===- Safetensors.cpp - headers of the safetensors format ----------------===//
#include "Safetensors.h"

#include "ConfigReader.h"
#include "Error.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace llama {

namespace {

using Json = nlohmann::json;

/// The limit of the library that defines the format.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

uint64_t readLength(const std::byte *data) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i)
    value = value << 8 | std::to_integer<uint64_t>(data[i]);
  return value;
}

/// A list of integers in [0, 2^63). Negative numbers, fractions and larger
/// numbers have other types in nlohmann::json or do not pass the bound.
std::vector<int64_t> readSizes(const ConfigReader &entry, const char *key) {
  const Json *list = entry.find(key);
  if (!list || !list->is_array())
    entry.refuse(key, "expected an array of sizes");
  std::vector<int64_t> sizes;
  for (const Json &size : *list) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX)
      throw Error(entry.name() + ": " + key + "[" +
                  std::to_string(sizes.size()) + "] is " + shown(size) +
                  ", expected an integer of 0 to 2^63 - 1");
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

TensorEntry readEntry(const Json &value, const std::string &source) {
  const ConfigReader reader(value, source);
  for (const auto &member : value.items())
    if (member.key() != "dtype" && member.key() != "shape" &&
        member.key() != "data_offsets")
      throw Error(source + ": unknown key \"" + printable(member.key()) + "\"");
  TensorEntry entry;
  const auto dtype = dtypeNamed(reader.text("dtype"));
  if (!dtype)
    reader.refuse("dtype", "expected a type of the format");
  entry.dtype = *dtype;
  entry.shape = readSizes(reader, "shape");
  const auto offsets = readSizes(reader, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    reader.refuse("data_offsets", "expected a begin and an end");
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  const uint64_t bytes = tensorBytes(entry.dtype, entry.shape, source);
  if (entry.end - entry.begin != bytes)
    throw Error(source + ": " + std::to_string(entry.end - entry.begin) +
                " bytes of data, but its shape has " + std::to_string(bytes));
  return entry;
}

std::map<std::string, std::string> readMetadata(const Json &value,
                                                const std::string &source) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object())
    throw Error(source + ": " + shown(value) + ", expected an object");
  for (const auto &pair : value.items()) {
    if (!pair.value().is_string())
      throw Error(source + ": " + printable(pair.key()) + " is " +
                  shown(pair.value()) + ", expected a string");
    metadata[pair.key()] = pair.value().get<std::string>();
  }
  return metadata;
}

/// Throws unless the entries, by offset, follow each other from 0 to the end.
void checkCoverage(const SafetensorsHeader &header, uint64_t dataBytes,
                   const std::string &source) {
  using Item = std::pair<const std::string, TensorEntry>;
  std::vector<const Item *> items;
  for (const Item &item : header.entries)
    items.push_back(&item);
  std::sort(items.begin(), items.end(), [](const Item *a, const Item *b) {
    return std::pair(a->second.begin, a->second.end) <
           std::pair(b->second.begin, b->second.end);
  });
  uint64_t covered = 0;
  for (const Item *item : items) {
    const TensorEntry &entry = item->second;
    if (entry.begin != covered)
      throw Error(tensorSource(source, item->first) + ": begins at byte " +
                  std::to_string(entry.begin) + " of the data, " +
                  (entry.begin < covered ? "inside" : "not at the end of") +
                  " the tensor before, which ends at " +
                  std::to_string(covered));
    if (entry.end > dataBytes)
      throw Error(tensorSource(source, item->first) + ": ends at byte " +
                  std::to_string(entry.end) +
                  " of the data, but the file has " +
                  std::to_string(dataBytes));
    covered = entry.end;
  }
  if (covered != dataBytes)
    throw Error(source + ": the tensors end at byte " +
                std::to_string(covered) + " of the data, but the file has " +
                std::to_string(dataBytes));
}

} // namespace

std::string tensorSource(const std::string &source, std::string_view name) {
  return source + ": tensor \"" + printable(name) + "\"";
}

void checkTensorName(const std::string &name, const std::string &source) {
  if (name.empty() || name.find('\0') != std::string::npos)
    throw Error(tensorSource(source, name) +
                ": the name is empty or has a NUL");
}

uint64_t tensorBytes(DType dtype, const std::vector<int64_t> &shape,
                     const std::string &source) {
  int64_t bits = bitsOf(dtype);
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(bits, size, &bits))
      throw Error(source + ": a shape of more than 2^63 bits");
  // As the format's library does; only types below a byte can be meant.
  if (bits % 8 != 0)
    throw Error(source + ": " + std::to_string(bits) +
                " bits, which are not whole bytes");
  return static_cast<uint64_t>(bits / 8);
}

SafetensorsHeader parseSafetensors(const std::byte *data, uint64_t bytes,
                                   const std::string &source) {
  if (bytes < 8)
    throw Error(source + ": " + std::to_string(bytes) +
                " bytes, too few for a header");
  const uint64_t length = readLength(data);
  if (length > kMostHeaderBytes || length > bytes - 8)
    throw Error(source + ": a header of " + std::to_string(length) +
                " bytes in a file of " + std::to_string(bytes));
  const std::string_view text(reinterpret_cast<const char *>(data) + 8, length);
  if (text.empty() || text.front() != '{')
    throw Error(source + ": the header does not begin with {");

  const Json parsed = parseJson(text, source);
  SafetensorsHeader header;
  header.dataOffset = 8 + length;
  for (const auto &item : parsed.items()) {
    if (item.key() == "__metadata__") {
      header.metadata = readMetadata(item.value(), source + ": __metadata__");
      continue;
    }
    checkTensorName(item.key(), source);
    header.entries[item.key()] =
        readEntry(item.value(), tensorSource(source, item.key()));
  }
  checkCoverage(header, bytes - header.dataOffset, source);
  return header;
}

} // namespace llama
