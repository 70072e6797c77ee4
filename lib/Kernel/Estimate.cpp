//===- Estimate.cpp -------------------------------------------------------===//
#include "Kernel/Estimate.h"

#include "Support/EnumName.h"
#include "Support/Format.h"

namespace kiln {

llvm::StringRef nameOf(PruneReason reason) {
  using enum PruneReason;
  static constexpr EnumName<PruneReason> kNames[] = {
      {Threads, "threads"},
      {Registers, "registers"},
      {SharedMemory, "shared-memory"},
      {Alignment, "alignment"},
      {InstructionShape, "instruction-shape"},
      {Cluster, "cluster"},
      {Grid, "grid"},
      {Architecture, "architecture"},
      {Type, "type"},
      {Workspace, "workspace"},
      {Dominated, "dominated"}};
  return nameIn(kNames, reason, "unknown");
}

/// The usual name of the limit: the two that bound every tile are walls.
static llvm::StringRef limitName(PruneReason reason) {
  if (reason == PruneReason::Registers)
    return "register wall";
  if (reason == PruneReason::SharedMemory)
    return "shared-memory wall";
  return nameOf(reason);
}

std::string Rejection::text() const {
  llvm::StringRef name = limitName(reason);
  if (!hasFigures())
    return name.str();
  std::string broken =
      fmt::format("{}: {}{}{}", name, value, unit.empty() ? "" : " ", unit);
  if (!allowed.empty())
    return fmt::format("{}, {} allowed", broken, allowed);
  if (name != nameOf(reason))
    return fmt::format("{}, {} allowed", broken, limit);
  if (value < limit)
    return fmt::format("{}, {} needed", broken, limit);
  return fmt::format("{}, limit {}{}{}", broken, limit, unit.empty() ? "" : " ",
                     unit);
}

llvm::json::Object Rejection::toJson() const {
  llvm::json::Object object{{"reason", nameOf(reason)}, {"detail", text()}};
  if (!hasFigures())
    return object;
  object["value"] = value;
  object["unit"] = unit;
  if (allowed.empty())
    object["limit"] = limit;
  else
    object["allowed"] = allowed;
  return object;
}

} // namespace kiln
