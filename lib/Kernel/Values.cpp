//===- Values.cpp ---------------------------------------------------------===//
#include "Kernel/Values.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <cmath>
#include <optional>

namespace kiln {

static constexpr int kMaxChain = 8;
static constexpr size_t kMaxTextBytes = 4096;

Schema::Schema(llvm::StringRef name, TextStyle style, std::vector<Field> fields)
    : schemaName(name.str()), textStyle(style), fieldList(std::move(fields)) {
  for (auto [i, field] : llvm::enumerate(fieldList))
    if (field.role == FieldRole::DynamicExtent)
      dynamicFields.push_back(static_cast<int>(i));
#ifndef NDEBUG
  for (size_t i = 0; i < fieldList.size(); ++i)
    for (size_t j = i + 1; j < fieldList.size(); ++j)
      assert(fieldList[i].key != fieldList[j].key && "a key is used twice");
  for (const Field &field : fieldList)
    assert((field.role != FieldRole::Scalar || field.kind == FieldKind::Real) &&
           "a scalar is a real");
#endif
}

int Schema::find(llvm::StringRef key) const {
  for (size_t i = 0; i < fieldList.size(); ++i)
    if (fieldList[i].key == key)
      return static_cast<int>(i);
  return -1;
}

int Schema::find(FieldRole role) const {
  for (size_t i = 0; i < fieldList.size(); ++i)
    if (fieldList[i].role == role)
      return static_cast<int>(i);
  return -1;
}

int Schema::hintOf(int dynamicExtent) const {
  for (size_t i = static_cast<size_t>(dynamicExtent) + 1; i < fieldList.size();
       ++i) {
    if (fieldList[i].role == FieldRole::Hint)
      return static_cast<int>(i);
    if (fieldList[i].role == FieldRole::DynamicExtent)
      break;
  }
  return -1;
}

Values::Values(const Schema &schema) : valuesSchema(&schema) {
  for (const Field &field : schema.fields())
    fieldValues.push_back(field.unset());
}

int64_t Values::get(llvm::StringRef key) const {
  int field = valuesSchema->find(key);
  assert(field >= 0 && "the schema has no such key");
  return (*this)[field];
}

void Values::set(llvm::StringRef key, int64_t value) {
  int field = valuesSchema->find(key);
  assert(field >= 0 && "the schema has no such key");
  set(field, value);
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static llvm::StringRef nameOfValue(const Field &field, int64_t value) {
  for (const FieldName &name : field.names)
    if (name.value == value)
      return name.name;
  return {};
}

static std::string chainText(const Field &field, int64_t value) {
  std::string text;
  for (int i = 0; i < kMaxChain; ++i) {
    int64_t link = (static_cast<uint64_t>(value) >> (8 * i)) & 0xff;
    if (link == 0)
      break;
    if (!text.empty())
      text += ',';
    text += nameOfValue(field, link);
  }
  return text.empty() ? "none" : text;
}

std::string Values::valueText(int index) const {
  const Field &field = valuesSchema->fields()[index];
  int64_t value = (*this)[index];
  switch (field.kind) {
  case FieldKind::Integer:
    return llvm::itostr(value);
  case FieldKind::Enum:
    return nameOfValue(field, value).str();
  case FieldKind::Real:
    return fmt::format("{}", decodeReal(value));
  case FieldKind::Chain:
    return chainText(field, value);
  }
  return {};
}

/// Whether the field is part of the canonical text.
static bool isPrinted(const Field &field, int64_t value) {
  return field.required || value != field.defaultValue;
}

/// The text of \p values without fields of role \p left, if given.
static std::string textWithout(std::optional<FieldRole> left,
                               const Values &values) {
  const Schema &schema = values.schema();
  std::string text = schema.name().str();
  bool dotted = schema.style() == TextStyle::Dotted;
  for (auto [i, value] : llvm::enumerate(values.array())) {
    const Field &field = schema.fields()[i];
    if (field.role == left || !isPrinted(field, value))
      continue;
    text += dotted ? '.' : ' ';
    text += field.key;
    if (!dotted)
      text += '=';
    text += values.valueText(static_cast<int>(i));
  }
  return text;
}

std::string Values::text() const { return textWithout(std::nullopt, *this); }

std::string Values::compiledText() const {
  return textWithout(FieldRole::RuntimeKnob, *this);
}

std::vector<int64_t> Values::compiledKnobs() const {
  std::vector<int64_t> knobs;
  for (auto [field, value] : llvm::zip_equal(valuesSchema->fields(), array()))
    if (field.role == FieldRole::Knob)
      knobs.push_back(value);
  return knobs;
}

llvm::json::Object Values::toJson() const {
  llvm::json::Object object;
  for (auto [i, value] : llvm::enumerate(array())) {
    const Field &field = valuesSchema->fields()[i];
    if (!isPrinted(field, value))
      continue;
    if (field.kind == FieldKind::Integer)
      object[field.key] = value;
    else if (field.kind == FieldKind::Real)
      object[field.key] = decodeReal(value);
    else
      object[field.key] = valueText(static_cast<int>(i));
  }
  return object;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

static std::string listNames(const Field &field) {
  std::string names;
  for (const FieldName &name : field.names)
    names += (names.empty() ? "" : ", ") + name.name.str();
  return names;
}

static llvm::Error badValue(const Schema &schema, const Field &field,
                            llvm::StringRef text, llvm::StringRef expected) {
  return makeError(ErrorCode::InvalidArgument, "{}: {}={} is not {}",
                   schema.name(), field.key, text.take_front(64), expected);
}

static llvm::Expected<int64_t>
parseName(const Schema &schema, const Field &field, llvm::StringRef text) {
  for (const FieldName &name : field.names)
    if (name.name == text)
      return name.value;
  return badValue(schema, field, text, "one of " + listNames(field));
}

static llvm::Expected<int64_t>
parseChain(const Schema &schema, const Field &field, llvm::StringRef text) {
  if (text.empty() || text == "none")
    return 0;
  llvm::SmallVector<llvm::StringRef, kMaxChain> links;
  text.split(links, ',');
  if (links.size() > kMaxChain)
    return badValue(schema, field, text, "a chain of at most 8 operations");
  uint64_t value = 0;
  for (auto [i, link] : llvm::enumerate(links)) {
    auto code = parseName(schema, field, link);
    if (!code)
      return code.takeError();
    assert(*code > 0 && *code < 256 && "chain codes are bytes");
    value |= static_cast<uint64_t>(*code) << (8 * i);
  }
  return static_cast<int64_t>(value);
}

static llvm::Error checkRange(const Schema &schema, const Field &field,
                              int64_t value) {
  if (value < field.minimum)
    return makeError(ErrorCode::InvalidArgument, "{}: {}={} is below {}",
                     schema.name(), field.key, value, field.minimum);
  if (value > field.maximum)
    return makeError(ErrorCode::InvalidArgument, "{}: {}={} is above {}",
                     schema.name(), field.key, value, field.maximum);
  return llvm::Error::success();
}

/// Whether \p value holds names of the field and nothing behind its end.
static bool isChain(const Field &field, int64_t value) {
  auto rest = static_cast<uint64_t>(value);
  for (; rest & 0xff; rest >>= 8)
    if (nameOfValue(field, static_cast<int64_t>(rest & 0xff)).empty())
      return false;
  return rest == 0;
}

llvm::Error Values::check() const {
  for (auto [i, field] : llvm::enumerate(valuesSchema->fields())) {
    int64_t value = array()[i];
    bool isFine = true;
    switch (field.kind) {
    case FieldKind::Integer:
      if (auto error = checkRange(*valuesSchema, field, value))
        return error;
      break;
    case FieldKind::Real:
      isFine = std::isfinite(decodeReal(value));
      break;
    case FieldKind::Enum:
      // The default may mean a value that follows from other fields.
      isFine = !nameOfValue(field, value).empty() ||
               (!field.required && value == field.defaultValue);
      break;
    case FieldKind::Chain:
      isFine = isChain(field, value);
      break;
    }
    if (!isFine)
      return makeError(ErrorCode::InvalidArgument, "{}: {} has no value {:#x}",
                       valuesSchema->name(), field.key,
                       static_cast<uint64_t>(value));
  }
  return llvm::Error::success();
}

static llvm::Expected<int64_t>
parseValue(const Schema &schema, const Field &field, llvm::StringRef text) {
  switch (field.kind) {
  case FieldKind::Integer: {
    int64_t value;
    if (text.getAsInteger(10, value))
      return badValue(schema, field, text, "an integer");
    if (auto error = checkRange(schema, field, value))
      return error;
    return value;
  }
  case FieldKind::Real: {
    double value;
    if (text.getAsDouble(value) || !std::isfinite(value))
      return badValue(schema, field, text, "a finite number");
    return encodeReal(value);
  }
  case FieldKind::Enum:
    return parseName(schema, field, text);
  case FieldKind::Chain:
    return parseChain(schema, field, text);
  }
  return badValue(schema, field, text, "a value");
}

namespace {
/// Collects the fields of one set of values; refuses repeats and missing
/// required fields.
class ValuesBuilder {
public:
  explicit ValuesBuilder(const Schema &schema)
      : values(schema), seen(schema.fields().size(), false) {}

  llvm::Error set(int field, llvm::Expected<int64_t> value) {
    if (!value)
      return value.takeError();
    if (seen[field])
      return makeError(ErrorCode::InvalidArgument, "{}: {} is given twice",
                       values.schema().name(),
                       values.schema().fields()[field].key);
    seen[field] = true;
    values.set(field, *value);
    return llvm::Error::success();
  }

  llvm::Expected<Values> finish() {
    for (auto [i, field] : llvm::enumerate(values.schema().fields()))
      if (field.required && !seen[i])
        return makeError(ErrorCode::InvalidArgument, "{}: {} is missing",
                         values.schema().name(), field.key);
    return std::move(values);
  }

private:
  Values values;
  llvm::SmallVector<bool, 24> seen;
};
} // namespace

static llvm::Error unknownKey(const Schema &schema, llvm::StringRef key) {
  std::string keys;
  for (const Field &field : schema.fields())
    keys += (keys.empty() ? "" : ", ") + field.key.str();
  return makeError(ErrorCode::InvalidArgument,
                   "{}: unknown key '{}', known are {}", schema.name(),
                   key.take_front(64), keys);
}

/// Splits one token into field and value, at the longest key that it begins
/// with.
static llvm::Expected<std::pair<int, llvm::StringRef>>
splitToken(const Schema &schema, llvm::StringRef token) {
  if (schema.style() == TextStyle::Spaced) {
    auto [key, value] = token.split('=');
    if (key.size() == token.size())
      return makeError(ErrorCode::InvalidArgument,
                       "{}: '{}' is not of the form key=value", schema.name(),
                       token.take_front(64));
    int field = schema.find(key);
    if (field < 0)
      return unknownKey(schema, key);
    return std::pair(field, value);
  }
  int best = -1;
  for (auto [i, field] : llvm::enumerate(schema.fields()))
    if (token.starts_with(field.key) &&
        (best < 0 || field.key.size() > schema.fields()[best].key.size()))
      best = static_cast<int>(i);
  if (best < 0)
    return unknownKey(schema, token);
  return std::pair(best, token.drop_front(schema.fields()[best].key.size()));
}

llvm::Expected<Values> Values::parse(const Schema &schema,
                                     llvm::StringRef text) {
  if (text.size() > kMaxTextBytes)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: {} bytes of text, at most {} are read", schema.name(),
                     text.size(), kMaxTextBytes);
  llvm::SmallVector<llvm::StringRef, 24> tokens;
  if (schema.style() == TextStyle::Dotted)
    text.split(tokens, '.');
  else
    llvm::SplitString(text, tokens);
  llvm::ArrayRef<llvm::StringRef> rest = tokens;
  // The schema's name comes first; a problem may leave it out.
  bool named = !rest.empty() && rest.front() == schema.name();
  if (named)
    rest = rest.drop_front();
  else if (schema.style() == TextStyle::Dotted)
    return makeError(ErrorCode::InvalidArgument, "'{}' does not begin with {}",
                     text.take_front(64), schema.name());
  ValuesBuilder builder(schema);
  for (llvm::StringRef token : rest) {
    auto split = splitToken(schema, token);
    if (!split)
      return split.takeError();
    auto [field, value] = *split;
    if (auto error = builder.set(
            field, parseValue(schema, schema.fields()[field], value)))
      return error;
  }
  return builder.finish();
}

static llvm::Expected<int64_t> parseJsonValue(const Schema &schema,
                                              const Field &field,
                                              const llvm::json::Value &value) {
  if (field.kind == FieldKind::Integer) {
    std::optional<int64_t> number = value.getAsInteger();
    // Only a switch, which may be on in two ways, takes true: elsewhere it is
    // an error.
    constexpr int64_t kMostOfSwitch = 2;
    if (auto flag = value.getAsBoolean();
        flag && field.minimum == 0 && field.maximum <= kMostOfSwitch)
      number = *flag;
    if (!number)
      return makeError(ErrorCode::InvalidArgument, "{}: {} is not an integer",
                       schema.name(), field.key);
    if (auto error = checkRange(schema, field, *number))
      return error;
    return *number;
  }
  if (field.kind == FieldKind::Real) {
    auto number = value.getAsNumber();
    if (!number || !std::isfinite(*number))
      return makeError(ErrorCode::InvalidArgument,
                       "{}: {} is not a finite number", schema.name(),
                       field.key);
    return encodeReal(*number);
  }
  auto text = value.getAsString();
  if (!text)
    return makeError(ErrorCode::InvalidArgument, "{}: {} is not a string",
                     schema.name(), field.key);
  return parseValue(schema, field, *text);
}

llvm::Expected<Values>
Values::fromJson(const Schema &schema, const llvm::json::Object &object,
                 llvm::ArrayRef<llvm::StringRef> ignored) {
  ValuesBuilder builder(schema);
  for (const auto &[key, value] : object) {
    if (llvm::is_contained(ignored, key.str()))
      continue;
    int field = schema.find(key.str());
    if (field < 0)
      return unknownKey(schema, key.str());
    if (auto error = builder.set(
            field, parseJsonValue(schema, schema.fields()[field], value)))
      return error;
  }
  return builder.finish();
}

} // namespace kiln
