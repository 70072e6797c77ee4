//===- DType.cpp - element types of checkpoints ---------------------------===//
#include "DType.h"

#include <array>
#include <cstddef>

namespace llama {

namespace {

struct DTypeRow {
  std::string_view name;
  unsigned bits;
};

/// In the order of the enumeration.
constexpr std::array<DTypeRow, 22> kDTypes = {
    {{"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
     {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
     {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
     {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
     {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},
     {"I64", 64},    {"U64", 64}}};
static_assert(kDTypes.size() == static_cast<size_t>(DType::U64) + 1,
              "a row for each type");

} // namespace

unsigned bitsOf(DType type) { return kDTypes[static_cast<size_t>(type)].bits; }

std::string_view nameOf(DType type) {
  return kDTypes[static_cast<size_t>(type)].name;
}

std::optional<DType> dtypeNamed(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<DType> dtypeNamedByTorch(std::string_view name) {
  constexpr std::string_view prefix = "torch.";
  if (name.substr(0, prefix.size()) == prefix)
    name.remove_prefix(prefix.size());
  if (name == "bfloat16")
    return DType::BF16;
  if (name == "float16")
    return DType::F16;
  if (name == "float32")
    return DType::F32;
  return std::nullopt;
}

} // namespace llama
