//===- AttentionConfigNames.cpp -------------------------------------------===//
#include "kiln-bench/Attention/AttentionConfigNames.h"

#include "Kernel/ConfigSchema.h"
#include "Support/Error.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>

#include <optional>

namespace kiln::cli {

namespace {

constexpr llvm::StringLiteral kBraces = "FlashForwardKernelConfig{";
constexpr int kFields = MmaAttentionConfig::kFieldCount;

/// The kinds of values, for each field in the order of the fields.
enum class Kind { Type, Int, Flag };
constexpr Kind kKinds[kFields] = {
    Kind::Type, Kind::Int,  Kind::Int,  Kind::Int, Kind::Int,
    Kind::Flag, Kind::Flag, Kind::Flag, Kind::Int, Kind::Int,
    Kind::Int,  Kind::Flag, Kind::Flag};

constexpr llvm::StringLiteral prefixOf(Kind kind) {
  return kind == Kind::Type  ? llvm::StringLiteral("(c10::ScalarType)")
         : kind == Kind::Int ? llvm::StringLiteral("(int)")
                             : llvm::StringLiteral("(bool)");
}

/// The flags that the short form names, beside "load_Q_K_V_tiles".
struct Flag {
  llvm::StringLiteral name;
  int MmaAttentionConfig::*field;
};
constexpr Flag kBefore[] = {{"async", &MmaAttentionConfig::asyncCopy},
                            {"eager", &MmaAttentionConfig::eagerLoads},
                            {"swizzled", &MmaAttentionConfig::swizzled}};
constexpr Flag kBehind[] = {
    {"buffer", &MmaAttentionConfig::doubleBuffer},
    {"opt_softmax", &MmaAttentionConfig::optimizedSoftmax}};

llvm::SmallVector<int, kFields> valuesOf(const MmaAttentionConfig &config) {
  llvm::SmallVector<int, kFields> values;
  MmaAttentionConfig::forEachField(
      [&](const char *, const char *, int MmaAttentionConfig::*field, int) {
        values.push_back(config.*field);
      });
  return values;
}

MmaAttentionConfig configOf(llvm::ArrayRef<int> values) {
  MmaAttentionConfig config;
  size_t at = 0;
  MmaAttentionConfig::forEachField([&](const char *, const char *,
                                       int MmaAttentionConfig::*field,
                                       int) { config.*field = values[at++]; });
  return config;
}

llvm::StringRef typeName(int dtype) {
  return dtype == MmaAttentionConfig::kFp16 ? "FP16" : "BF16";
}

llvm::Error wrong(llvm::StringRef what, llvm::StringRef value) {
  return makeError(ErrorCode::InvalidArgument,
                   "name of an attention config: {} instead of {}",
                   value.empty() ? "nothing" : ("'" + value + "'").str(), what);
}

/// One value, with or without its type in front.
llvm::Expected<int> parseValue(llvm::StringRef text, Kind kind) {
  llvm::StringRef value = text.trim();
  value.consume_front(prefixOf(kind));
  value = value.trim();
  int number = 0;
  bool isNumber = !value.getAsInteger(10, number);
  if (kind == Kind::Flag) {
    if (value == "true" || (isNumber && number == 1))
      return 1;
    if (value == "false" || (isNumber && number == 0))
      return 0;
    return wrong("0, 1, true or false", text);
  }
  if (kind == Kind::Type) {
    if (value.equals_insensitive("fp16") ||
        (isNumber && number == MmaAttentionConfig::kFp16))
      return int(MmaAttentionConfig::kFp16);
    if (value.equals_insensitive("bf16") ||
        (isNumber && number == MmaAttentionConfig::kBf16))
      return int(MmaAttentionConfig::kBf16);
    return wrong("FP16 (5) or BF16 (15)", text);
  }
  if (!isNumber || number < 0 || number > kMaxKnob)
    return wrong("a number up to 1024", text);
  return number;
}

llvm::Error parseValues(llvm::StringRef list, int first, int count,
                        llvm::SmallVectorImpl<int> &values) {
  llvm::SmallVector<llvm::StringRef, kFields> parts;
  list.split(parts, ',');
  if (parts.size() != size_t(count))
    return makeError(ErrorCode::InvalidArgument,
                     "name of an attention config: {} values instead of {}",
                     parts.size(), count);
  for (int i = 0; i < count; ++i) {
    auto value = parseValue(parts[i], kKinds[first + i]);
    if (!value)
      return value.takeError();
    values.push_back(*value);
  }
  return llvm::Error::success();
}

/// "load_0_2_2_tiles"
llvm::Error parseTiles(llvm::StringRef feature, MmaAttentionConfig &config) {
  llvm::StringRef tiles = feature;
  llvm::SmallVector<llvm::StringRef, 3> parts;
  if (tiles.consume_front("load_") && tiles.consume_back("_tiles"))
    tiles.split(parts, '_');
  if (parts.size() != 3)
    return wrong("load_Q_K_V_tiles", feature);
  int *fields[] = {&config.queryTiles, &config.keyTiles, &config.valueTiles};
  for (int i = 0; i < 3; ++i) {
    auto value = parseValue(parts[i], Kind::Int);
    if (!value)
      return value.takeError();
    *fields[i] = *value;
  }
  return llvm::Error::success();
}

llvm::Error parseFeatures(llvm::StringRef text, MmaAttentionConfig &config) {
  llvm::SmallVector<llvm::StringRef, 6> features;
  text.split(features, '+');
  bool hasTiles = false;
  for (llvm::StringRef feature : features) {
    feature = feature.trim();
    bool known = false;
    for (llvm::ArrayRef<Flag> flags :
         {llvm::ArrayRef(kBefore), llvm::ArrayRef(kBehind)})
      for (const Flag &flag : flags)
        if (feature == flag.name) {
          config.*flag.field = 1;
          known = true;
        }
    if (known)
      continue;
    if (llvm::Error error = parseTiles(feature, config))
      return error;
    hasTiles = true;
  }
  return hasTiles ? llvm::Error::success() : wrong("load_Q_K_V_tiles", "");
}

llvm::Expected<MmaAttentionConfig> parseShort(llvm::StringRef text) {
  // The first cell of a row that may stand between bars.
  llvm::StringRef cell = text.trim().ltrim('|').split('|').first.trim();
  auto [tuple, features] = cell.split("):");
  if (!tuple.consume_front("(") || features.empty())
    return wrong("(type, head, rows, keys, warps): features", cell);
  constexpr int kInTuple = 5;
  llvm::SmallVector<int, kFields> values;
  if (llvm::Error error = parseValues(tuple, 0, kInTuple, values))
    return error;
  values.resize(kFields, 0);
  MmaAttentionConfig config = configOf(values);
  if (llvm::Error error = parseFeatures(features, config))
    return error;
  return config;
}

} // namespace

std::string configName(const MmaAttentionConfig &config, ConfigNameForm form) {
  if (form == ConfigNameForm::Short) {
    std::string name = fmt::format(
        "({}, {}, {}, {}, {}): ", typeName(config.dtype), config.headDim,
        config.blockRows, config.blockKeys, config.warps);
    for (const Flag &flag : kBefore)
      if (config.*flag.field)
        name += fmt::format("{}+", flag.name);
    name += fmt::format("load_{}_{}_{}_tiles", config.queryTiles,
                        config.keyTiles, config.valueTiles);
    for (const Flag &flag : kBehind)
      if (config.*flag.field)
        name += fmt::format("+{}", flag.name);
    return name;
  }
  llvm::SmallVector<std::string, kFields> parts;
  for (auto [at, value] : llvm::enumerate(valuesOf(config)))
    parts.push_back(form == ConfigNameForm::Typed
                        ? fmt::format("{}{}", prefixOf(kKinds[at]).str(), value)
                        : fmt::format("{}", value));
  return fmt::format("flash_forward_kernel<{}{}}}>", kBraces.str(),
                     llvm::join(parts, ", "));
}

llvm::Expected<MmaAttentionConfig> parseConfigName(llvm::StringRef text) {
  size_t at = text.find(kBraces);
  if (at == llvm::StringRef::npos)
    return parseShort(text);
  llvm::StringRef list = text.drop_front(at + kBraces.size());
  size_t end = list.find('}');
  if (end == llvm::StringRef::npos)
    return wrong("a closing brace", list);
  llvm::SmallVector<int, kFields> values;
  if (llvm::Error error = parseValues(list.take_front(end), 0, kFields, values))
    return error;
  return configOf(values);
}

} // namespace kiln::cli
