//===- QuietComparison.h - one engine's kernels beside another's ----------===//
#pragma once

#include "Driver/Graph.h"
#include "Driver/Stream.h"
#include "kiln-bench/BackgroundCalls.h"
#include "kiln-bench/BackgroundReport.h"

namespace kiln::cli {

/// Times calls of two engines alternately, on the device: the quiet engine of
/// the mode background, and one that tunes the problems of its calls.
class QuietComparison {
public:
  /// All must outlive it.
  QuietComparison(const Driver &driver, const Stream &stream,
                  const LayerProducts &products, kiln_engine *engine,
                  kiln_engine *other)
      : driver(driver), stream(stream), products(products), engine(engine),
        other(other) {}

  /// Medians of several rounds. Waits for the device.
  llvm::Expected<QuietSpeed> run(const ProductCall &which);

private:
  static constexpr int kLaunches = 8; ///< of a graph

  llvm::Expected<Graph> graphOf(kiln_engine *engine, const PreparedCall &call);
  llvm::Expected<double> timeOf(Graph &graph);

  const Driver &driver;
  const Stream &stream;
  const LayerProducts &products;
  kiln_engine *engine, *other;
};

} // namespace kiln::cli
