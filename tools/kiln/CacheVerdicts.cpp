//===- CacheVerdicts.cpp - kiln cache verdicts ----------------------------===//
#include "kiln/CacheVerdicts.h"

#include "Store/Verdicts.h"
#include "Support/Error.h"
#include "Support/Json.h"
#include "Support/Printable.h"
#include "cli/Console.h"
#include "cli/Report.h"

#include <optional>

namespace kiln::cli {

/// So many digits of a digest tell kernels apart for a reader.
static constexpr size_t kShownDigits = 12;

namespace {

class VerdictsReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::string root;
  std::vector<DeviceVerdicts> devices;
  std::optional<size_t> cleared; ///< with --clear
};

} // namespace

void VerdictsReport::print(llvm::raw_ostream &os) const {
  os << printable(root) << '\n';
  if (cleared) {
    os << fmt::format("{} verdicts cleared\n", *cleared);
    return;
  }
  Table table({"device", "kernel", "config", "found for", "why"});
  for (const DeviceVerdicts &device : devices)
    for (const Verdict &verdict : device.verdicts)
      table.addRow({onOneLine(device.deviceClass),
                    onOneLine(verdict.kernel.substr(0, kShownDigits)),
                    onOneLine(verdict.config), onOneLine(verdict.problem),
                    onOneLine(verdict.reason)});
  if (table.empty())
    os << "no kernel was found wrong\n";
  else
    table.print(os);
}

llvm::json::Object VerdictsReport::toJson() const {
  llvm::json::Object object{{"root", jsonText(root)}};
  if (cleared) {
    object["cleared"] = static_cast<int64_t>(*cleared);
    return object;
  }
  llvm::json::Array list;
  for (const DeviceVerdicts &device : devices)
    for (const Verdict &verdict : device.verdicts)
      list.push_back(
          llvm::json::Object{{"device", jsonText(device.deviceClass)},
                             {"kernel", jsonText(verdict.kernel)},
                             {"config", jsonText(verdict.config)},
                             {"problem", jsonText(verdict.problem)},
                             {"reason", jsonText(verdict.reason)},
                             {"found_at_ms", verdict.foundAtMs}});
  object["verdicts"] = std::move(list);
  return object;
}

llvm::Expected<int> runVerdicts(const ParsedOptions &options,
                                cache::Store &store, std::string root) {
  const std::string prefix = options.value("--kernel").value_or("");
  if (!prefix.empty() && !options.has("--clear"))
    return makeError(ErrorCode::InvalidArgument,
                     "cache verdicts: --kernel selects verdicts for --clear");
  VerdictsReport report;
  report.root = std::move(root);
  if (!options.has("--clear")) {
    report.devices = Verdicts::readAll(store);
    return emit(report, options.wantsJson());
  }
  report.cleared =
      Verdicts::clear(store, [&](llvm::StringRef, const Verdict &verdict) {
        return llvm::StringRef(verdict.kernel).starts_with(prefix);
      });
  const bool hasMissed = !prefix.empty() && *report.cleared == 0;
  return emit(report, options.wantsJson(),
              hasMissed ? kExitSomeFailed : kExitDone);
}

} // namespace kiln::cli
