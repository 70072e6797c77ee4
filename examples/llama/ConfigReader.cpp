//===- ConfigReader.cpp - checked members of a JSON object ----------------===//
#include "ConfigReader.h"

#include "Error.h"

#include <cmath>
#include <sstream>
#include <utility>

namespace llama {

namespace {

using Json = nlohmann::json;

/// Without trailing zeros, for messages.
std::string decimal(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

bool isIntegerWithin(const Json &value, int64_t least, int64_t most) {
  // 2^63 and more is unsigned, and get<int64_t>() would wrap.
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return most >= 0 && number <= static_cast<uint64_t>(most) &&
           (least < 0 || number >= static_cast<uint64_t>(least));
  }
  return value.is_number_integer() && value.get<int64_t>() >= least &&
         value.get<int64_t>() <= most;
}

bool isNumberWithin(const Json &value, double least, double most) {
  return value.is_number() && std::isfinite(value.get<double>()) &&
         value.get<double>() >= least && value.get<double>() <= most;
}

} // namespace

ConfigReader::ConfigReader(const Json &object, std::string source)
    : object(object), source(std::move(source)) {
  if (!object.is_object())
    throw Error(this->source + ": " + shown(object) + ", expected an object");
}

const Json *ConfigReader::find(const char *key) const {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::isNull(const char *key) const {
  const auto found = object.find(key);
  return found != object.end() && found->is_null();
}

void ConfigReader::refuse(const char *key, const std::string &reason) const {
  const Json *value = find(key);
  throw Error(source + ": " + key + " is " +
              (value ? shown(*value) : "missing") + ", " + reason);
}

int64_t ConfigReader::integer(const char *key, int64_t least, int64_t most,
                              std::optional<int64_t> otherwise) const {
  const Json *value = find(key);
  if (!value && otherwise)
    return *otherwise;
  if (!value || !isIntegerWithin(*value, least, most))
    refuse(key, "expected an integer of " + std::to_string(least) + " to " +
                    std::to_string(most));
  return value->get<int64_t>();
}

std::optional<double> ConfigReader::number(const char *key, double least,
                                           double most) const {
  const Json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!isNumberWithin(*value, least, most))
    refuse(key,
           "expected a number of " + decimal(least) + " to " + decimal(most));
  return value->get<double>();
}

double ConfigReader::required(const char *key, double least,
                              double most) const {
  const auto value = number(key, least, most);
  if (!value)
    refuse(key, "expected a number");
  return *value;
}

bool ConfigReader::boolean(const char *key, bool otherwise) const {
  const Json *value = find(key);
  if (!value)
    return otherwise;
  if (!value->is_boolean())
    refuse(key, "expected true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(const char *key) const {
  const Json *value = find(key);
  if (!value)
    return {};
  if (!value->is_string())
    refuse(key, "expected a string");
  return value->get<std::string>();
}

std::vector<double> ConfigReader::numbers(const char *key, int64_t count,
                                          double least, double most) const {
  const Json *value = find(key);
  if (!value || !value->is_array() ||
      value->size() != static_cast<size_t>(count))
    refuse(key, "expected an array of " + std::to_string(count) + " numbers");
  std::vector<double> result;
  for (const Json &element : *value) {
    if (!isNumberWithin(element, least, most))
      throw Error(source + ": " + key + "[" + std::to_string(result.size()) +
                  "] is " + shown(element) + ", expected a number of " +
                  decimal(least) + " to " + decimal(most));
    result.push_back(element.get<double>());
  }
  return result;
}

std::vector<int32_t> ConfigReader::tokens(const char *key, int64_t most) const {
  const Json *value = find(key);
  if (!value)
    return {};
  const Json list = value->is_array() ? *value : Json::array({*value});
  std::vector<int32_t> result;
  for (const Json &element : list) {
    if (!isIntegerWithin(element, 0, most))
      refuse(key, "expected token ids of 0 to " + std::to_string(most));
    result.push_back(element.get<int32_t>());
  }
  return result;
}

} // namespace llama
