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
