//===- JitReport.cpp ------------------------------------------------------===//
#include "kiln-bench/JitReport.h"

#include "Support/Json.h"
#include "Trial/Statistics.h"

#include <algorithm>

namespace kiln::cli {

namespace {

/// Least, middle and greatest of some times.
struct Spread {
  double least = 0, median = 0, greatest = 0;

  explicit Spread(std::vector<double> values) {
    if (values.empty())
      return;
    std::sort(values.begin(), values.end());
    least = values.front();
    median = summarizeSamples(values).median;
    greatest = values.back();
  }
  std::string text() const {
    return fmt::format("median {:.1f}, least {:.1f}, greatest {:.1f} ms",
                       median, least, greatest);
  }
  llvm::json::Object toJson() const {
    return llvm::json::Object{{"median_ms", rounded(median)},
                              {"min_ms", rounded(least)},
                              {"max_ms", rounded(greatest)}};
  }
};

} // namespace

template <class T, class Get>
static Spread spreadOf(const std::vector<T> &values, Get get) {
  std::vector<double> times;
  for (const T &value : values)
    times.push_back(get(value));
  return Spread(std::move(times));
}

static Spread compileSpread(const std::vector<CompiledKernel> &kernels) {
  return spreadOf(kernels, [](const CompiledKernel &k) { return k.minMs; });
}

static Spread hitSpread(const std::vector<HitTime> &hits) {
  return spreadOf(hits, [](const HitTime &hit) { return hit.ms; });
}

/// Figures of the rows that have the time.
template <class Get>
static Spread newSpread(const std::vector<NewProblem> &rows, Get get) {
  std::vector<double> times;
  for (const NewProblem &row : rows)
    if (row.error.empty())
      times.push_back(get(row));
  return Spread(std::move(times));
}

static Spread ownSpread(const std::vector<NewProblem> &rows) {
  return newSpread(rows, [](const NewProblem &row) { return row.ownMs(); });
}
static Spread tuneSpread(const std::vector<NewProblem> &rows) {
  return newSpread(rows, [](const NewProblem &row) { return row.tuneMs; });
}
static Spread cachedSpread(const std::vector<NewProblem> &rows) {
  return newSpread(rows, [](const NewProblem &row) { return row.cachedMs; });
}

static void printNew(const std::vector<NewProblem> &rows,
                     llvm::raw_ostream &os) {
  Table table({"new problem", ">predict", ">of it compiling", ">tune",
               ">cached", "ms; failed"});
  for (const NewProblem &row : rows) {
    auto ms = [](double value) { return fmt::format("{:.2f}", value); };
    table.addRow({row.name, ms(row.predictMs), ms(row.compileMs),
                  ms(row.tuneMs), ms(row.cachedMs), row.error});
  }
  table.print(os);
  os << fmt::format("new problem, mode predict without compiling: {}\n",
                    ownSpread(rows).text())
     << fmt::format("new problem, mode tune: {}\n", tuneSpread(rows).text())
     << fmt::format("new problem, prepare and launch from a warm cache: {}\n",
                    cachedSpread(rows).text());
}

static llvm::json::Object newToJson(const std::vector<NewProblem> &rows) {
  llvm::json::Array list;
  for (const NewProblem &row : rows) {
    llvm::json::Object object{{"name", row.name},
                              {"predict_ms", rounded(row.predictMs)},
                              {"compile_ms", rounded(row.compileMs)},
                              {"tune_ms", rounded(row.tuneMs)},
                              {"cached_ms", rounded(row.cachedMs)}};
    if (!row.error.empty())
      object["error"] = jsonText(row.error);
    list.push_back(std::move(object));
  }
  return llvm::json::Object{
      {"problems", std::move(list)},
      {"predict_without_compiling", ownSpread(rows).toJson()},
      {"tune", tuneSpread(rows).toJson()},
      {"cached", cachedSpread(rows).toJson()}};
}

void JitReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{}, {}; {} cases, {} chosen by records\n", device,
                    toolchain, cases, recorded);
  Table table({"kernel", ">ms", ">front end", ">nvvm", ">ptxas"});
  for (const CompiledKernel &kernel : kernels) {
    auto ms = [](double value) { return fmt::format("{:.1f}", value); };
    table.addRow({kernel.config, ms(kernel.minMs), ms(kernel.phases.frontEndMs),
                  ms(kernel.phases.nvvmMs), ms(kernel.phases.ptxasMs)});
  }
  table.print(os);
  os << fmt::format("{} kernels, one thread, least of {}: {}\n", kernels.size(),
                    repeats, compileSpread(kernels).text())
     << fmt::format("{} threads: {:.1f} kernels/s\n", threads,
                    kernelsPerSecond);
  if (!noHits.empty())
    os << fmt::format("cache to first launch: not measured, {}\n", noHits);
  else
    os << fmt::format("cache to first launch, {} cases: {}{}\n", hits.size(),
                      hitSpread(hits).text(),
                      compilerStayedOut ? "" : "; NVRTC was loaded");
  if (!newProblems.empty())
    printNew(newProblems, os);
}

llvm::json::Object JitReport::toJson() const {
  llvm::json::Array list, hitList;
  for (const CompiledKernel &kernel : kernels)
    list.push_back(
        llvm::json::Object{{"config", kernel.config},
                           {"arch", kernel.unit.arch()},
                           {"min_ms", rounded(kernel.minMs)},
                           {"front_end_ms", rounded(kernel.phases.frontEndMs)},
                           {"nvvm_ms", rounded(kernel.phases.nvvmMs)},
                           {"ptxas_ms", rounded(kernel.phases.ptxasMs)}});
  for (const HitTime &hit : hits)
    hitList.push_back(llvm::json::Object{
        {"name", hit.name}, {"config", hit.config}, {"ms", rounded(hit.ms)}});
  llvm::json::Object object{{"what", what},
                            {"commit", commit},
                            {"device", device},
                            {"toolchain", toolchain},
                            {"repeats", repeats},
                            {"threads", threads},
                            {"cases", static_cast<int64_t>(cases)},
                            {"recorded", static_cast<int64_t>(recorded)},
                            {"kernels", std::move(list)},
                            {"compile", compileSpread(kernels).toJson()},
                            {"kernels_per_s", rounded(kernelsPerSecond)}};
  if (noHits.empty()) {
    object["gpu"] = gpu;
    object["driver"] = driver;
    object["hits"] = std::move(hitList);
    object["refused"] = static_cast<int64_t>(refused);
    object["hit_to_launch"] = hitSpread(hits).toJson();
    object["nvrtc_loaded_on_hits"] = !compilerStayedOut;
    object["new_problems"] = newToJson(newProblems);
  } else {
    object["no_hits"] = noHits;
  }
  return object;
}

} // namespace kiln::cli
