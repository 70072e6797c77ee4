//===- BackgroundFixture.h - engines of the mode background ---------------===//
#pragma once

#include "Runtime/WaitingFixture.h"

namespace kiln::testing {

/// Engines of the mode background whose trials find everything right and rest
/// little.
struct BackgroundFixture : RuntimeFixture {
  BackgroundFixture() {
    judgeTrials();
    kilnFakeSetHollowMemory(1 << 20); // of a layer's largest values
  }
  kiln_engine_options backgroundOptions() const {
    kiln_engine_options made = options(KILN_MODE_BACKGROUND);
    made.background_permille = 1000;
    made.threads = 2;
    return made;
  }
  kiln_engine *background() { return engine(backgroundOptions()); }
  /// An engine that begins nothing until it is resumed.
  kiln_engine *paused() {
    kiln_engine *made = background();
    REQUIRE(kiln_background_pause(made) == KILN_SUCCESS);
    return made;
  }
  void awaitQuiet(kiln_engine *engine) {
    CAPTURE(lastError());
    REQUIRE(kiln_background_wait(engine, kLongMs) == KILN_SUCCESS);
  }
};

/// A range of m, for kiln_prepare.
struct PreparedLayer {
  PreparedLayer() {
    values.name = "m";
    values.first = 1;
    values.last = 64;
    problem.ranges = &values;
    problem.range_count = 1;
  }
  kiln_range values = KILN_INIT(kiln_range);
  kiln_problem problem =
      problemOf("gemm m=64 n=512 k=512 dtype=bf16 layout=NT");
};

inline kiln_status launch(kiln_engine *engine, const kiln_gemm_args &args,
                          kiln_stream stream = nullptr) {
  return kiln_gemm(engine, &args, nullptr, stream);
}

/// Waits for \p count further trials, or until nothing is pending.
inline void awaitTrials(kiln_engine *engine, uint64_t count) {
  const uint64_t before = statisticsOf(engine).trials;
  while (statisticsOf(engine).trials < before + count &&
         kiln_background_wait(engine, 0) == KILN_IN_PROGRESS)
    std::this_thread::yield();
}

/// Waits until the plan that launches \p args was chosen for them.
inline void awaitChoice(kiln_engine *engine, const kiln_gemm_args &args) {
  const auto end = std::chrono::steady_clock::now() + kForever;
  while (queryOf(engine, problemOf(args)).source == KILN_SOURCE_STAND_IN &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
}

} // namespace kiln::testing
