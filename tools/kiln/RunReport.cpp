//===- RunReport.cpp ------------------------------------------------------===//
#include "kiln/RunReport.h"

#include "Support/Format.h"
#include "Support/Json.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

static bool hasFailed(const RunRow &row) {
  return row.error.code != ErrorCode::Success;
}

void RunReport::print(llvm::raw_ostream &os) const {
  Table table({"case", "config", ">launches", ">us", ">host us"});
  OutcomeNotes notes;
  for (const RunRow &row : rows) {
    notes.add(row.which->name, row.error, {});
    if (!hasFailed(row))
      table.addRow({row.which->name, row.config,
                    fmt::format("{}", row.launches), formatUs(row.ns),
                    formatUs(row.hostNs)});
  }
  if (!table.empty())
    table.print(os);
  notes.print(os);
}

llvm::json::Object RunReport::toJson() const {
  llvm::json::Array list;
  for (const RunRow &row : rows) {
    llvm::json::Object object{{"name", jsonText(row.which->name)},
                              {"problem", row.which->text()}};
    if (hasFailed(row)) {
      object["error"] = jsonText(row.error.message);
    } else {
      object["config"] = row.config;
      object["launches"] = int64_t(row.launches);
      object["us"] = rounded(row.ns * 1e-3);
      object["hostUs"] = rounded(row.hostNs * 1e-3);
      if (row.graphNodes)
        object["graphNodes"] = int64_t(row.graphNodes);
    }
    list.push_back(std::move(object));
  }
  return llvm::json::Object{
      {"mode", mode}, {"interrupted", interrupted}, {"cases", std::move(list)}};
}

int RunReport::exitCode() const {
  return interrupted || llvm::any_of(rows, hasFailed) ? kExitSomeFailed
                                                      : kExitDone;
}

} // namespace kiln::cli
