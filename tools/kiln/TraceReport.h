//===- TraceReport.h - what kiln trace prints -----------------------------===//
#pragma once

#include "Support/Report.h"
#include "trace/TraceSummary.h"

#include <optional>
#include <string>

namespace kiln::cli {

/// The tables of a trace: calls and their phases, the longest calls, threads,
/// waits between threads, counters, faults. Refers to the tree.
class TraceReport final : public Report {
public:
  TraceReport(std::string path, const TraceTree &tree,
              const TraceSelection &selection, size_t top)
      : path(std::move(path)), tree(tree), trace(tree.trace()),
        sum(tree, selection), top(top) {}

  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  /// Shows this call interval by interval as well.
  std::optional<size_t> detail;

private:
  void printHead(llvm::raw_ostream &os) const;
  void printCalls(llvm::raw_ostream &os) const;
  void printPhases(llvm::raw_ostream &os) const;
  void printLongest(llvm::raw_ostream &os) const;
  void printDetail(llvm::raw_ostream &os) const;
  void printHandedOver(llvm::raw_ostream &os) const;
  void printThreads(llvm::raw_ostream &os) const;
  void printFlows(llvm::raw_ostream &os) const;
  void printCounters(llvm::raw_ostream &os) const;

  llvm::json::Array callsJson() const;
  llvm::json::Array longestJson() const;
  llvm::json::Array threadsJson() const;
  llvm::json::Array flowsJson() const;
  llvm::json::Object callJson(size_t call) const;

  std::vector<std::string> notes() const;
  size_t numberOf(size_t call) const;
  /// "compile 80 %, trial 10 %".
  std::string mostOf(size_t call) const;
  size_t shownCalls() const { return std::min(top, sum.longestCalls.size()); }
  std::string title(uint32_t thread) const {
    return trace.threads()[thread].title();
  }
  /// The node that was waited for, if one is there.
  std::string receiverOf(const TraceFlow &flow) const;

  std::string path;
  const TraceTree &tree;
  const TraceFile &trace;
  TraceSummary sum;
  size_t top;
};

} // namespace kiln::cli
