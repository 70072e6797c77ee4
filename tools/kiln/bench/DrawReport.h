//===- DrawReport.h - sizes that nobody tuned, beside a peer --------------===//
#pragma once

#include "Trial/Statistics.h"
#include "kiln/Draw.h"
#include "kiln/Figures.h"
#include "kiln/Report.h"
#include "kiln/bench/BenchReport.h"

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

  /// Nothing went wrong with it.
  bool isGood() const { return error.empty() && correct && agrees != false; }
};

/// One case of a draw.
struct DrawRow {
  const Case *which = nullptr;
  Drawn drawn;
  SampleSummary peer;          ///< count 0: none
  std::string noPeer;          ///< why there is none
  std::vector<DrawSide> sides; ///< of each state of the report
  std::string toolchain;

  /// The peer's time over that of a side; 0 without both.
  double ratio(size_t state) const;
};

/// What preparing one layer's range took.
struct PreparedLayer {
  std::string name;
  double ms = 0;
  uint64_t compiles = 0;
  size_t kernels = 0;      ///< that it keeps loaded
  uint64_t cubinBytes = 0; ///< of these
  std::string error;
};

/// What a state cost, besides time on the device.
struct DrawCost {
  uint64_t compiles = 0;
  size_t kernels = 0;                ///< loaded at the end, of all draws
  uint64_t cubinBytes = 0;           ///< of these
  double tuneMs = 0;                 ///< Tuned: of all problems
  std::vector<PreparedLayer> layers; ///< Prepared
};

/// The result file that scripts/updateReadme.py reads, and its tables.
class DrawReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;
  int exitCode() const;

  BenchSetting setting;
  std::string range;
  std::vector<uint64_t> seeds;
  std::vector<DrawState> states;
  std::vector<DrawCost> costs; ///< of each state
  std::vector<DrawRow> rows;
  bool interrupted = false;

private:
  std::vector<double> ratios(size_t state, const Band *band,
                             std::optional<uint64_t> seed) const;
  /// Of all first calls of a value, or of those whose layer was met before in
  /// its draw.
  TimeFigures callTimes(size_t state, bool ofKnownLayers = false) const;
  void printCosts(size_t state, llvm::raw_ostream &os) const;
  void printWorst(size_t state, llvm::raw_ostream &os) const;
  void printFaults(llvm::raw_ostream &os) const;
  llvm::json::Object rowToJson(const DrawRow &row) const;
  llvm::json::Object stateToJson(size_t state) const;
};

} // namespace kiln::cli
