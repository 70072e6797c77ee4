//===- Stats.cpp - kiln stats: the counts of a running engine -------------===//
#include "Support/Json.h"
#include "Support/Printable.h"
#include "cli/Console.h"
#include "cli/Report.h"
#include "kiln/Commands.h"
#include "kiln/StatisticsFile.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <chrono>

namespace kiln::cli {

namespace {

/// Counts by group, the waits, and their sums by phase.
class StatsReport final : public Report {
public:
  StatsReport(StatisticsFile file, size_t top)
      : file(std::move(file)), top(top) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  /// The waits that ended in one phase.
  struct PhaseSum {
    std::string phase;
    uint64_t count = 0;
    double elapsedMs = 0, phaseMs = 0, longestMs = 0;
  };
  /// The one with the most time first.
  std::vector<PhaseSum> sums() const;
  double secondsSince(uint64_t unixNs) const;
  void printCounts(llvm::raw_ostream &os) const;
  void printMemory(llvm::raw_ostream &os) const;
  void printWaits(llvm::raw_ostream &os) const;

  StatisticsFile file;
  size_t top;
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

/// The fields of a group begin with one of these.
struct CountGroup {
  llvm::StringLiteral name;
  std::initializer_list<llvm::StringLiteral> beginnings;
};

constexpr llvm::StringLiteral kBytes = "_bytes", kPeakBytes = "_peak_bytes";

} // namespace

static bool isMemory(llvm::StringRef field) { return field.ends_with(kBytes); }

/// Fields of later versions find their group as well, or are others.
static llvm::StringRef groupOf(llvm::StringRef field) {
  const CountGroup groups[] = {
      {"calls", {"launch", "dispatch", "fallback", "plan", "wait"}},
      {"cache", {"cache"}},
      {"compile", {"compile", "load"}},
      {"trials", {"trial", "tune"}},
      {"background", {"background"}},
  };
  for (const CountGroup &group : groups)
    for (llvm::StringRef beginning : group.beginnings)
      if (field.starts_with(beginning))
        return group.name;
  return "other";
}

static std::string countText(llvm::StringRef field, double value) {
  constexpr double kMsPerNs = 1e-6;
  if (field.ends_with("_ns"))
    return fmt::format("{:.3f} ms", value * kMsPerNs);
  return fmt::format("{:.17g}", value);
}

static std::string mebibytesText(double bytes) {
  constexpr double kMebibyte = 1 << 20;
  return fmt::format("{:.2f}", bytes / kMebibyte);
}

double StatsReport::secondsSince(uint64_t unixNs) const {
  using namespace std::chrono;
  const double nowNs =
      double(duration_cast<nanoseconds>(now.time_since_epoch()).count());
  return std::max(0.0, (nowNs - double(unixNs)) * 1e-9);
}

std::vector<StatsReport::PhaseSum> StatsReport::sums() const {
  std::map<std::string, PhaseSum> byPhase;
  for (const WaitedCall &wait : file.waits) {
    PhaseSum &sum = byPhase[wait.phase];
    sum.phase = wait.phase;
    ++sum.count;
    sum.elapsedMs += wait.elapsedMs;
    sum.phaseMs += wait.phaseMs;
    sum.longestMs = std::max(sum.longestMs, wait.elapsedMs);
  }
  std::vector<PhaseSum> sums;
  for (const auto &entry : byPhase)
    sums.push_back(entry.second);
  llvm::stable_sort(sums, [](const PhaseSum &a, const PhaseSum &b) {
    return a.elapsedMs > b.elapsedMs;
  });
  return sums;
}

void StatsReport::printCounts(llvm::raw_ostream &os) const {
  Table table({"group", "count", ">value"});
  for (llvm::StringRef group :
       {"calls", "cache", "compile", "trials", "background", "other"}) {
    bool isFirst = true;
    for (const auto &[field, value] : file.counts) {
      if (isMemory(field) || groupOf(field) != group)
        continue;
      table.addRow(
          {isFirst ? group.str() : "", field, countText(field, value)});
      isFirst = false;
    }
  }
  if (table.empty())
    return;
  os << '\n';
  table.print(os);
}

void StatsReport::printMemory(llvm::raw_ostream &os) const {
  // A memory may have a peak alone, or none.
  std::map<std::string, std::pair<std::string, std::string>> rows;
  for (const auto &[field, value] : file.counts) {
    llvm::StringRef name = field;
    if (name.consume_back(kPeakBytes))
      rows[name.str()].second = mebibytesText(value);
    else if (name.consume_back(kBytes))
      rows[name.str()].first = mebibytesText(value);
  }
  if (rows.empty())
    return;
  Table table({"memory", ">MiB now", ">MiB at most"});
  for (const auto &[name, cells] : rows)
    table.addRow({name, cells.first, cells.second});
  os << '\n';
  table.print(os);
}

void StatsReport::printWaits(llvm::raw_ostream &os) const {
  if (file.waits.empty())
    return;
  Table sumTable(
      {"most of it", ">calls", ">ms", ">ms in that phase", ">longest ms"});
  for (const PhaseSum &sum : sums())
    sumTable.addRow({sum.phase, fmt::to_string(sum.count),
                     fmt::format("{:.3f}", sum.elapsedMs),
                     fmt::format("{:.3f}", sum.phaseMs),
                     fmt::format("{:.3f}", sum.longestMs)});
  os << "\ncalls that waited, by the phase that took most of their time\n";
  sumTable.print(os);

  Table table({">ms", "call", "most of it", ">ms of it", ">ago", "thread",
               "reason", "problem"});
  for (const WaitedCall &wait : llvm::ArrayRef(file.waits).take_front(top))
    table.addRow(
        {fmt::format("{:.3f}", wait.elapsedMs), wait.call, wait.phase,
         fmt::format("{:.3f}", wait.phaseMs),
         wait.startUnixNs == 0 ? "" : formatAge(secondsSince(wait.startUnixNs)),
         wait.thread, wait.reason, wait.problem});
  os << fmt::format("\nthe longest waits, {} of {}\n",
                    std::min(top, file.waits.size()), file.waits.size());
  table.print(os);
}

void StatsReport::print(llvm::raw_ostream &os) const {
  os << printable(file.path) << '\n';
  auto tell = [&](llvm::StringRef lead, llvm::StringRef text,
                  llvm::StringRef end) {
    if (!text.empty())
      os << lead << printable(text) << end;
  };
  tell("engine ", file.engine, " ");
  tell("of process ", file.pid, " ");
  tell("(kiln ", file.version, ") ");
  if (file.unixNs != 0)
    os << "wrote it " << formatAge(secondsSince(file.unixNs)) << " ago";
  os << '\n';
  printCounts(os);
  printMemory(os);
  printWaits(os);
  if (file.odd > 0)
    os << fmt::format("\nnote: {} counts or waits cannot be read\n", file.odd);
}

llvm::json::Object StatsReport::toJson() const {
  llvm::json::Object document(file.document);
  llvm::json::Object phases;
  for (const PhaseSum &sum : sums())
    phases[jsonText(sum.phase)] =
        llvm::json::Object{{"count", sum.count},
                           {"elapsed_ms", rounded(sum.elapsedMs, 9)},
                           {"phase_ms", rounded(sum.phaseMs, 9)},
                           {"longest_ms", rounded(sum.longestMs, 9)}};
  document["file"] = jsonText(file.path);
  document["age_s"] = file.unixNs == 0 ? llvm::json::Value(nullptr)
                                       : rounded(secondsSince(file.unixNs), 4);
  document["waits_by_phase"] = std::move(phases);
  return document;
}

static llvm::Expected<int> runStats(const ParsedOptions &options) {
  if (options.operands().size() != 1)
    return makeError(
        ErrorCode::InvalidArgument,
        "stats: give one file, as KILN_STATISTICS named it, or the "
        "number of a process");
  auto top = options.number("--top", 20);
  if (!top)
    return top.takeError();
  auto path = findStatistics(options.operands().front());
  if (!path)
    return path.takeError();
  auto file = StatisticsFile::read(*path);
  if (!file)
    return file.takeError();
  return emit(StatsReport(std::move(*file), *top), options.wantsJson());
}

static constexpr OptionSpec kStatsOptions[] = {
    {"--top", "N", "longest waits to show, default 20"},
};

const CommandSpec kStatsCommand = {
    "stats",
    "FILE|PID",
    "show the counts of an engine and the calls that waited, while it runs",
    "An engine keeps this file up to date where the environment has "
    "KILN_STATISTICS=FILE. With the number of a process the file is found by "
    "the environment that the process was started with; that takes the same "
    "user. Counts are those of kiln_statistics, and have its names.\n  kiln "
    "stats 4711",
    kStatsOptions,
    runStats,
};

} // namespace kiln::cli
