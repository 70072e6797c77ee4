//===- CalibrationReport.cpp - what kiln calibrate tells ------------------===//
#include "calibrate/CalibrationReport.h"

#include "Support/Format.h"
#include "cli/Report.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <cmath>
#include <ctime>

namespace kiln::cli {

size_t CalibrationReport::refusals() const {
  if (judged.empty())
    return calibration.refused.size();
  return static_cast<size_t>(llvm::count_if(
      judged, [](const Judged &one) { return !one.refused.empty(); }));
}

/// "0.94", or nothing where there is no value to compare with.
static std::string ratioText(double value, double known) {
  return known > 0 && std::isfinite(value)
             ? fmt::format("{:.2f}", value / known)
             : "";
}

void CalibrationReport::printFields(llvm::raw_ostream &os) const {
  Table table({"benchmark", "field", ">value", "unit", ">before", "from",
               ">ratio", ">spread"});
  for (const Judged &one : judged)
    if (!one.key.empty())
      table.addRow({one.benchmark, one.key,
                    one.refused.empty() ? formatFigure(one.value) : "refused",
                    findDeviceField(one.key)->unit, formatFigure(one.known),
                    one.source, ratioText(one.value, one.known),
                    std::isfinite(one.spread)
                        ? fmt::format("{:.1f} %", 100 * one.spread)
                        : ""});
  table.print(os);
  for (const Judged &one : judged)
    if (!one.refused.empty())
      os << fmt::format("refused, the value before stays: {}: {}\n",
                        one.benchmark, one.refused);
}

/// The figures that are no fields, a line a benchmark.
void CalibrationReport::printCurves(llvm::raw_ostream &os) const {
  std::string text, last;
  for (const Judged &one : judged) {
    if (!one.key.empty())
      continue;
    if (one.benchmark != last)
      text += fmt::format("{}{} in {}:", text.empty() ? "" : "\n",
                          one.benchmark, one.unit);
    else
      text += ',';
    last = one.benchmark;
    text += fmt::format(" {} {}", one.name, formatFigure(one.median));
  }
  llvm::StringRef rest = text;
  while (!rest.empty()) {
    auto [line, behind] = rest.split('\n');
    os << wrapText(line);
    rest = behind;
  }
}

void CalibrationReport::printFound(llvm::raw_ostream &os) const {
  Table table(
      {"benchmark", "field", ">value", "unit", ">before", "from", ">ratio"});
  for (const CalibratedValue &value : calibration.values) {
    const DeviceField *field = findDeviceField(value.key);
    if (!field)
      continue;
    const FieldValue known = field->valueOf(device);
    const double before = std::holds_alternative<int64_t>(known)
                              ? static_cast<double>(std::get<int64_t>(known))
                              : std::get<double>(known);
    table.addRow({value.benchmark, value.key, formatFigure(value.value),
                  field->unit, formatFigure(before),
                  nameOf(device.origins[field->index()].source).str(),
                  ratioText(value.value, before)});
  }
  table.print(os);
  if (!calibration.refused.empty())
    os << wrapText("refused when it was measured: " +
                   llvm::join(calibration.refused, ", "));
}

void CalibrationReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{} ({}), {}\n", device.name, device.archName(),
                    device.uuid);
  if (judged.empty()) {
    const double age =
        static_cast<double>(std::time(nullptr) - calibration.time);
    os << fmt::format("measured on {} {} ago; --force measures again\n",
                      calibration.gpu == device.uuid ? "this GPU"
                                                     : calibration.gpu,
                      formatAge(age));
    return printFound(os);
  }
  printFields(os);
  printCurves(os);
  const auto measured = llvm::count_if(judged, [](const Judged &one) {
    return !one.key.empty() && one.refused.empty();
  });
  os << fmt::format("{} values in {:.1f} s", measured, seconds);
  if (unstored.empty())
    os << fmt::format(", stored for {}{}\n",
                      isForClass ? "" : "this GPU alone of ",
                      deviceClassKey(device));
  else
    os << fmt::format(", not stored: {}\n", unstored);
}

llvm::json::Object CalibrationReport::toJson() const {
  llvm::json::Object values;
  for (const CalibratedValue &value : calibration.values)
    values[value.key] = value.value;
  llvm::json::Array results;
  for (const Judged &one : judged)
    results.push_back(one.toJson());
  llvm::json::Object object{{"device", device.name},
                            {"class", deviceClassKey(device)},
                            {"gpu", device.uuid},
                            {"measured_on", calibration.gpu},
                            {"driver", calibration.driver},
                            {"time", calibration.time},
                            {"measured", !judged.empty()},
                            {"stored", unstored.empty()},
                            {"values", std::move(values)},
                            {"results", std::move(results)},
                            {"refused", static_cast<int64_t>(refusals())},
                            {"elapsed_s", rounded(seconds, 3)}};
  if (!judged.empty())
    object["for_class"] = isForClass;
  if (!unstored.empty())
    object["unstored"] = unstored;
  return object;
}

} // namespace kiln::cli
