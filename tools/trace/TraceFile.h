//===- TraceFile.h - the events of a trace --------------------------------===//
//
// Reads the Chrome trace that an engine writes to KILN_TRACE. Other programs'
// traces are read as well, as far as they have intervals, flows, counters and
// instants; their categories count as phases.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

/// A text of a trace, by TraceFile::text().
using TraceText = uint32_t;

/// The work of a thread from one time to another.
struct TraceInterval {
  int64_t startNs = 0, endNs = 0;
  TraceText name = 0, phase = 0, what = 0, reason = 0;
  uint32_t thread = 0; ///< of TraceFile::threads()
};

struct TraceThread {
  std::string pid, tid;
  std::string name; ///< empty: it has none

  /// Its name, or "thread 77".
  std::string title() const;
};

/// A moment of one thread.
struct TraceMoment {
  uint32_t thread = 0;
  int64_t ns = 0;
};

/// Work that one thread handed over to another.
struct TraceFlow {
  TraceText name = 0;
  TraceMoment from, to;
};

struct TraceCounter {
  uint64_t samples = 0;
  double last = 0, most = 0;
};

/// The parts of a file that were not used, or not as they are.
struct TraceFaults {
  uint64_t damaged = 0;  ///< events that cannot be read
  uint64_t unknown = 0;  ///< events of kinds that have no place here
  uint64_t negative = 0; ///< durations below 0, taken for 0
  uint64_t unpaired = 0; ///< ends without a begin
  uint64_t open = 0;     ///< begins without an end, which end with the trace
  uint64_t handedOver = 0, received = 0; ///< flows with one end
  uint64_t unwritten = 0; ///< events that the writer had to leave out
  bool isCut = false;     ///< the file ended before its document did
  std::string first;      ///< the first damaged event
};

/// A whole trace in memory: about 40 bytes an interval, and each text once.
class TraceFile {
public:
  /// Reads the file \p path event by event. A file that was cut at any byte
  /// has the events in front of the cut. Errors (InvalidArgument): it cannot
  /// be read, or is not a Chrome trace.
  static llvm::Expected<TraceFile> read(const std::string &path);

  /// The text of a valid document with all events of the file \p path that are
  /// valid, unchanged, and with what stands in front of them. Errors as read().
  /// Needs the memory for all of it.
  static llvm::Expected<std::string> close(const std::string &path);

  llvm::StringRef text(TraceText id) const { return texts[id]; }
  /// In the order of the file.
  llvm::ArrayRef<TraceInterval> intervals() const { return allIntervals; }
  llvm::ArrayRef<TraceThread> threads() const { return allThreads; }
  llvm::ArrayRef<TraceFlow> flows() const { return allFlows; }
  const std::map<std::string, TraceCounter> &counters() const {
    return allCounters;
  }
  /// How often each instant was met.
  const std::map<std::string, uint64_t> &instants() const {
    return allInstants;
  }
  const TraceFaults &faults() const { return allFaults; }

  /// From the header, as far as there is one: "kiln", "pid", "device",
  /// "unix_ns".
  std::string about(llvm::StringRef key) const;
  /// Whether an engine of Kiln wrote it.
  bool isOurs() const { return header.count("kiln") > 0; }
  /// When the first interval begins; 0 without one.
  int64_t startNs() const { return firstNs; }
  int64_t endNs() const { return lastNs; }

private:
  friend class TraceReader;
  TraceFile() = default;

  llvm::StringMap<TraceText> ids;
  std::vector<llvm::StringRef> texts; ///< keys of ids
  std::vector<TraceInterval> allIntervals;
  std::vector<TraceThread> allThreads;
  std::vector<TraceFlow> allFlows;
  std::map<std::string, TraceCounter> allCounters;
  std::map<std::string, uint64_t> allInstants;
  std::map<std::string, std::string> header;
  TraceFaults allFaults;
  int64_t firstNs = 0, lastNs = 0;
};

} // namespace kiln::cli
