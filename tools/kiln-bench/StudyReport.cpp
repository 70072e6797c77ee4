//===- StudyReport.cpp ----------------------------------------------------===//
#include "kiln-bench/StudyReport.h"

#include "Kernel/Family.h"
#include "Support/Format.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace kiln::cli {

double StudyRow::ns() const {
  return runNs.empty() ? 0
                       : std::accumulate(runNs.begin(), runNs.end(), 0.0) /
                             double(runNs.size());
}

double StudyRow::spread() const {
  if (runNs.empty())
    return 0;
  auto [least, most] = std::minmax_element(runNs.begin(), runNs.end());
  return (*most - *least) / ns();
}

static double rate(double operations, double ns) {
  return ns > 0 ? operations / ns * 1e-3 : 0;
}

double StudyRow::tflops() const {
  return rate(which->named.family->flops(study.problem), ns());
}
double StudyRow::allTflops() const { return rate(study.allFlops, ns()); }
double StudyRow::kernelTflops() const { return rate(study.kernelFlops, ns()); }

void StudyReport::sort() {
  auto key = [](const StudyRow &row) {
    double ns = row.ns();
    return std::tuple(row.which,
                      ns > 0 ? ns : std::numeric_limits<double>::infinity(),
                      row.place);
  };
  llvm::stable_sort(rows, [&](const StudyRow &a, const StudyRow &b) {
    return key(a) < key(b);
  });
}

int StudyReport::exitCode() const {
  bool isGood = llvm::all_of(rows, [](const StudyRow &row) {
    return row.error.empty() && row.correct;
  });
  return isGood && !interrupted ? kExitDone : kExitSomeFailed;
}

