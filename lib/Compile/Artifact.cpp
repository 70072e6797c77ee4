//===- Artifact.cpp -------------------------------------------------------===//
#include "Compile/Artifact.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <array>

namespace kiln {

bool Artifact::hasSerialisationAdvisory() const {
  // C7504: setmaxnreg ignored; the others: wgmma serialised, each for another
  // reason.
  static constexpr llvm::StringLiteral kCodes[] = {
      "C7504", "C7507", "C7508", "C7509", "C7510", "C7511",
      "C7514", "C7515", "C7518", "C7519", "C7520"};
  return llvm::any_of(advisories, [](const Advisory &advisory) {
    return llvm::is_contained(kCodes, advisory.code);
  });
}

std::string Artifact::rejection(bool maySpill) const {
  if (hasSerialisationAdvisory()) {
    std::string codes;
    for (const Advisory &advisory : advisories)
      codes += (codes.empty() ? "" : ", ") + advisory.code;
    return fmt::format("ptxas serialised the kernel ({})", codes);
  }
  if (hasSpills() && !maySpill)
    return fmt::format("ptxas spilled {} bytes",
                       std::max(usage.spillStoreBytes, usage.spillLoadBytes));
  return {};
}

namespace {
struct UsageField {
  llvm::StringLiteral key;
  int64_t ResourceUsage::*member;
};
struct PhaseField {
  llvm::StringLiteral key;
  double PhaseTimes::*member;
};
} // namespace

static constexpr std::array<UsageField, 6> kUsageFields = {{
    {"registersPerThread", &ResourceUsage::registersPerThread},
    {"spillLoadBytes", &ResourceUsage::spillLoadBytes},
    {"spillStoreBytes", &ResourceUsage::spillStoreBytes},
    {"stackBytes", &ResourceUsage::stackBytes},
    {"staticSharedBytes", &ResourceUsage::staticSharedBytes},
    {"constantBytes", &ResourceUsage::constantBytes},
}};

static constexpr std::array<PhaseField, 4> kPhaseFields = {{
    {"frontEndMs", &PhaseTimes::frontEndMs},
    {"nvvmMs", &PhaseTimes::nvvmMs},
    {"ptxasMs", &PhaseTimes::ptxasMs},
    {"totalMs", &PhaseTimes::totalMs},
}};

llvm::json::Object Artifact::attributes() const {
  // A log may quote bytes that are not UTF-8.
  llvm::json::Object object{{"arch", jsonText(arch)},
                            {"entry", jsonText(entry)},
                            {"toolchain", jsonText(toolchain)},
                            {"log", jsonText(log)}};
  for (const UsageField &field : kUsageFields)
    object[field.key] = usage.*field.member;
  llvm::json::Object times;
  for (const PhaseField &field : kPhaseFields)
    times[field.key] = phases.*field.member;
  object["phases"] = std::move(times);
  llvm::json::Array remarks;
  for (const Advisory &advisory : advisories)
    remarks.push_back(llvm::json::Object{{"code", jsonText(advisory.code)},
                                         {"text", jsonText(advisory.text)}});
  object["advisories"] = std::move(remarks);
  return object;
}

static llvm::Error wrongKey(llvm::StringRef key) {
  return makeError(ErrorCode::InvalidArgument,
                   "artifact attribute '{}' is missing or of a wrong type",
                   key);
}

static llvm::Error readString(const llvm::json::Object &object,
                              llvm::StringRef key, std::string &result) {
  std::optional<llvm::StringRef> value = object.getString(key);
  if (!value)
    return wrongKey(key);
  result = value->str();
  return llvm::Error::success();
}

static llvm::Error readNumbers(const llvm::json::Object &object,
                               Artifact &artifact) {
  for (const UsageField &field : kUsageFields) {
    std::optional<int64_t> value = object.getInteger(field.key);
    if (!value || *value < 0)
      return wrongKey(field.key);
    artifact.usage.*field.member = *value;
  }
  const llvm::json::Object *times = object.getObject("phases");
  if (!times)
    return wrongKey("phases");
  for (const PhaseField &field : kPhaseFields) {
    std::optional<double> value = times->getNumber(field.key);
    if (!value)
      return wrongKey(field.key);
    artifact.phases.*field.member = *value;
  }
  return llvm::Error::success();
}

static llvm::Error readAdvisories(const llvm::json::Object &object,
                                  Artifact &artifact) {
  const llvm::json::Array *remarks = object.getArray("advisories");
  if (!remarks)
    return wrongKey("advisories");
  for (const llvm::json::Value &remark : *remarks) {
    const llvm::json::Object *fields = remark.getAsObject();
    Advisory advisory;
    if (!fields)
      return wrongKey("advisories");
    if (llvm::Error error = readString(*fields, "code", advisory.code))
      return error;
    if (llvm::Error error = readString(*fields, "text", advisory.text))
      return error;
    artifact.advisories.push_back(std::move(advisory));
  }
  return llvm::Error::success();
}

llvm::Expected<Artifact>
Artifact::fromAttributes(const llvm::json::Value &value, std::string cubin) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object)
    return makeError(ErrorCode::InvalidArgument,
                     "artifact attributes are no JSON object");
  Artifact artifact;
  artifact.cubin = std::move(cubin);
  const std::pair<llvm::StringLiteral, std::string *> strings[] = {
      {"arch", &artifact.arch},
      {"entry", &artifact.entry},
      {"toolchain", &artifact.toolchain},
      {"log", &artifact.log}};
  for (const auto &[key, target] : strings)
    if (llvm::Error error = readString(*object, key, *target))
      return error;
  if (llvm::Error error = readNumbers(*object, artifact))
    return error;
  if (llvm::Error error = readAdvisories(*object, artifact))
    return error;
  return artifact;
}

} // namespace kiln
