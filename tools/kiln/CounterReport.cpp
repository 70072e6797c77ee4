//===- CounterReport.cpp --------------------------------------------------===//
#include "kiln/CounterReport.h"

#include "Support/Format.h"
#include "Support/Json.h"
#include "kiln/ProfileReport.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>

namespace kiln::cli {

namespace {

// Names of ncu.
constexpr const char *kDuration = "gpu__time_duration.sum";
constexpr const char *kCycles = "sm__cycles_elapsed.max";
constexpr const char *kRegisters = "launch__registers_per_thread";
constexpr const char *kSpillLoads = "smsp__inst_executed_op_local_ld.sum";
constexpr const char *kSpillStores = "smsp__inst_executed_op_local_st.sum";
constexpr const char *kShared = "launch__shared_mem_per_block";
constexpr const char *kLimits[] = {
    "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps", "launch__occupancy_limit_blocks"};
constexpr const char *kLimitNames[] = {"registers", "shared", "warps",
                                       "blocks"};
constexpr const char *kOccupancy =
    "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr const char *kL2Hits = "lts__t_sector_hit_rate.pct";
constexpr const char *kDramRead = "dram__bytes_read.sum";
constexpr const char *kDramWrite = "dram__bytes_write.sum";
constexpr const char *kDramShare =
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed";
constexpr const char *kTensorShare =
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";

std::optional<double> meanOf(const CounterRow &row, const char *metric) {
  auto found = row.means.find(metric);
  if (found == row.means.end())
    return std::nullopt;
  return found->second;
}

std::optional<double> sumOf(const CounterRow &row, const char *one,
                            const char *other) {
  auto a = meanOf(row, one), b = meanOf(row, other);
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

std::string cell(std::optional<double> value, double scale = 1,
                 int digits = 0) {
  return value ? fmt::format("{:.{}f}", *value * scale, digits) : "-";
}

/// "2 by registers": the blocks of an SM, and the limit that sets them.
std::string limitCell(const CounterRow &row) {
  std::optional<double> least;
  const char *by = "";
  for (size_t i = 0; i < std::size(kLimits); ++i)
    if (auto limit = meanOf(row, kLimits[i]);
        limit && (!least || *limit < *least)) {
      least = limit;
      by = kLimitNames[i];
    }
  return least ? fmt::format("{:.0f} by {}", *least, by) : "-";
}

/// The value of the first step of \p derivation that is called \p name.
std::optional<double> stepOf(const Derivation &derivation,
                             llvm::StringRef name) {
  const DerivationStep *step = derivation.find(name);
  return step ? std::optional(step->value()) : std::nullopt;
}

} // namespace

std::vector<std::string> reportedMetrics() {
  std::vector<std::string> metrics = {
      kDuration,  kCycles, kRegisters, kSpillLoads, kSpillStores, kShared,
      kOccupancy, kL2Hits, kDramRead,  kDramWrite,  kDramShare,   kTensorShare};
  metrics.insert(metrics.end(), std::begin(kLimits), std::end(kLimits));
  return metrics;
}

CounterEstimate CounterEstimate::of(const Explanation &explanation) {
  const kiln::Estimate &estimate = explanation.subject.estimate;
  CounterEstimate result;
  result.ns = estimate.totalNs;
  result.bound = estimate.bound.str();
  const Derivation &derivation = explanation.derivation;
  result.blocksPerSm = stepOf(derivation, "blocks of an SM");
  result.dramBytes = stepOf(derivation, "bytes from DRAM");
  return result;
}

void CounterReport::add(const CountedLaunches &counted, const Case *which,
                        const Registry &registry) {
  const size_t first = rows.size();
  std::map<std::string, std::map<std::string, size_t>> counts;
  for (const CountedLaunch &launch : counted.launches) {
    auto known = std::find_if(
        rows.begin() + static_cast<ptrdiff_t>(first), rows.end(),
        [&](const CounterRow &row) { return row.name == launch.kernel; });
    if (known == rows.end()) {
      rows.push_back({which,
                      launch.kernel,
                      shownKernel(registry, launch.kernel),
                      0,
                      {},
                      {}});
      known = std::prev(rows.end());
    }
    ++known->launches;
    for (const auto &[metric, value] : launch.values) {
      const auto n = static_cast<double>(++counts[launch.kernel][metric]);
      double &mean = known->means[metric];
      mean += (value - mean) / n;
    }
  }
  for (const std::string &metric : counted.missing)
    if (!llvm::is_contained(missing, metric))
      missing.push_back(metric);
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// The prediction for a kernel.
static std::string estimateLine(const CounterEstimate &estimate) {
  std::string line =
      fmt::format("{:.2f} us, bound by {}", estimate.ns * 1e-3, estimate.bound);
  if (estimate.blocksPerSm)
    line += fmt::format(", {:.0f} blocks an SM", *estimate.blocksPerSm);
  if (estimate.dramBytes)
    line += fmt::format(", {:.2f} MB of DRAM", *estimate.dramBytes * 1e-6);
  return line;
}

void CounterReport::print(llvm::raw_ostream &os) const {
  Table table({"kernel", ">launches", ">us", ">cycles", ">regs", ">spills",
               ">smem KiB", "blocks/SM", ">occ %", ">L2 hit %", ">DRAM MB",
               ">DRAM %", ">tensor %"});
  for (const CounterRow &row : rows)
    table.addRow({row.shown, fmt::format("{}", row.launches),
                  cell(meanOf(row, kDuration), 1e-3, 2),
                  cell(meanOf(row, kCycles)), cell(meanOf(row, kRegisters)),
                  cell(sumOf(row, kSpillLoads, kSpillStores)),
                  cell(meanOf(row, kShared), 1.0 / 1024, 1), limitCell(row),
                  cell(meanOf(row, kOccupancy), 1, 1),
                  cell(meanOf(row, kL2Hits), 1, 1),
                  cell(sumOf(row, kDramRead, kDramWrite), 1e-6, 2),
                  cell(meanOf(row, kDramShare), 1, 1),
                  cell(meanOf(row, kTensorShare), 1, 1)});
  table.print(os);
  for (const CounterRow &row : rows)
    if (row.estimate)
      os << fmt::format("estimate of {}: {}\n", row.which->name,
                        estimateLine(*row.estimate));
  if (!missing.empty())
    os << fmt::format("note: this GPU lacks {}\n", fmt::join(missing, ", "));
}

llvm::json::Object CounterReport::toJson() const {
  llvm::json::Array list;
  for (const CounterRow &row : rows) {
    llvm::json::Object object{{"kernel", jsonText(row.shown)},
                              {"name", jsonText(row.name)},
                              {"launches", int64_t(row.launches)}};
    llvm::json::Object means;
    for (const auto &[metric, value] : row.means)
      means[metric] = rounded(value);
    object["counters"] = std::move(means);
    if (row.which)
      object["case"] = jsonText(row.which->name);
    if (const auto &estimate = row.estimate) {
      llvm::json::Object predicted{{"us", rounded(estimate->ns * 1e-3)},
                                   {"bound", estimate->bound}};
      if (estimate->blocksPerSm)
        predicted["blocksPerSm"] = rounded(*estimate->blocksPerSm);
      if (estimate->dramBytes)
        predicted["dramBytes"] = rounded(*estimate->dramBytes);
      object["estimate"] = std::move(predicted);
    }
    list.push_back(std::move(object));
  }
  return llvm::json::Object{{"kernels", std::move(list)},
                            {"missing", textsToJson(missing)}};
}

} // namespace kiln::cli
