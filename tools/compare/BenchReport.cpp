//===- BenchReport.cpp ----------------------------------------------------===//
#include "compare/BenchReport.h"

#include "Store/Records.h"
#include "Support/Error.h"
#include "Support/Json.h"
#include "cli/Console.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace kiln::cli {

static double ratioOf(const SampleSummary &peer, const SampleSummary &kiln) {
  return peer.count && kiln.count && kiln.median > 0 ? peer.median / kiln.median
                                                     : 0;
}

double BenchRow::ratio() const { return ratioOf(peer, kiln); }
double BenchRow::bestRatio() const { return ratioOf(best, kiln); }

double BenchRow::tflops() const {
  if (kiln.median <= 0)
    return 0;
  const auto &[family, problem] = which->named;
  return family->flops(problem) / kiln.median * 1e-3;
}

double BenchRow::peakShare() const {
  return kiln.median > 0 ? peakNs / kiln.median : 0;
}
double BenchRow::rooflineShare() const {
  return kiln.median > 0 ? rooflineNs / kiln.median : 0;
}

double BenchRow::gbs() const {
  return kiln.median > 0
             ? static_cast<double>(baseline.bytes.total()) / kiln.median
             : 0;
}

double BenchRow::baselineGbs() const {
  return baseline.ns.median > 0
             ? static_cast<double>(baseline.bytes.total()) / baseline.ns.median
             : 0;
}

double BenchRow::fraction() const { return ratioOf(baseline.ns, kiln); }

double spreadOf(const SampleSummary &summary) {
  return summary.median > 0
             ? (summary.ciHigh - summary.ciLow) / 2 / summary.median
             : 0;
}

std::vector<BenchReport::Group> BenchReport::groups() const {
  struct Range {
    const char *name;
    int64_t least, greatest;
  };
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  static constexpr Range kRanges[] = {{"m<=16", 0, 16},
                                      {"m=17..511", 17, 511},
                                      {"m>=512", 512, kAny},
                                      {"all", 0, kAny}};
  std::vector<Group> groups;
  for (const Range &range : kRanges) {
    Group group{range.name, {}, {}};
    for (const BenchRow &row : rows) {
      if (row.hasCopyBaseline())
        continue;
      const auto &[family, problem] = row.which->named;
      const int64_t m = dynamicExtentsOf(*family, problem).front();
      if (m < range.least || m > range.greatest)
        continue;
      if (row.ratio() > 0)
        group.ratios.push_back(row.ratio());
      if (row.bestRatio() > 0)
        group.bestRatios.push_back(row.bestRatio());
    }
    if (!group.ratios.empty())
      groups.push_back(std::move(group));
  }
  return groups;
}

/// Some words on a case's result.
static std::string verdictOf(const BenchRow &row) {
  if (!row.error.empty())
    return "failed";
  if (row.verdict && row.verdict->unknown.empty())
    return row.verdict->text();
  if (!row.correct)
    return "WRONG";
  if (row.verdict)
    return "yes, peer differs";
  return row.peerKind.empty() ? "yes" : "yes, peer of another kind";
}

static std::string timeText(const SampleSummary &summary) {
  return summary.count ? formatUs(summary.median) : std::string("n/a");
}

static std::string ratioText(double value) {
  return value > 0 ? fmt::format("{:.3f}", value) : std::string();
}

/// "all: 93 cases, ratio geomean 0.780, least 0.510, greatest 1.350".
static std::string groupText(llvm::StringRef name, llvm::StringRef what,
                             llvm::ArrayRef<double> values) {
  return fmt::format("{}: {} case{}, {} geomean {:.3f}, least {:.3f}, "
                     "greatest {:.3f}",
                     name, values.size(), values.size() == 1 ? "" : "s", what,
                     geomean(values),
                     *std::min_element(values.begin(), values.end()),
                     *std::max_element(values.begin(), values.end()));
}

std::vector<BenchReport::Group> BenchReport::baselineGroups() const {
  constexpr int64_t kLargeBytes = 100'000'000;
  Group large{"over 100 MB", {}, {}}, all{"all", {}, {}};
  for (const BenchRow &row : rows) {
    if (!row.hasCopyBaseline() || row.fraction() <= 0)
      continue;
    all.ratios.push_back(row.fraction());
    if (row.baseline.bytes.total() > kLargeBytes)
      large.ratios.push_back(row.fraction());
  }
  std::vector<Group> groups;
  for (Group *group : {&large, &all})
    if (!group->ratios.empty())
      groups.push_back(std::move(*group));
  return groups;
}

