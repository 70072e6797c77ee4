//===- ConfigKeys.cpp - checked members of a config.json ------------------===//
#include "Network/ConfigKeys.h"

#include "Support/Error.h"
#include "Support/Printable.h"

#include <llvm/Support/raw_ostream.h>

namespace kiln {

const llvm::json::Value *ConfigKeys::find(llvm::StringRef key) const {
  const llvm::json::Value *value = members.get(key);
  return value && value->kind() == llvm::json::Value::Null ? nullptr : value;
}

bool ConfigKeys::isNull(llvm::StringRef key) const {
  const llvm::json::Value *value = members.get(key);
  return value && value->kind() == llvm::json::Value::Null;
}

std::string ConfigKeys::shown(llvm::StringRef key) const {
  constexpr size_t kMostShown = 100;
  const llvm::json::Value *value = find(key);
  if (!value)
    return "missing";
  std::string shown;
  llvm::raw_string_ostream(shown) << *value;
  if (shown.size() > kMostShown)
    shown = shown.substr(0, kMostShown) + "...";
  return shown;
}

void ConfigKeys::refuse(llvm::StringRef key, const llvm::Twine &reason) {
  if (!fault.empty())
    return;
  fault = fmt::format("{}: {} is {}, {}", source.str(), key.str(), shown(key),
                      reason.str());
  fault = printable(fault);
}

llvm::Error ConfigKeys::takeError() const {
  if (fault.empty())
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument, "{}", fault);
}

/// \p given, the value of \p key, or \p otherwise where there is no key.
template <class T>
T ConfigKeys::within(llvm::StringRef key, const char *kind, T least, T most,
                     std::optional<T> given, std::optional<T> otherwise) {
  const bool isDefault = !find(key) && otherwise;
  const std::optional<T> value = isDefault ? otherwise : given;
  if (value && *value >= least && *value <= most)
    return *value;
  refuse(key, fmt::format(
                  "{}expected {} of {} to {}",
                  isDefault ? fmt::format("with the default {}, ", *value) : "",
                  kind, least, most));
  return least;
}

int64_t ConfigKeys::integer(llvm::StringRef key, int64_t least, int64_t most,
                            std::optional<int64_t> otherwise) {
  const llvm::json::Value *value = find(key);
  return within<int64_t>(key, "an integer", least, most,
                         value ? value->getAsInteger() : std::nullopt,
                         otherwise);
}

double ConfigKeys::number(llvm::StringRef key, double least, double most,
                          std::optional<double> otherwise) {
  const llvm::json::Value *value = find(key);
  return within<double>(key, "a number", least, most,
                        value ? value->getAsNumber() : std::nullopt, otherwise);
}

bool ConfigKeys::boolean(llvm::StringRef key, bool otherwise) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return otherwise;
  if (auto given = value->getAsBoolean())
    return *given;
  refuse(key, "expected true or false");
  return otherwise;
}

llvm::StringRef ConfigKeys::text(llvm::StringRef key) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return {};
  if (auto given = value->getAsString())
    return *given;
  refuse(key, "expected a text");
  return {};
}

llvm::StringRef ConfigKeys::onlyText(llvm::StringRef key) {
  const llvm::json::Array *list = array(key);
  if (!list)
    return {};
  if (list->size() == 1)
    if (auto given = list->front().getAsString())
      return *given;
  refuse(key, "expected a list of one text");
  return {};
}

const llvm::json::Array *ConfigKeys::array(llvm::StringRef key) {
  const llvm::json::Value *value = find(key);
  if (value && !value->getAsArray())
    refuse(key, "expected a list");
  return value ? value->getAsArray() : nullptr;
}

const llvm::json::Object *ConfigKeys::object(llvm::StringRef key) {
  const llvm::json::Value *value = find(key);
  if (value && !value->getAsObject())
    refuse(key, "expected an object");
  return value ? value->getAsObject() : nullptr;
}

} // namespace kiln
