//===- Report.h - what is told, as tables or as JSON ----------------------===//
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <string>
#include <vector>

namespace kiln {

/// A report on one thing, as text or as JSON. A section of JSON becomes a
/// member of one document.
class Report {
public:
  virtual ~Report() = default;
  virtual void print(llvm::raw_ostream &os) const = 0;
  virtual llvm::json::Object toJson() const = 0;
};

/// All of \p report in the form that is asked for; either ends with a line end.
std::string reportText(const Report &report, bool asJson);

/// Columns of text, aligned when printed.
class Table {
public:
  /// A header that begins with '>' makes its column flush right; the '>' is not
  /// printed.
  explicit Table(llvm::ArrayRef<llvm::StringRef> headers);

  /// As many cells as there are headers; shown as printable() does.
  void addRow(std::vector<std::string> cells);
  bool empty() const { return rows.empty(); }
  void print(llvm::raw_ostream &os) const;

private:
  std::vector<std::string> headers;
  std::vector<bool> flushRight;
  std::vector<std::vector<std::string>> rows;
};

/// Three significant digits or so, for tables: "1234", "12.3", "0.123".
std::string formatFigure(double value);
/// Nanoseconds as microseconds for a table.
std::string formatUs(double ns);
/// A JSON number that is rounded to \p digits significant digits, so that no
/// document carries noise.
llvm::json::Value rounded(double value, int digits = 6);

/// Breaks \p text into lines of at most \p columns, each begun by \p indent.
std::string wrapText(llvm::StringRef text, size_t columns = 78,
                     llvm::StringRef indent = "");

} // namespace kiln
