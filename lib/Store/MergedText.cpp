//===- MergedText.cpp - the text of entries that processes merge ----------===//
#include "Store/MergedText.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/FormatVariadic.h>

#include <chrono>
#include <cmath>

namespace kiln {

int64_t unixTimeMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int64_t believedMs(int64_t atMs, int64_t nowMs) {
  constexpr int64_t kDayMs = 24 * 60 * 60 * 1000;
  return atMs < 0 || atMs > nowMs + kDayMs ? 0 : atMs;
}

bool isTime(double ns) { return std::isfinite(ns) && ns > 0; }

bool isWritable(const llvm::json::Value &value) {
  if (const llvm::json::Object *object = value.getAsObject())
    return llvm::all_of(
        *object, [](const auto &field) { return isWritable(field.second); });
  if (const llvm::json::Array *array = value.getAsArray())
    return llvm::all_of(*array, isWritable);
  std::optional<double> number = value.getAsNumber();
  return !number || std::isfinite(*number);
}

void addMissing(llvm::json::Object &into, const llvm::json::Object &from) {
  for (const auto &field : from)
    into.try_emplace(field.first, field.second);
}

std::string jsonLine(llvm::json::Object object) {
  return llvm::formatv("{0}\n", llvm::json::Value(std::move(object))).str();
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

const llvm::json::Value *FieldReader::find(llvm::StringRef key) {
  const llvm::json::Value *found = object.get(key);
  if (found)
    known.push_back(key);
  return found;
}

template <class Source, class Target>
void FieldReader::store(const std::optional<Source> &source, Target &value) {
  if (source)
    value = Target(*source);
  else
    isDamaged = true;
}

void FieldReader::read(llvm::StringRef key, double &value) {
  if (const llvm::json::Value *found = find(key))
    store(found->getAsNumber(), value);
}

void FieldReader::read(llvm::StringRef key, int64_t &value) {
  if (const llvm::json::Value *found = find(key))
    store(found->getAsInteger(), value);
}

void FieldReader::read(llvm::StringRef key, uint64_t &value) {
  if (const llvm::json::Value *found = find(key))
    store(found->getAsUINT64(), value);
}

void FieldReader::read(llvm::StringRef key, bool &value) {
  if (const llvm::json::Value *found = find(key))
    store(found->getAsBoolean(), value);
}

void FieldReader::read(llvm::StringRef key, std::string &value) {
  if (const llvm::json::Value *found = find(key))
    store(found->getAsString(), value);
}

template <class Values>
void FieldReader::readList(llvm::StringRef key, Values &values) {
  const llvm::json::Value *found = find(key);
  if (!found)
    return;
  const llvm::json::Array one({*found});
  const llvm::json::Array *list = found->getAsArray();
  for (const llvm::json::Value &value : list ? *list : one)
    store(value.getAsInteger(), values.emplace_back());
}

void FieldReader::read(llvm::StringRef key,
                       llvm::SmallVectorImpl<int64_t> &values) {
  readList(key, values);
}

void FieldReader::read(llvm::StringRef key, std::vector<int64_t> &values) {
  readList(key, values);
}

void FieldReader::read(llvm::StringRef key, llvm::json::Object &value) {
  const llvm::json::Value *found = find(key);
  if (!found)
    return;
  if (const llvm::json::Object *object = found->getAsObject())
    value = *object;
  else
    isDamaged = true;
}

uint64_t FieldReader::readItems(
    llvm::StringRef key, llvm::json::Array &unread,
    llvm::function_ref<bool(const llvm::json::Object &)> take) {
  const llvm::json::Value *found = find(key);
  const llvm::json::Array *list = found ? found->getAsArray() : nullptr;
  isDamaged |= found && !list;
  uint64_t skipped = 0;
  if (!list)
    return skipped;
  for (const llvm::json::Value &value : *list) {
    const llvm::json::Object *item = value.getAsObject();
    if (item && take(*item))
      continue;
    ++skipped;
    if (isWritable(value))
      unread.push_back(value);
  }
  return skipped;
}

llvm::json::Object FieldReader::unknown() const {
  llvm::json::Object kept;
  if (known.size() == object.size())
    return kept;
  for (const auto &field : object)
    if (!llvm::is_contained(known, llvm::StringRef(field.first)) &&
        isWritable(field.second))
      kept[field.first] = field.second;
  return kept;
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

llvm::Error takeHead(llvm::StringRef &text, llvm::StringRef kind,
                     OtherText &other) {
  auto [line, rest] = text.split('\n');
  auto value = parseJson(line, kind);
  if (!value)
    return value.takeError();
  const llvm::json::Object *head = value->getAsObject();
  if (!head)
    return makeError(ErrorCode::InvalidArgument, "{}: no head line", kind);
  FieldReader reader(*head);
  int64_t format = 0;
  std::string holds;
  reader.require("format", format);
  reader.require("holds", holds);
  if (reader.isDamaged || format < 1 || holds != kind)
    return makeError(ErrorCode::InvalidArgument, "{}: the head line says {}",
                     kind, line.take_front(80));
  if (format > kMergedFormat)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: format {} of a later version", kind, format);
  other.head = reader.unknown();
  text = rest;
  return llvm::Error::success();
}

std::string headLine(llvm::StringRef kind, const OtherText &other) {
  llvm::json::Object head = other.head;
  head["format"] = kMergedFormat;
  head["holds"] = kind;
  return jsonLine(std::move(head));
}

llvm::Error
readLines(llvm::StringRef text, llvm::StringRef kind, OtherText &other,
          llvm::function_ref<bool(const llvm::json::Object &)> take) {
  if (llvm::Error error = takeHead(text, kind, other))
    return error;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    if (line.empty())
      continue;
    auto value = parseJson(line, kind);
    const llvm::json::Object *item = value ? value->getAsObject() : nullptr;
    if (!item || !take(*item))
      other.unread.push_back(line.str());
    if (!value)
      llvm::consumeError(value.takeError());
  }
  return llvm::Error::success();
}

size_t shrinkText(size_t most, llvm::function_ref<std::string()> text,
                  llvm::function_ref<bool()> dropOne) {
  size_t dropped = 0;
  while (text().size() > most && dropOne())
    ++dropped;
  return dropped;
}

} // namespace kiln
