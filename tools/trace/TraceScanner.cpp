//===- TraceScanner.cpp ---------------------------------------------------===//
#include "trace/TraceScanner.h"

namespace kiln::cli {

/// Longest text of an event, of what leads to the events, and of "otherData".
static constexpr size_t kMostEventBytes = 4 << 20, kMostHeadBytes = 1 << 20,
                        kMostOtherBytes = 64 << 10;

/// A line of Kiln's file that has an event.
static constexpr llvm::StringLiteral kEventLine = "\n,{\"ph\":";
static constexpr llvm::StringLiteral kEventBegin = "{\"ph\":";

llvm::StringRef TraceScanner::head() const {
  if (isBareList)
    return "[";
  const bool isWhole = listDepth > 0 && prefix.size() < kMostHeadBytes;
  return isWhole ? llvm::StringRef(prefix) : "{\"traceEvents\":[";
}

void TraceScanner::take(char byte) {
  if (isComplete) {
    isComplete = false;
    if (event.size() < kMostEventBytes)
      onEvent(event, eventLine);
    else
      ++lostEvents;
  }
  line += byte == '\n';
  if (listDepth == 0 && prefix.size() < kMostHeadBytes)
    prefix += byte;
  if (inEvent && event.size() < kMostEventBytes)
    event += byte;
  if (inOther && other.size() < kMostOtherBytes)
    other += byte;
  if (!inString) {
    takeOutside(byte);
  } else if (isEscaped) {
    isEscaped = false;
  } else if (byte == '"') {
    inString = inKey = false;
  } else {
    isEscaped = byte == '\\';
    constexpr size_t kLongestKey = 32;
    if (inKey && key.size() < kLongestKey)
      key += byte;
  }
  watchLines(byte);
}

void TraceScanner::takeOutside(char byte) {
  const bool isSpace = llvm::StringRef(" \t\r\n").contains(byte);
  switch (byte) {
  case '{':
  case '[':
    open(byte);
    break;
  case '}':
  case ']':
    close();
    break;
  case '"':
    inString = true;
    inKey = depth == 1;
    if (inKey)
      key.clear();
    [[fallthrough]];
  default:
    isForeign |= depth == 0 && !hasEnded && !isSpace;
  }
}

void TraceScanner::open(char byte) {
  ++depth;
  const bool isObject = byte == '{';
  if (depth == 1 && !hasEnded && !isObject) {
    isBareList = true;
    listDepth = 1;
  } else if (depth == 2 && listDepth == 0 && !isObject &&
             key == "traceEvents") {
    listDepth = 2;
  } else if (depth == 2 && !isBareList && isObject && key == "otherData") {
    inOther = true;
    other = "{";
  } else if (listDepth > 0 && depth == listDepth + 1 && isObject && !inEvent &&
             (isBareList || key == "traceEvents")) {
    inEvent = true;
    event = "{";
    eventLine = line;
  }
}

void TraceScanner::close() {
  isForeign |= depth == 0 && !hasEnded;
  if (depth == 0)
    return;
  --depth;
  if (inEvent && depth == listDepth) {
    inEvent = false;
    isComplete = true;
  }
  if (depth == 1)
    inOther = false;
  hasEnded |= depth == 0;
}

/// Finds the next event where bytes are damaged.
void TraceScanner::watchLines(char byte) {
  matched = byte == kEventLine[matched] ? matched + 1 : byte == '\n' ? 1 : 0;
  if (matched < kEventLine.size())
    return;
  matched = 0;
  // Right behind its first bytes an event has no others.
  if (listDepth == 0 || (inEvent && event == kEventBegin))
    return;
  lostEvents += inEvent;
  event = kEventBegin;
  eventLine = line;
  inEvent = true;
  inString = isEscaped = inKey = inOther = hasEnded = false;
  depth = listDepth + 1;
  key = "traceEvents";
}

} // namespace kiln::cli
