//===- Pipeline.h - stages that hide a load -------------------------------===//
//
// A ring of S stages: a stage is refilled for latency + load, then multiplied
// for math, so each stage turns over once in latency + load + math and the ring
// delivers S tiles in that time. Math alone sets the pace once (latency + load
// + math) / S <= math, which is S >= (latency + load)/math + 1. With fewer
// stages the rest of each iteration is exposed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Model/Figure.h"

#include <cstdint>

namespace kiln {

/// Times of one k step of one block, in ns.
template <Number N> struct StageRing {
  N latency = 0; ///< from the issue of a load to its first byte
  N load = 0;    ///< from the first to the last byte of a stage
  N pace = 0;    ///< to use up a stage
  int64_t stages = 1;

  /// The time in which a ring of \p count stages delivers one of them.
  N turn(int64_t count) const {
    return (latency + load + pace) / given<N>(double(count), "stages");
  }
  /// Idle time of a k step, 0 with stagesNeeded() or more.
  N exposed() const { return excess(turn(stages), pace); }
  /// S_min = ceil((latency + load) / pace) + 1.
  N stagesNeeded() const {
    return named(ceiling((latency + load) / pace) + N(1), "S_min", "stages");
  }
};

/// The latency that TMA adds to a plain load's: 217 ns where a load takes 265
/// clocks, 595 where one takes 598 (H100 SXM, third-party).
inline constexpr double kTmaLatencyNs = 200;

} // namespace kiln
