//===- TraceReader.h - events of JSON become a TraceFile ------------------===//
#pragma once

#include "trace/TraceFile.h"

#include <llvm/Support/JSON.h>

#include <optional>
#include <unordered_map>

namespace kiln::cli {

/// Parses an event, which is UTF-8. \p where names it in errors
/// (InvalidArgument). Stricter than parseJson(), which takes numbers such as
/// "2." that other readers of the file refuse.
llvm::Expected<llvm::json::Value> parseEvent(llvm::StringRef text,
                                             llvm::StringRef where);

/// Collects one trace, event by event. For one thread.
class TraceReader {
public:
  TraceReader();

  /// The event \p text that begins in \p line. A damaged one is counted.
  void add(llvm::StringRef text, uint64_t line);
  /// The object "otherData".
  void addHeader(llvm::StringRef text);
  /// The trace that was collected; the last call.
  TraceFile finish(uint64_t lost, bool isCut);

private:
  using Event = llvm::json::Object;

  /// False: the event lacks something.
  bool take(const Event &event);
  bool takeInterval(const Event &event);
  bool takeBegin(const Event &event);
  bool takeEnd(const Event &event);
  bool takeFlow(const Event &event, bool isStart);
  bool takeCounter(const Event &event);
  bool takeThreadName(const Event &event);
  bool takeInstant(const Event &event);

  TraceText textOf(std::optional<llvm::StringRef> text);
  uint32_t threadOf(const Event &event);
  TraceInterval intervalOf(const Event &event, int64_t startNs);
  void keep(const TraceInterval &interval);

  /// A flow of which one end was met.
  struct Half {
    TraceMoment at;
    bool isStart;
  };

  TraceFile file;
  llvm::StringMap<uint32_t> threads;
  std::vector<std::vector<TraceInterval>> begun; ///< of each thread
  llvm::StringMap<Half> halves;
};

} // namespace kiln::cli
