//===- Estimate.cpp -------------------------------------------------------===//
#include "Kernel/Estimate.h"

#include "Support/Format.h"

namespace kiln {

double Estimate::term(llvm::StringRef name) const {
  for (const EstimateTerm &term : terms)
    if (term.name == name)
      return term.value;
  return 0;
}

llvm::json::Object Estimate::toJson() const {
  llvm::json::Object values;
  for (const EstimateTerm &term : terms)
    values[(term.unit.empty() ? term.name : term.name + "_" + term.unit)
               .str()] = term.value;
  return llvm::json::Object{
      {"total_ns", totalNs}, {"bound", bound}, {"terms", std::move(values)}};
}

llvm::StringRef nameOf(PruneReason reason) {
  switch (reason) {
  case PruneReason::Threads:
    return "threads";
  case PruneReason::Registers:
    return "registers";
  case PruneReason::SharedMemory:
    return "shared-memory";
  case PruneReason::Alignment:
    return "alignment";
  case PruneReason::InstructionShape:
    return "instruction-shape";
  case PruneReason::Cluster:
    return "cluster";
  case PruneReason::Grid:
    return "grid";
  case PruneReason::Architecture:
    return "architecture";
  case PruneReason::Type:
    return "type";
  case PruneReason::Workspace:
    return "workspace";
  case PruneReason::Dominated:
    return "dominated";
  }
  return "unknown";
}

std::string Rejection::text() const {
  if (value == 0 && limit == 0)
    return nameOf(reason).str();
  llvm::StringRef space = unit.empty() ? "" : " ";
  return fmt::format("{}: {}{}{}, limit {}{}{}", nameOf(reason), value, space,
                     unit, limit, space, unit);
}

} // namespace kiln
