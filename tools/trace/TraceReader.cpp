//===- TraceReader.cpp ----------------------------------------------------===//
#include "trace/TraceReader.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <cmath>

namespace kiln::cli {

using llvm::json::Object;

/// \p us as nanoseconds; nothing for a number that no clock shows. Sums of two
/// of them are in range.
static std::optional<int64_t> nsOf(std::optional<double> us) {
  constexpr double kMostUs = 4e15; // 127 years
  if (!us || !(std::abs(*us) <= kMostUs))
    return std::nullopt;
  return std::llround(*us * 1e3);
}

/// A text, or a whole number as text; empty if there is neither.
static std::string idOf(const Object &event, llvm::StringRef key) {
  if (auto text = event.getString(key))
    return text->str();
  if (auto number = event.getInteger(key))
    return fmt::format("{}", *number);
  return "";
}

static std::optional<llvm::StringRef> argumentOf(const Object &event,
                                                 llvm::StringRef key) {
  const Object *arguments = event.getObject("args");
  return arguments ? arguments->getString(key) : std::nullopt;
}

/// Whether \p text is a number by the grammar of JSON.
static bool isNumber(llvm::StringRef text) {
  constexpr llvm::StringLiteral kDigits = "0123456789";
  auto takeDigits = [&] {
    const size_t before = text.size();
    text = text.ltrim(kDigits);
    return text.size() < before;
  };
  text.consume_front("-");
  if (!text.consume_front("0") && !takeDigits())
    return false;
  if (text.consume_front(".") && !takeDigits())
    return false;
  if (text.consume_front("e") || text.consume_front("E")) {
    if (!text.consume_front("+"))
      text.consume_front("-");
    if (!takeDigits())
      return false;
  }
  return text.empty();
}

/// The first number of \p json, which parseJson() takes, that is not one by the
/// grammar; empty if all are.
static llvm::StringRef oddNumber(llvm::StringRef json) {
  auto isOfNumber = [](char c) {
    return llvm::isDigit(c) || llvm::StringRef("+-.eE").contains(c);
  };
  while (!json.empty()) {
    json = json.drop_until([](char c) {
      return llvm::isDigit(c) || llvm::StringRef("+-.\"").contains(c);
    });
    if (json.consume_front("\"")) {
      while (!json.consume_front("\""))
        json = json.drop_front(json.front() == '\\' ? 2 : 1);
      continue;
    }
    llvm::StringRef number = json.take_while(isOfNumber);
    if (!number.empty() && !isNumber(number))
      return number;
    json = json.drop_front(number.size());
  }
  return "";
}

llvm::Expected<llvm::json::Value> parseEvent(llvm::StringRef text,
                                             llvm::StringRef where) {
  auto value = parseJson(text, where);
  if (!value)
    return value;
  if (llvm::StringRef number = oddNumber(text); !number.empty())
    return makeError(ErrorCode::InvalidArgument, "{}: {} is not a number",
                     where, number);
  return value;
}

TraceReader::TraceReader() { textOf(""); }

TraceText TraceReader::textOf(std::optional<llvm::StringRef> text) {
  auto [place, isNew] = file.ids.try_emplace(
      text.value_or(""), static_cast<TraceText>(file.texts.size()));
  if (isNew)
    file.texts.push_back(place->getKey());
  return place->second;
}

uint32_t TraceReader::threadOf(const Object &event) {
  std::string pid = idOf(event, "pid"), tid = idOf(event, "tid");
  auto [place, isNew] = threads.try_emplace(
      pid + '\n' + tid, static_cast<uint32_t>(file.allThreads.size()));
  if (isNew) {
    file.allThreads.push_back({std::move(pid), std::move(tid), ""});
    begun.emplace_back();
  }
  return place->second;
}

void TraceReader::add(llvm::StringRef text, uint64_t line) {
  const std::string where = fmt::format("line {}", line);
  std::string mended;
  if (!llvm::json::isUTF8(text))
    text = mended = llvm::json::fixUTF8(text);
  auto value = parseEvent(text, where);
  std::string fault;
  if (!value)
    fault = summarize(value.takeError()).message;
  else if (const Object *event = value->getAsObject(); !event || !take(*event))
    fault = where + ": a field is missing or is no such number";
  if (fault.empty())
    return;
  if (file.allFaults.damaged++ == 0)
    file.allFaults.first = std::move(fault);
}

bool TraceReader::take(const Object &event) {
  auto kind = event.getString("ph");
  if (!kind)
    return false;
  if (*kind == "X")
    return takeInterval(event);
  if (*kind == "B")
    return takeBegin(event);
  if (*kind == "E")
    return takeEnd(event);
  if (*kind == "s" || *kind == "f")
    return takeFlow(event, *kind == "s");
  if (*kind == "C")
    return takeCounter(event);
  if (*kind == "M")
    return takeThreadName(event);
  if (*kind == "i" || *kind == "I")
    return takeInstant(event);
  ++file.allFaults.unknown;
  return true;
}

bool TraceReader::takeInstant(const Object &event) {
  llvm::StringRef name = event.getString("name").value_or("");
  const Object *arguments = event.getObject("args");
  // The last event of a file that was full.
  if (name == "events lost" && arguments)
    file.allFaults.unwritten += static_cast<uint64_t>(
        std::max<int64_t>(arguments->getInteger("count").value_or(0), 0));
  ++file.allInstants[name.str()];
  return true;
}

TraceInterval TraceReader::intervalOf(const Object &event, int64_t startNs) {
  TraceInterval interval;
  interval.startNs = interval.endNs = startNs;
  interval.name = textOf(event.getString("name"));
  interval.phase = textOf(event.getString("cat"));
  interval.what = textOf(argumentOf(event, "what"));
  interval.reason = textOf(argumentOf(event, "reason"));
  interval.thread = threadOf(event);
  return interval;
}

void TraceReader::keep(const TraceInterval &interval) {
  const bool isFirst = file.allIntervals.empty();
  file.firstNs =
      isFirst ? interval.startNs : std::min(file.firstNs, interval.startNs);
  file.lastNs =
      isFirst ? interval.endNs : std::max(file.lastNs, interval.endNs);
  file.allIntervals.push_back(interval);
}

bool TraceReader::takeInterval(const Object &event) {
  auto start = nsOf(event.getNumber("ts")),
       length = nsOf(event.getNumber("dur"));
  if (!start || !length)
    return false;
  TraceInterval interval = intervalOf(event, *start);
  file.allFaults.negative += *length < 0;
  interval.endNs += std::max<int64_t>(*length, 0);
  keep(interval);
  return true;
}

bool TraceReader::takeBegin(const Object &event) {
  auto start = nsOf(event.getNumber("ts"));
  if (!start)
    return false;
  TraceInterval interval = intervalOf(event, *start);
  begun[interval.thread].push_back(interval);
  return true;
}

bool TraceReader::takeEnd(const Object &event) {
  auto end = nsOf(event.getNumber("ts"));
  if (!end)
    return false;
  std::vector<TraceInterval> &open = begun[threadOf(event)];
  if (open.empty()) {
    ++file.allFaults.unpaired;
    return true;
  }
  TraceInterval interval = open.back();
  open.pop_back();
  file.allFaults.negative += *end < interval.startNs;
  interval.endNs = std::max(*end, interval.startNs);
  keep(interval);
  return true;
}

/// Threads write at once, so that either end may come first.
bool TraceReader::takeFlow(const Object &event, bool isStart) {
  auto ns = nsOf(event.getNumber("ts"));
  std::string id = idOf(event, "id");
  if (!ns || id.empty())
    return false;
  const TraceText name = textOf(event.getString("name"));
  const Half half{{threadOf(event), *ns}, isStart};
  auto [place, isNew] =
      halves.try_emplace(fmt::format("{}\n{}", name, id), half);
  if (isNew)
    return true;
  const Half other = place->second;
  if (other.isStart == isStart) {
    ++(isStart ? file.allFaults.handedOver : file.allFaults.received);
    place->second = half;
    return true;
  }
  halves.erase(place);
  file.allFlows.push_back(isStart ? TraceFlow{name, half.at, other.at}
                                  : TraceFlow{name, other.at, half.at});
  return true;
}

bool TraceReader::takeCounter(const Object &event) {
  const Object *values = event.getObject("args");
  auto name = event.getString("name");
  if (!values || !name)
    return false;
  for (const auto &[key, value] : *values) {
    auto number = value.getAsNumber();
    if (!number)
      return false;
    TraceCounter &counter =
        file.allCounters[values->size() == 1 ? name->str()
                                             : (*name + " " + key.str()).str()];
    counter.last = *number;
    counter.most =
        counter.samples == 0 ? *number : std::max(counter.most, *number);
    ++counter.samples;
  }
  return true;
}

bool TraceReader::takeThreadName(const Object &event) {
  auto kind = event.getString("name");
  auto name = argumentOf(event, "name");
  if (kind && *kind == "thread_name" && name)
    file.allThreads[threadOf(event)].name = name->str();
  else if (kind && *kind == "process_name" && name)
    file.header.try_emplace("process", name->str());
  return true;
}

void TraceReader::addHeader(llvm::StringRef text) {
  auto value = parseJson(text, "otherData");
  if (!value)
    return llvm::consumeError(value.takeError());
  if (const Object *object = value->getAsObject())
    for (const auto &[key, _] : *object)
      file.header[key.str()] = idOf(*object, key);
}

TraceFile TraceReader::finish(uint64_t lost, bool isCut) {
  TraceFaults &faults = file.allFaults;
  for (std::vector<TraceInterval> &open : begun)
    // The innermost first, as ended ones are.
    for (; !open.empty(); open.pop_back()) {
      open.back().endNs = std::max(file.lastNs, open.back().startNs);
      keep(open.back());
      ++faults.open;
    }
  for (const auto &half : halves)
    ++(half.second.isStart ? faults.handedOver : faults.received);
  if (lost > 0 && faults.first.empty())
    faults.first = "an event does not end where the next one begins";
  faults.damaged += lost;
  faults.isCut = isCut;
  return std::move(file);
}

} // namespace kiln::cli
