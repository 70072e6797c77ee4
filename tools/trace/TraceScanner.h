//===- TraceScanner.h - a Chrome trace, cut into its events ---------------===//
//
// A trace may be longer than memory, may be one line, and may end anywhere: the
// program that wrote it may have died. So it is never parsed as a whole. A
// scanner counts brackets outside of strings, and hands out the text of each
// object in the list "traceEvents", or in a list that is the whole document.
//
// An event is complete if one more byte follows it. Where a line begins as
// Kiln's events do while another event is open, bytes are damaged: the open
// event is lost and the scanner goes on with the new one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>

#include <cstdint>
#include <functional>
#include <string>

namespace kiln::cli {

/// Takes the bytes of a trace in pieces of any size. For one thread.
class TraceScanner {
public:
  /// Gets the text of an event, from '{' to '}', which lives for the call, and
  /// the line that it begins in, from 1.
  using OnEvent = std::function<void(llvm::StringRef text, uint64_t line)>;

  explicit TraceScanner(OnEvent onEvent) : onEvent(std::move(onEvent)) {}

  void feed(llvm::StringRef bytes) {
    for (char byte : bytes)
      take(byte);
  }

  /// The text up to the first byte of the list of events; a short equivalent
  /// if there is no list yet, or if the text is long.
  llvm::StringRef head() const;
  /// The text that ends a document that begins with head().
  llvm::StringRef tail() const { return isBareList ? "\n]\n" : "\n]}\n"; }
  /// The object "otherData"; empty if there is none.
  llvm::StringRef about() const { return other; }

  /// Whether the bytes are the beginning of a trace. No bytes are one, too.
  bool isTrace() const { return !isForeign && (listDepth > 0 || isCut()); }
  /// Whether the bytes ended before the document did.
  bool isCut() const { return !hasEnded; }
  /// Events whose text is damaged or longer than 4 MiB.
  uint64_t lost() const { return lostEvents; }

private:
  void take(char byte);
  void takeOutside(char byte);
  void open(char byte);
  void close();
  void watchLines(char byte);

  OnEvent onEvent;
  std::string prefix, other, event, key;
  uint64_t line = 1, eventLine = 0, lostEvents = 0;
  int64_t depth = 0;     ///< of brackets
  int64_t listDepth = 0; ///< inside the list of events; 0: none was met
  size_t matched = 0;    ///< bytes of the beginning of an event's line
  bool inString = false, isEscaped = false, inKey = false;
  bool inEvent = false, isComplete = false, inOther = false;
  bool isBareList = false, isForeign = false, hasEnded = false;
};

} // namespace kiln::cli
