//===- Report.cpp ---------------------------------------------------------===//
#include "Support/Report.h"

#include "Support/Format.h"
#include "Support/Json.h"
#include "Support/Printable.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>

namespace kiln {

std::string reportText(const Report &report, bool asJson) {
  if (asJson)
    return printJson(report.toJson());
  std::string text;
  llvm::raw_string_ostream os(text);
  report.print(os);
  os.flush();
  // JSON escapes by itself. Reports make texts from outside printable where
  // they could forge lines; whatever else steers a terminal ends here.
  return printableLines(text);
}

Table::Table(llvm::ArrayRef<llvm::StringRef> names) {
  for (llvm::StringRef name : names) {
    flushRight.push_back(name.consume_front(">"));
    headers.push_back(name.str());
  }
}

void Table::addRow(std::vector<std::string> cells) {
  assert(cells.size() == headers.size() && "a cell for each column");
  for (std::string &cell : cells)
    cell = printable(cell);
  rows.push_back(std::move(cells));
}

void Table::print(llvm::raw_ostream &os) const {
  std::vector<size_t> widths;
  for (size_t column = 0; column < headers.size(); ++column) {
    widths.push_back(headers[column].size());
    for (const auto &row : rows)
      widths.back() = std::max(widths.back(), row[column].size());
  }
  auto printRow = [&](const std::vector<std::string> &cells) {
    std::string line;
    for (size_t column = 0; column < cells.size(); ++column) {
      size_t padding = widths[column] - cells[column].size();
      line += column ? "  " : "";
      line += flushRight[column] ? std::string(padding, ' ') + cells[column]
                                 : cells[column] + std::string(padding, ' ');
    }
    os << llvm::StringRef(line).rtrim(' ') << '\n';
  };
  printRow(headers);
  for (const auto &row : rows)
    printRow(row);
}

std::string formatFigure(double value) {
  double size = std::abs(value);
  if (value == 0)
    return "0";
  if (size >= 1e6)
    return fmt::format("{:.3g}", value);
  if (size >= 99.95)
    return fmt::format("{:.0f}", value);
  if (size >= 9.995)
    return fmt::format("{:.1f}", value);
  if (size >= 0.9995)
    return fmt::format("{:.2f}", value);
  return fmt::format("{:.3g}", value);
}

std::string formatUs(double ns) {
  constexpr double kNsPerUs = 1e3;
  return fmt::format("{:.2f}", ns / kNsPerUs);
}

llvm::json::Value rounded(double value, int digits) {
  if (!std::isfinite(value))
    return nullptr;
  return std::strtod(fmt::format("{:.{}g}", value, digits).c_str(), nullptr);
}

std::string wrapText(llvm::StringRef text, size_t columns,
                     llvm::StringRef indent) {
  llvm::SmallVector<llvm::StringRef, 64> words;
  llvm::SplitString(text, words);
  std::string wrapped, line = indent.str();
  for (llvm::StringRef word : words) {
    if (line.size() > indent.size() &&
        line.size() + 1 + word.size() > columns) {
      wrapped += line + '\n';
      line = indent.str();
    }
    if (line.size() > indent.size())
      line += ' ';
    line += word;
  }
  return wrapped + line + '\n';
}

} // namespace kiln
