//===- DrawReport.h - drawn sizes beside a peer ---------------------------===//
#pragma once

#include "Trial/Statistics.h"
#include "cli/Report.h"
#include "compare/BenchReport.h"
#include "kiln-bench/Draw.h"
#include "kiln-bench/Figures.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

/// How Kiln meets a problem of the draw.
enum class DrawState {
  First,    ///< mode predict, empty cache: a first call
  Met,      ///< mode tune, empty cache: a first call, within its budget
  Tuned,    ///< tuned by itself, ahead of time
  Prepared, ///< the range of its layer was prepared, its value is new
};
llvm::StringRef nameOf(DrawState state);

/// Kiln's side of one case in one state.
struct DrawSide {
  std::string config;
  SampleSummary ns;           ///< count 0: not measured
  double callMs = 0;          ///< host time of the first call; 0: none was made
  bool correct = false;       ///< equals the reference
  std::optional<bool> agrees; ///< with the peer, within both tolerances
  std::string error;          ///< empty: it was measured

  /// It has no failure.
  bool isGood() const { return error.empty() && correct && agrees != false; }
};

/// One case of a draw.
struct DrawRow {
  const Case *which = nullptr;
  Drawn drawn;
  SampleSummary peer; ///< or copy baseline; count 0: none
  std::string noPeer; ///< why it is missing
  /// Names the peer's computation where that differs from the problem; else
  /// empty.
  std::string peerKind;
  StreamBytes bytes;           ///< of a memory-bound case; else 0
  std::string variant;         ///< the variant that was the fastest
  std::vector<DrawSide> sides; ///< of each state of the report
  std::string toolchain;

  bool hasCopyBaseline() const { return bytes.total() > 0; }
  /// The peer's time over that of a side; 0 without both.
  double ratio(size_t state) const;
  /// For a memory-bound case, the bytes that must move over a side's time, in
  /// GB/s; 0 without that time.
  double gbs(size_t state) const;
};

/// The cost of preparing one layer's range.
struct PreparedLayer {
  std::string name;
  double ms = 0;
  uint64_t compiles = 0;
  size_t kernels = 0;      ///< that it keeps loaded
  uint64_t cubinBytes = 0; ///< of these
  std::string error;
};

/// The cost of a state, besides time on the device.
struct DrawCost {
  uint64_t compiles = 0;
  size_t kernels = 0;                ///< loaded at the end, of all draws
  uint64_t cubinBytes = 0;           ///< of these
  double tuneMs = 0;                 ///< Tuned: all problems together
  std::vector<PreparedLayer> layers; ///< Prepared
};

/// The result file that scripts/updateReadme.py reads, and its tables.
class DrawReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  BenchSetting setting;
  NamedRanges ranges;
  /// Whether the extent of each range is fixed in an engine; empty: no extent
  /// is.
  std::vector<bool> fixed;
  std::vector<uint64_t> seeds;
  std::vector<DrawState> states;
  std::vector<DrawCost> costs; ///< of each state
  std::vector<DrawRow> rows;
  bool interrupted = false;

private:
  /// Cases that are told apart in tables.
  struct Group {
    std::string name;
    std::function<bool(const DrawRow &)> holds;
  };
  bool hasCopyBaseline() const;
  /// By size, each case in one of them: the size of the first extent that was
  /// drawn, or the bytes of a memory-bound case.
  std::vector<Group> bands() const;
  /// By other properties: odd sizes, kinds of layers.
  std::vector<Group> groups() const;
  static Group everyCase();
  static Group ofSeed(uint64_t seed);
  RatioFigures figuresOf(size_t state, const Group &group) const;
  /// Times of all first calls of a value, or of the calls of layers that were
  /// met before in the draw.
  TimeFigures callTimes(size_t state, bool ofKnownLayers = false) const;
  void printCosts(size_t state, llvm::raw_ostream &os) const;
  void printWorst(size_t state, llvm::raw_ostream &os) const;
  void printFaults(llvm::raw_ostream &os) const;
  llvm::json::Object rowToJson(const DrawRow &row) const;
  llvm::json::Object stateToJson(size_t state) const;
};

} // namespace kiln::cli
