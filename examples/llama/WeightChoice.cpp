//===- WeightChoice.cpp ---------------------------------------------------===//
#include "WeightChoice.h"

#include "Error.h"
#include "Mxfp4.h"
#include "StoredWeight.h"

#include <cassert>

namespace llama {

namespace {

struct TypeName {
  WeightType type;
  const char *name;
};

constexpr TypeName kNames[] = {{WeightType::Bf16, "bf16"},
                               {WeightType::E4m3Rows, "fp8"},
                               {WeightType::E4m3Blocks, "fp8-block"},
                               {WeightType::E4m3Packed, "w8"},
                               {WeightType::Int4, "w4"},
                               {WeightType::Mxfp4, "mxfp4"}};

WeightFormat storedFormat(const ModelConfig &model, const WeightSource &source,
                          const std::vector<WeightSpec> &specs) {
  const WeightFormat first = openWeight(model, source, specs[0])->format();
  for (const WeightSpec &spec : specs)
    if (openWeight(model, source, spec)->format() != first)
      throw Error(moduleOf(specs[0].name) + " and " + moduleOf(spec.name) +
                  " are stored in different formats, and are one product");
  return first;
}

/// MXFP4 for the \p columns of \p name.
WeightFormat mxfp4For(const std::string &name, int64_t columns) {
  WeightFormat format;
  format.type = WeightType::Mxfp4;
  format.groupSize = kMxfp4Group;
  if (columns % kMxfp4Group == 0)
    return format;
  throw Error(name + " has " + std::to_string(columns) +
              " columns, not a multiple of the 32 of mxfp4");
}

/// The format of numbers that are quantised when they are loaded.
WeightFormat formatFor(WeightType type, const WeightSpec &spec) {
  WeightFormat format;
  format.type = type;
  if (type == WeightType::Mxfp4)
    return mxfp4For(moduleOf(spec.name), spec.columns());
  if (type != WeightType::Int4)
    return format;
  for (const int32_t size : {128, 64, 32})
    if (spec.columns() % size == 0) {
      format.groupSize = size;
      return format;
    }
  throw Error(moduleOf(spec.name) + " has " + std::to_string(spec.columns()) +
              " columns, which no group size of --weights w4 divides (128, 64, "
              "32)");
}

} // namespace

WeightType weightTypeNamed(const std::string &option, const std::string &name) {
  std::string known;
  for (const TypeName &type : kNames) {
    if (name == type.name)
      return type.type;
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  throw Error(option + " is '" + name + "', expected one of " + known);
}

const char *nameOf(WeightType type) {
  assert(type != WeightType::Fp32 && "no option chooses it for vectors");
  return kNames[static_cast<size_t>(type)].name;
}

std::optional<WeightType> announcedType(const ModelConfig &model) {
  const bool isMxfp4 = model.architecture == Architecture::GptOss &&
                       model.quantization.method == QuantMethod::Mxfp4;
  return isMxfp4 ? std::optional(WeightType::Mxfp4) : std::nullopt;
}

WeightFormat layerFormat(const ModelConfig &model, const WeightSource &source,
                         const std::vector<WeightSpec> &specs) {
  const WeightFormat stored = storedFormat(model, source, specs);
  if (!source.weights || *source.weights == stored.type)
    return stored;
  const bool isQuantised = model.quantization.method != QuantMethod::None;
  if (isQuantised && stored.type == WeightType::Bf16)
    return stored; // a module that the checkpoint exempts
  // As it is published, only its experts are.
  if (model.architecture == Architecture::GptOss &&
      *source.weights == WeightType::Mxfp4)
    return stored;
  const bool hasSameCodes = stored.type == WeightType::E4m3Rows &&
                            *source.weights == WeightType::E4m3Packed;
  if (stored.type != WeightType::Bf16 && !hasSameCodes)
    throw Error(std::string("--weights ") + nameOf(*source.weights) + ": " +
                moduleOf(specs[0].name) + " is stored as " +
                nameOf(stored.type) +
                ", and quantised weights stay as they "
                "are");
  return formatFor(*source.weights, specs[0]);
}

WeightFormat fusedFormat(const ModelConfig &model, const WeightSource &source,
                         const WeightSpec &spec) {
  const auto weight = openWeight(model, source, spec);
  const WeightFormat format = weight->format();
  if (!source.weights || *source.weights == format.type)
    return format;
  if (format.type == WeightType::Bf16 && *source.weights == WeightType::Mxfp4)
    return mxfp4For(spec.name, weight->columns());
  throw Error(std::string("--weights ") + nameOf(*source.weights) + ": " +
              spec.name + " is stored as " + nameOf(format.type) +
              "; the experts of gpt-oss can be bf16 and mxfp4");
}

WeightFormat headFormat(const ModelConfig &model, const WeightSource &source,
                        const WeightSpec &spec) {
  const WeightFormat stored = openWeight(model, source, spec)->format();
  if (stored.type == WeightType::Int4)
    return stored;
  const bool isE4m3 = source.hasE4m3Head || stored.type != WeightType::Bf16;
  return formatFor(isE4m3 ? WeightType::E4m3Packed : WeightType::Bf16, spec);
}

} // namespace llama