bool StudyReport::isProfiled() const {
  return llvm::any_of(rows,
                      [](const StudyRow &row) { return bool(row.profile); });
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

void StudyReport::printCase(const Case &which, llvm::raw_ostream &os) const {
  Table table({"config", ">us", ">spread", ">TF/s", ">all ops", ">tiles",
               ">registers", ">spilled", ">shared KB", ">blocks/SM", "note"});
  for (const StudyRow &row : rows) {
    if (row.which != &which)
      continue;
    std::string note = !row.error.empty() ? row.error
                       : !row.correct     ? "WRONG"
                                          : row.study.leftOut;
    auto figure = [&](double value) {
      return row.ns() > 0 ? formatFigure(value) : "-";
    };
    table.addRow(
        {row.study.name, row.ns() > 0 ? formatUs(row.ns()) : "-",
         row.ns() > 0 ? fmt::format("{:.1f}%", 100 * row.spread()) : "-",
         figure(row.tflops()), figure(row.allTflops()),
         figure(row.kernelTflops()), fmt::format("{}", row.registers),
         fmt::format("{}", row.spillBytes),
         fmt::format("{}", row.sharedBytes / 1024),
         fmt::format("{}", row.study.blocksPerSm), note});
  }
  table.print(os);
}

void StudyReport::printProfile(const Case &which, llvm::raw_ostream &os) const {
  Table table({"profiled", ">us", ">cycles", ">registers", ">L2 hits", ">TF/s",
               ">all ops"});
  std::vector<const StudyRow *> profiled;
  for (const StudyRow &row : rows)
    if (row.which == &which && row.profile)
      profiled.push_back(&row);
  llvm::sort(profiled, [](const StudyRow *a, const StudyRow *b) {
    return std::pair(a->profile->durationNs, a->place) <
           std::pair(b->profile->durationNs, b->place);
  });
  for (const StudyRow *row : profiled) {
    const StudyProfile &p = *row->profile;
    table.addRow(
        {row->study.name, formatUs(p.durationNs),
         fmt::format("{:.0f}", p.cycles), fmt::format("{:.0f}", p.registers),
         fmt::format("{:.1f}%", p.l2HitRate),
         formatFigure(rate(row->which->named.family->flops(row->study.problem),
                           p.durationNs)),
         formatFigure(rate(row->study.allFlops, p.durationNs))});
  }
  if (!table.empty()) {
    os << "\n";
    table.print(os);
  }
}

void StudyReport::print(llvm::raw_ostream &os) const {
  const Case *last = nullptr;
  for (const StudyRow &row : rows) {
    if (row.which == last)
      continue;
    os << (last ? "\n" : "") << row.which->text() << ", set " << set << "\n\n";
    last = row.which;
    printCase(*last, os);
    printProfile(*last, os);
  }
  os << "\nTF/s counts the problem as its family does; \"all ops\" all of "
        "its operations;\n\"tiles\" the operations of all tiles, cut ones "
        "whole.\n"
     << setting.protocol << "\n";
}

//===----------------------------------------------------------------------===//
// Documents
//===----------------------------------------------------------------------===//

static llvm::json::Object toJson(const StudyRow &row) {
  llvm::json::Object object{
      {"case", row.which->name},        {"problem", row.study.problem.text()},
      {"name", row.study.name},         {"config", row.study.config.text()},
      {"place", int64_t(row.place)},    {"correct", row.correct},
      {"registers", row.registers},     {"spillBytes", row.spillBytes},
      {"sharedBytes", row.sharedBytes}, {"blocksPerSm", row.study.blocksPerSm}};
  if (!row.study.leftOut.empty())
    object["leftOut"] = row.study.leftOut;
  if (!row.error.empty())
    object["error"] = row.error;
  if (row.ns() > 0) {
    object["us"] = rounded(row.ns() * 1e-3);
    object["spread"] = rounded(row.spread(), 3);
    object["tflops"] = rounded(row.tflops());
    object["allTflops"] = rounded(row.allTflops());
    object["kernelTflops"] = rounded(row.kernelTflops());
  }
  if (row.profile)
    object["profile"] =
        llvm::json::Object{{"us", rounded(row.profile->durationNs * 1e-3)},
                           {"cycles", rounded(row.profile->cycles)},
                           {"registers", rounded(row.profile->registers)},
                           {"l2HitRate", rounded(row.profile->l2HitRate)}};
  return object;
}

llvm::json::Object StudyReport::toJson() const {
  llvm::json::Array list;
  for (const StudyRow &row : rows)
    list.push_back(cli::toJson(row));
  llvm::json::Object object = setting.toJson();
  object["interrupted"] = interrupted;
  object["set"] = set;
  object["runs"] = int64_t(runs);
  object["configs"] = std::move(list);
  return object;
}

std::string StudyReport::toCsv() const {
  std::string csv =
      "case,name,config,us,spread,tflops,all_tflops,kernel_tflops,registers,"
      "spill_bytes,shared_bytes,blocks_per_sm,correct,profiled_us,cycles,"
      "profiled_registers,l2_hit_rate,profiled_tflops,profiled_all_tflops,"
      "note\n";
  for (const StudyRow &row : rows) {
    std::string profile = ",,,,,";
    if (const auto &p = row.profile)
      profile = fmt::format(
          "{:.3f},{:.0f},{:.0f},{:.2f},{:.2f},{:.2f}", p->durationNs * 1e-3,
          p->cycles, p->registers, p->l2HitRate,
          rate(row.which->named.family->flops(row.study.problem),
               p->durationNs),
          rate(row.study.allFlops, p->durationNs));
    csv += fmt::format(
        "{},{},{},{:.3f},{:.4f},{:.2f},{:.2f},{:.2f},{},{},{},{},{},{},{}\n",
        csvCell(row.which->name), csvCell(row.study.name),
        csvCell(row.study.config.text()), row.ns() * 1e-3, row.spread(),
        row.tflops(), row.allTflops(), row.kernelTflops(), row.registers,
        row.spillBytes, row.sharedBytes, row.study.blocksPerSm,
        row.correct ? 1 : 0, profile,
        csvCell(row.error.empty() ? row.study.leftOut : row.error));
  }
  return csv;
}

} // namespace kiln::cli
