//===- DrawReport.cpp -----------------------------------------------------===//
#include "kiln-bench/DrawReport.h"

#include "Support/Error.h"
#include "Support/Json.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <limits>
#include <set>

namespace kiln::cli {

llvm::StringRef nameOf(DrawState state) {
  switch (state) {
  case DrawState::First:
    return "first";
  case DrawState::Met:
    return "met";
  case DrawState::Tuned:
    return "tuned";
  case DrawState::Prepared:
    return "prepared";
  }
  return "unknown";
}

double DrawRow::ratio(size_t state) const {
  const SampleSummary &own = sides[state].ns;
  return peer.count && own.count && own.median > 0 ? peer.median / own.median
                                                   : 0;
}

double DrawRow::gbs(size_t state) const {
  const SampleSummary &own = sides[state].ns;
  return own.median > 0 ? static_cast<double>(bytes.total()) / own.median : 0;
}

//===----------------------------------------------------------------------===//
// Groups of cases
//===----------------------------------------------------------------------===//

/// Bytes that a memory-bound case moves: below the first, launches set the pace
/// as much as memory does.
static constexpr Band kByteBands[] = {
    {"less than 10 MB", 0, 10'000'000 - 1},
    {"10 to 100 MB", 10'000'000, 100'000'000},
    {"over 100 MB", 100'000'001, std::numeric_limits<int64_t>::max()}};

bool DrawReport::hasCopyBaseline() const {
  return llvm::any_of(rows,
                      [](const DrawRow &row) { return row.hasCopyBaseline(); });
}

std::vector<DrawReport::Group> DrawReport::bands() const {
  std::vector<Group> groups;
  if (hasCopyBaseline())
    for (const Band &band : kByteBands)
      groups.push_back({band.name, [&band](const DrawRow &row) {
                          return band.holds(row.bytes.total());
                        }});
  else
    for (const Band &band : kBands)
      groups.push_back({band.name, [&band](const DrawRow &row) {
                          return band.holds(row.drawn.values.front());
                        }});
  return groups;
}

DrawReport::Group DrawReport::everyCase() {
  return {"all", [](const DrawRow &) { return true; }};
}

DrawReport::Group DrawReport::ofSeed(uint64_t seed) {
  return {fmt::format("seed {}", seed),
          [seed](const DrawRow &row) { return row.drawn.seed == seed; }};
}

/// The common beginning of the names of layers of one kind.
static llvm::StringRef kindOf(const DrawRow &row) {
  return llvm::StringRef(row.which->name).split('/').first;
}

std::vector<DrawReport::Group> DrawReport::groups() const {
  std::vector<Group> groups;
  std::vector<std::string> keys;
  for (auto [range, isFixed] : llvm::zip(ranges, fixed))
    if (isFixed)
      keys.push_back(range.key);
  auto isOdd = [this](const DrawRow &row) {
    for (auto [value, isFixed] : llvm::zip(row.drawn.values, fixed))
      if (isFixed && value % 2 != 0)
        return true;
    return false;
  };
  if (!keys.empty()) {
    const std::string which = fmt::format("{}", fmt::join(keys, " or "));
    groups.push_back({"odd " + which, isOdd});
    groups.push_back({"no odd " + which,
                      [isOdd](const DrawRow &row) { return !isOdd(row); }});
    // Where nothing but memory should count.
    const Band &large = kByteBands[std::size(kByteBands) - 1];
    if (hasCopyBaseline())
      groups.push_back({fmt::format("{}, odd {}", large.name, which),
                        [isOdd, &large](const DrawRow &row) {
                          return isOdd(row) && large.holds(row.bytes.total());
                        }});
  }
  std::vector<std::string> kinds;
  for (const DrawRow &row : rows)
    if (!llvm::is_contained(kinds, kindOf(row)))
      kinds.push_back(kindOf(row).str());
  llvm::sort(kinds);
  for (const std::string &kind : kinds)
    if (kinds.size() > 1)
      groups.push_back(
          {kind, [kind](const DrawRow &row) { return kindOf(row) == kind; }});
  return groups;
}

/// Figures of the cases of \p group that have a ratio.
RatioFigures DrawReport::figuresOf(size_t state, const Group &group) const {
  std::vector<double> ratios;
  for (const DrawRow &row : rows)
    if (group.holds(row) && row.ratio(state) > 0)
      ratios.push_back(row.ratio(state));
  return RatioFigures::of(ratios);
}

TimeFigures DrawReport::callTimes(size_t state, bool ofKnownLayers) const {
  std::vector<double> times;
  std::set<std::pair<uint64_t, size_t>> met;
  for (const DrawRow &row : rows) {
    const bool isKnown = !met.insert({row.drawn.seed, row.drawn.layer}).second;
    if (row.sides[state].callMs > 0 && (isKnown || !ofKnownLayers))
      times.push_back(row.sides[state].callMs);
  }
  return TimeFigures::of(times);
}

/// The times of preparing, over layers.
static TimeFigures layerTimes(const DrawCost &cost) {
  std::vector<double> times;
  for (const PreparedLayer &layer : cost.layers)
    times.push_back(layer.ms);
  return TimeFigures::of(times);
}

static TimeFigures layerKernels(const DrawCost &cost) {
  std::vector<double> counts;
  for (const PreparedLayer &layer : cost.layers)
    counts.push_back(static_cast<double>(layer.kernels));
  return TimeFigures::of(counts);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static std::vector<std::string> cellsOf(std::string name,
                                        const RatioFigures &figures) {
  auto percent = [](double share) {
    return fmt::format("{:.1f}", 100 * share);
  };
  return {std::move(name),
          fmt::format("{}", figures.count),
          fmt::format("{:.3f}", figures.geomean),
          fmt::format("{:.3f}", figures.least),
          fmt::format("{:.3f}", figures.tenth),
          percent(figures.below95),
          percent(figures.below90)};
}

void DrawReport::printCosts(size_t state, llvm::raw_ostream &os) const {
  const DrawCost &cost = costs[state];
  constexpr double kBytesPerMB = 1e6;
  if (TimeFigures calls = callTimes(state); calls.count > 0)
    os << fmt::format("first calls: {:.3f} s in all, median {:.3f} ms, 99 % "
                      "within {:.3f} ms, most {:.3f} ms\n",
                      calls.sum * 1e-3, calls.median, calls.p99, calls.most)
       << fmt::format(
              "  of a layer that was met before: median {:.3f} ms, most "
              "{:.3f} ms\n",
              callTimes(state, true).median, callTimes(state, true).most);
  if (cost.tuneMs > 0)
    os << fmt::format("tuned in {:.1f} s\n", cost.tuneMs * 1e-3);
  if (TimeFigures layers = layerTimes(cost); layers.count > 0) {
    const TimeFigures kernels = layerKernels(cost);
    os << fmt::format("{} layers prepared in {:.1f} s, median {:.2f} s, most "
                      "{:.2f} s; kernels a layer: median {:.0f}, most {:.0f}\n",
                      layers.count, layers.sum * 1e-3, layers.median * 1e-3,
                      layers.most * 1e-3, kernels.median, kernels.most);
  }
  os << fmt::format(
      "{} kernels compiled, {} used or kept, cubins of {:.1f} MB\n",
      cost.compiles, cost.kernels,
      static_cast<double>(cost.cubinBytes) / kBytesPerMB);
}

/// The cases that lose most.
void DrawReport::printWorst(size_t state, llvm::raw_ostream &os) const {
  constexpr size_t kShown = 12;
  constexpr double kLost = 0.97;
  std::vector<const DrawRow *> lost;
  for (const DrawRow &row : rows)
    if (row.ratio(state) > 0 && row.ratio(state) < kLost)
      lost.push_back(&row);
  llvm::stable_sort(lost, [&](const DrawRow *a, const DrawRow *b) {
    return a->ratio(state) < b->ratio(state);
  });
  Table table({"least", ">seed", "config", ">kiln us", ">peer us", ">ratio"});
  for (const DrawRow *row : llvm::ArrayRef(lost).take_front(kShown))
    table.addRow(
        {row->which->name, fmt::format("{}", row->drawn.seed),
         row->sides[state].config, formatUs(row->sides[state].ns.median),
         formatUs(row->peer.median), fmt::format("{:.3f}", row->ratio(state))});
  if (!table.empty())
    table.print(os);
}

static std::string faultOf(const DrawSide &side) {
  if (!side.error.empty())
    return onOneLine(side.error);
  return side.correct ? "the result of its first call differs from the peer's"
                      : "WRONG";
}

/// Failures and cases that are not compared, a line each.
void DrawReport::printFaults(llvm::raw_ostream &os) const {
  std::set<std::string> faults;
  for (const DrawRow &row : rows) {
    if (!row.noPeer.empty())
      faults.insert(fmt::format("peer n/a: {}: {}", row.which->name,
                                onOneLine(row.noPeer)));
    if (!row.peerKind.empty())
      faults.insert(fmt::format("peer of another kind, not compared: {}: {}",
                                row.which->name, row.peerKind));
    for (auto [state, side] : llvm::enumerate(row.sides))
      if (!side.isGood())
        faults.insert(fmt::format("{}: {}, {}: {}", row.which->name,
                                  nameOf(states[state]), side.config,
                                  faultOf(side)));
  }
  for (size_t state = 0; state < states.size(); ++state)
    for (const PreparedLayer &layer : costs[state].layers)
      if (!layer.error.empty())
        faults.insert(fmt::format("not prepared: {}: {}", layer.name,
                                  onOneLine(layer.error)));
  for (const std::string &fault : faults)
    os << fault << '\n';
}

void DrawReport::print(llvm::raw_ostream &os) const {
  setting.print(os);
  for (auto [state, kind] : llvm::enumerate(states)) {
    Table table({nameOf(kind), ">cases", ">geomean", ">least", ">tenth",
                 ">% < 0.95", ">% < 0.90"});
    std::vector<Group> all = bands();
    llvm::append_range(all, groups());
    if (seeds.size() > 1)
      for (uint64_t seed : seeds)
        all.push_back(ofSeed(seed));
    all.push_back(everyCase());
    for (const Group &group : all)
      if (auto figures = figuresOf(state, group); figures.count > 0)
        table.addRow(cellsOf(group.name, figures));
    os << '\n';
    table.print(os);
    printCosts(state, os);
    printWorst(state, os);
  }
  printFaults(os);
  if (interrupted)
    os << "ended before all was measured\n";
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static llvm::json::Value numberOrNull(double value) {
  return value > 0 ? rounded(value) : llvm::json::Value(nullptr);
}

/// Digits of a spread, which tell a tenth of a per cent apart.
static constexpr int kSpreadDigits = 4;

llvm::json::Object DrawReport::rowToJson(const DrawRow &row) const {
  // The problem's own keys: m, n, k, dtype, ...
  llvm::json::Object object = row.which->named.problem.values.toJson();
  object["name"] = row.which->name;
  object["family"] = row.which->named.family->name();
  object["seed"] = row.drawn.seed;
  object["peer_us"] = numberOrNull(row.peer.median * 1e-3);
  object["peer_spread"] = rounded(spreadOf(row.peer), kSpreadDigits);
  if (row.hasCopyBaseline()) {
    object["bytes"] = row.bytes.total();
    object["stream"] = row.variant;
  }
  if (!row.peerKind.empty())
    object["peer_computes"] = row.peerKind;
  if (!row.noPeer.empty())
    object["no_peer"] = jsonText(row.noPeer);
  for (auto [state, side] : llvm::enumerate(row.sides)) {
    llvm::json::Object one{
        {"config", side.config},
        {"kiln_us", numberOrNull(side.ns.median * 1e-3)},
        {"spread", rounded(spreadOf(side.ns), kSpreadDigits)},
        {"ratio", numberOrNull(row.ratio(state))},
        {"correct", side.correct}};
    if (row.hasCopyBaseline())
      one["gbs"] = numberOrNull(row.gbs(state));
    if (side.callMs > 0)
      one["first_call_ms"] = rounded(side.callMs);
    if (side.agrees)
      one["agrees"] = *side.agrees;
    if (!side.error.empty())
      one["error"] = jsonText(side.error);
    object[nameOf(states[state])] = std::move(one);
  }
  return object;
}

llvm::json::Object DrawReport::stateToJson(size_t state) const {
  llvm::json::Object byBand, bySeed;
  for (const Group &band : bands())
    byBand[band.name] = figuresOf(state, band).toJson();
  llvm::json::Array others; // in the order of the tables
  for (const Group &group : groups()) {
    llvm::json::Object one = figuresOf(state, group).toJson();
    one["name"] = group.name;
    others.push_back(std::move(one));
  }
  for (uint64_t seed : seeds)
    bySeed[std::to_string(seed)] = figuresOf(state, ofSeed(seed)).toJson();
  const DrawCost &cost = costs[state];
  llvm::json::Array layers;
  for (const PreparedLayer &layer : cost.layers) {
    llvm::json::Object one{{"name", layer.name},
                           {"ms", rounded(layer.ms)},
                           {"compiles", layer.compiles},
                           {"kernels", static_cast<int64_t>(layer.kernels)},
                           {"cubin_bytes", layer.cubinBytes}};
    if (!layer.error.empty())
      one["error"] = jsonText(layer.error);
    layers.push_back(std::move(one));
  }
  llvm::json::Object object{{"all", figuresOf(state, everyCase()).toJson()},
                            {"bands", std::move(byBand)},
                            {"groups", std::move(others)},
                            {"seeds", std::move(bySeed)},
                            {"compiles", cost.compiles},
                            {"kernels", static_cast<int64_t>(cost.kernels)},
                            {"cubin_bytes", cost.cubinBytes}};
  if (TimeFigures calls = callTimes(state); calls.count > 0) {
    object["first_call_ms"] = calls.toJson();
    object["known_layer_call_ms"] = callTimes(state, true).toJson();
  }
  if (cost.tuneMs > 0)
    object["tune_ms"] = rounded(cost.tuneMs);
  if (!layers.empty()) {
    object["layer_ms"] = layerTimes(cost).toJson();
    object["layer_kernels"] = layerKernels(cost).toJson();
    object["layers"] = std::move(layers);
  }
  return object;
}

llvm::json::Object DrawReport::toJson() const {
  llvm::json::Array cases;
  for (const DrawRow &row : rows)
    cases.push_back(rowToJson(row));
  llvm::json::Object summary;
  for (auto [state, kind] : llvm::enumerate(states))
    summary[nameOf(kind)] = stateToJson(state);
  llvm::json::Object object = setting.toJson();
  object["interrupted"] = interrupted;
  object["range"] = textOf(ranges);
  object["seeds"] = llvm::json::Array(seeds);
  object["cases"] = std::move(cases);
  object["draw"] = std::move(summary);
  return object;
}

int DrawReport::exitCode() const {
  for (const DrawRow &row : rows)
    for (const DrawSide &side : row.sides)
      if (!side.isGood())
        return kExitSomeFailed;
  for (const DrawCost &cost : costs)
    for (const PreparedLayer &layer : cost.layers)
      if (!layer.error.empty())
        return kExitSomeFailed;
  return interrupted ? kExitSomeFailed : kExitDone;
}

} // namespace kiln::cli
