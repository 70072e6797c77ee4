//===- ConfigSchema.h - a kernel's own config type as Values --------------===//
//
// A config is a structural aggregate shared with the kernel. Its one field list
// (forEachField, and forEachRuntimeField for knobs that cost no compilation)
// gives its schema, both conversions and the designated initialiser of a
// translation unit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "Support/Format.h"

#include <cassert>
#include <string>
#include <vector>

namespace kiln {

/// The greatest value of a knob. Text may have any value up to it, and products
/// of a few knobs, which a config computes in ints, must not overflow.
inline constexpr int64_t kMaxKnob = 1024;

/// Makes the schema of \p Config, called \p name. Every field is an int with a
/// default; values are at most kMaxKnob and at least 1, or 0 if the default is
/// 0.
template <class Config> Schema makeConfigSchema(llvm::StringRef name) {
  std::vector<Field> fields;
  auto addAs = [&](FieldRole role) {
    return [&fields, role](const char *key, const char *member, int Config::*,
                           int defaultValue) {
      Field field;
      field.key = key;
      field.meaning = member;
      field.role = role;
      // It is always printed, so that a config's text is complete on its own
      // and a changed default changes no stored text. Knobs that default to 0
      // were added later; they are printed only when set.
      field.required = role == FieldRole::Knob && defaultValue != 0;
      field.defaultValue = defaultValue;
      field.minimum = defaultValue > 0 ? 1 : 0;
      field.maximum = kMaxKnob;
      fields.push_back(field);
    };
  };
  Config::forEachField(addAs(FieldRole::Knob));
  Config::forEachRuntimeField(addAs(FieldRole::RuntimeKnob));
  return Schema(name, TextStyle::Dotted, std::move(fields));
}

/// \p config as values of \p schema, which makeConfigSchema made.
template <class Config>
Values toValues(const Config &config, const Schema &schema) {
  constexpr size_t kMaxFields = 32;
  int64_t values[kMaxFields];
  size_t count = 0;
  auto read = [&](const char *, const char *, int Config::*member, int) {
    assert(count < kMaxFields && "too many knobs");
    values[count++] = config.*member;
  };
  Config::forEachField(read);
  Config::forEachRuntimeField(read);
  return Values(schema, llvm::ArrayRef(values, count));
}

/// The inverse of toValues.
template <class Config> Config fromValues(const Values &values) {
  Config config;
  int index = 0;
  auto write = [&](const char *, const char *, int Config::*member, int) {
    config.*member = static_cast<int>(values[index++]);
  };
  Config::forEachField(write);
  Config::forEachRuntimeField(write);
  return config;
}

/// "{.blockM = 128, .blockN = 256}": the fields that are fixed at compile time.
template <class Config> std::string initializerText(const Config &config) {
  std::string text;
  Config::forEachField(
      [&](const char *, const char *member, int Config::*pointer, int) {
        text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", member,
                            config.*pointer);
      });
  return "{" + text + "}";
}

} // namespace kiln