/// In percent; empty for 0.
static std::string shareText(double share) {
  return share > 0 ? fmt::format("{:.0f}", 100 * share) : "";
}

void BenchReport::printPeers(llvm::raw_ostream &os) const {
  Table table({"problem", "config", ">kiln us", ">+-%", ">peer us", ">ratio",
               ">best", ">TFLOP/s", ">% peak", ">% roofline", "correct"});
  for (const BenchRow &row : rows)
    if (!row.hasCopyBaseline())
      table.addRow({row.which->name, row.config, timeText(row.kiln),
                    fmt::format("{:.1f}", 100 * spreadOf(row.kiln)),
                    timeText(row.peer), ratioText(row.ratio()),
                    ratioText(row.bestRatio()), formatFigure(row.tflops()),
                    shareText(row.peakShare()), shareText(row.rooflineShare()),
                    verdictOf(row)});
  if (!table.empty())
    table.print(os);
}

void BenchReport::printBaselines(llvm::raw_ostream &os) const {
  Table table({"problem", "config", ">MB", ">kiln us", ">+-%", ">GB/s",
               ">% roofline", ">baseline us", ">GB/s", ">fraction", "baseline",
               "correct"});
  auto figure = [](double value) {
    return value > 0 ? formatFigure(value) : std::string();
  };
  constexpr double kBytesPerMB = 1e6;
  for (const BenchRow &row : rows) {
    if (!row.hasCopyBaseline())
      continue;
    auto bytes = static_cast<double>(row.baseline.bytes.total());
    table.addRow(
        {row.which->name, row.config, figure(bytes / kBytesPerMB),
         timeText(row.kiln), fmt::format("{:.1f}", 100 * spreadOf(row.kiln)),
         figure(row.gbs()), shareText(row.rooflineShare()),
         timeText(row.baseline.ns), figure(row.baselineGbs()),
         ratioText(row.fraction()), row.baseline.variant, verdictOf(row)});
  }
  if (!table.empty())
    table.print(os);
}

/// Calls of an engine. Its config is not the measured one where that was named,
/// or the record came later.
void BenchReport::printCalls(llvm::raw_ostream &os) const {
  Table table({"call of an engine", "config", ">wall us", ">host us"});
  for (const BenchRow &row : rows)
    if (row.call)
      table.addRow({row.which->name, row.call->config,
                    formatUs(row.call->wallNs), formatUs(row.call->hostNs)});
  if (!table.empty())
    table.print(os);
}

void BenchReport::print(llvm::raw_ostream &os) const {
  setting.print(os);
  printPeers(os);
  printBaselines(os);
  printCalls(os);
  std::set<std::string> errors;
  for (const BenchRow &row : rows)
    if (!row.error.empty())
      errors.insert(
          fmt::format("failed: {}: {}", row.which->name, onOneLine(row.error)));
    else if (!row.noPeer.empty())
      errors.insert(fmt::format("{} n/a: {}: {}",
                                row.hasCopyBaseline() ? "baseline" : "peer",
                                row.which->name, onOneLine(row.noPeer)));
    else if (!row.peerKind.empty())
      errors.insert(fmt::format("peer of another kind, not compared: {}: {}",
                                row.which->name, row.peerKind));
  for (const std::string &error : errors)
    os << error << '\n';
  printVerdicts(os);
  for (const Group &group : groups()) {
    os << groupText(group.name, "ratio", group.ratios);
    if (!group.bestRatios.empty())
      os << fmt::format("; to the best of all its algorithms {:.3f}",
                        geomean(group.bestRatios));
    os << '\n';
  }
  for (const Group &group : baselineGroups())
    os << groupText(group.name, "fraction of the copy baseline", group.ratios)
       << '\n';
  peaks.print(os);
}

/// The reference's verdict on both sides, where results differ.
void BenchReport::printVerdicts(llvm::raw_ostream &os) const {
  bool isFirst = true;
  for (const BenchRow &row : rows) {
    if (!row.verdict)
      continue;
    if (std::exchange(isFirst, false))
      os << "results that differ, by the family's reference; errors in units "
            "of the tolerance:\n";
    const std::string details = onOneLine(row.verdict->details());
    os << fmt::format("  {}: {}{}{}\n", row.which->name, row.verdict->text(),
                      details.empty() ? "" : "; ", details);
  }
}

static llvm::json::Value numberOrNull(double value) {
  return value > 0 ? rounded(value) : llvm::json::Value(nullptr);
}

