//===- Report.cpp ---------------------------------------------------------===//
#include "cli/Report.h"

#include "Support/Json.h"
#include "cli/Console.h"

namespace kiln::cli {

int emit(const Report &report, bool asJson, int exitCode) {
  llvm::Error error = writeOutput(reportText(report, asJson));
  if (!error)
    return exitCode;
  printError(summarize(std::move(error)).message);
  return exitCode ? exitCode : kExitSomeFailed;
}

llvm::json::Array textsToJson(llvm::ArrayRef<std::string> texts) {
  llvm::json::Array list;
  for (const std::string &text : texts)
    list.push_back(jsonText(text));
  return list;
}

std::string csvCell(llvm::StringRef text) {
  std::string cell = "\"";
  for (char c : text)
    cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

MemoryPeaks MemoryPeaks::of(const MemoryGauges &gauges) {
  auto peak = [](const ByteGauge &gauge) { return gauge.read().peakBytes; };
  return {peak(*gauges.scratch), peak(*gauges.modules), peak(*gauges.host)};
}

void MemoryPeaks::print(llvm::raw_ostream &os) const {
  constexpr double kBytesOfMB = 1e6;
  auto inMB = [](uint64_t bytes) { return double(bytes) / kBytesOfMB; };
  os << fmt::format("peak memory: {:.1f} MB of operands and workspaces and "
                    "{:.1f} MB of kernels on the device, {:.1f} MB of kernels "
                    "and entries on the host\n",
                    inMB(scratch), inMB(modules), inMB(host));
}

llvm::json::Object MemoryPeaks::toJson() const {
  return llvm::json::Object{
      {"scratch", scratch}, {"modules", modules}, {"host", host}};
}

std::string formatAge(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 24 * kHour;
  if (seconds < kMinute)
    return fmt::format("{:.0f} s", seconds);
  if (seconds < kHour)
    return fmt::format("{:.0f} min", seconds / kMinute);
  if (seconds < 2 * kDay)
    return fmt::format("{:.0f} h", seconds / kHour);
  return fmt::format("{:.0f} d", seconds / kDay);
}

void OutcomeNotes::add(llvm::StringRef name, const ErrorSummary &error,
                       llvm::ArrayRef<std::string> said) {
  if (error.code != ErrorCode::Success)
    errors.insert(fmt::format("{}: {}", name, onOneLine(error.message)));
  for (const std::string &note : said)
    notes.insert(onOneLine(note));
}

void OutcomeNotes::print(llvm::raw_ostream &os) const {
  for (const std::string &error : errors)
    os << "failed: " << error << '\n';
  for (const std::string &note : notes)
    os << "note: " << note << '\n';
}

} // namespace kiln::cli