/// The members of a case with a peer.
static void addPeer(const BenchRow &row, llvm::json::Object &object) {
  object["peer_us"] = numberOrNull(row.peer.median * 1e-3);
  object["peer_spread"] = rounded(spreadOf(row.peer), 3);
  object["ratio"] = numberOrNull(row.ratio());
  object["tflops"] = rounded(row.tflops(), 4);
  if (row.agrees)
    object["agrees"] = *row.agrees;
  if (row.verdict)
    row.verdict->addTo(object);
  if (row.algorithms > 0) {
    object["peer_best_us"] = numberOrNull(row.best.median * 1e-3);
    object["peer_algorithms"] = static_cast<int64_t>(row.algorithms);
    object["ratio_best"] = numberOrNull(row.bestRatio());
  }
  if (!row.peerKind.empty())
    object["peer_computes"] = row.peerKind;
  if (!row.noPeer.empty())
    object["no_peer"] = jsonText(row.noPeer);
}

/// The members of a memory-bound case.
static void addBaseline(const BenchRow &row, llvm::json::Object &object) {
  const BaselineResult &baseline = row.baseline;
  object["bytes"] = baseline.bytes.total();
  object["read_bytes"] = baseline.bytes.read;
  object["written_bytes"] = baseline.bytes.written;
  object["gbs"] = numberOrNull(row.gbs());
  object["stream"] = baseline.variant;
  object["stream_variants"] = static_cast<int64_t>(baseline.variants);
  object["stream_us"] = numberOrNull(baseline.ns.median * 1e-3);
  object["stream_spread"] = rounded(spreadOf(baseline.ns), 3);
  object["stream_gbs"] = numberOrNull(row.baselineGbs());
  object["fraction"] = numberOrNull(row.fraction());
  if (!row.noPeer.empty())
    object["no_stream"] = jsonText(row.noPeer);
}

static llvm::json::Object rowToJson(const BenchRow &row) {
  // The problem's own keys: m, n, k, dtype, ...
  llvm::json::Object object = row.which->named.problem.values.toJson();
  object["name"] = row.which->name;
  object["family"] = row.which->named.family->name();
  object["config"] = row.config;
  object["from"] = row.from;
  object["kiln_us"] = numberOrNull(row.kiln.median * 1e-3);
  object["kiln_spread"] = rounded(spreadOf(row.kiln), 3);
  object["peak_share"] = numberOrNull(row.peakShare());
  object["roofline_share"] = numberOrNull(row.rooflineShare());
  object["samples"] = static_cast<int64_t>(row.kiln.count);
  object["launches"] = row.launches;
  object["copies"] = row.copies;
  object["correct"] = row.correct;
  if (row.call)
    object["call"] =
        llvm::json::Object{{"config", row.call->config},
                           {"wall_us", rounded(row.call->wallNs * 1e-3)},
                           {"host_us", rounded(row.call->hostNs * 1e-3)}};
  if (row.hasCopyBaseline())
    addBaseline(row, object);
  else
    addPeer(row, object);
  if (!row.error.empty())
    object["error"] = jsonText(row.error);
  return object;
}

/// Geometric mean and extremes of ratios, of which there is one at least.
static llvm::json::Object groupToJson(llvm::ArrayRef<double> ratios) {
  return llvm::json::Object{
      {"cases", static_cast<int64_t>(ratios.size())},
      {"geomean", rounded(geomean(ratios), 4)},
      {"least", rounded(*std::min_element(ratios.begin(), ratios.end()), 4)},
      {"greatest",
       rounded(*std::max_element(ratios.begin(), ratios.end()), 4)}};
}

llvm::json::Object BenchReport::toJson() const {
  llvm::json::Array cases;
  for (const BenchRow &row : rows)
    cases.push_back(rowToJson(row));
  llvm::json::Object summary, streams;
  for (const Group &group : groups()) {
    llvm::json::Object one = groupToJson(group.ratios);
    if (!group.bestRatios.empty())
      one["geomean_to_best"] = rounded(geomean(group.bestRatios), 4);
    summary[group.name] = std::move(one);
  }
  for (const Group &group : baselineGroups())
    streams[group.name] = groupToJson(group.ratios);
  if (!streams.empty())
    summary["stream"] = std::move(streams);
  llvm::json::Object object = setting.toJson();
  object["hot"] = setting.hot;
  object["interrupted"] = interrupted;
  object["peak_bytes"] = peaks.toJson();
  object["cases"] = std::move(cases);
  object["summary"] = std::move(summary);
  return object;
}

int BenchReport::exitCode() const {
  for (const BenchRow &row : rows)
    if (!row.error.empty() || !row.correct)
      return kExitSomeFailed;
  return interrupted ? kExitSomeFailed : kExitDone;
}

} // namespace kiln::cli
