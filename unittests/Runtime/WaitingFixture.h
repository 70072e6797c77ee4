//===- WaitingFixture.h - threads that wait for each other ----------------===//
#pragma once

#include "Runtime/RuntimeFixture.h"

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace kiln::testing {

/// Longer than any test may take: a wait of this time is a failure.
constexpr std::chrono::seconds kForever{60};
/// A budget that no test exhausts.
constexpr int64_t kLongMs = 600000;

/// Something that happens once, and is waited for.
class Signal {
public:
  void happen() { promise.set_value(); }
  /// False if it did not happen for far too long.
  bool wait(std::chrono::seconds patience = kForever) {
    return future.wait_for(patience) == std::future_status::ready;
  }

private:
  std::promise<void> promise;
  std::shared_future<void> future = promise.get_future().share();
};

/// kiln_prepare of one problem whose first call of progress, which comes from
/// inside its trials, runs \p inside.
inline kiln_status
prepareWith(kiln_engine *engine, const kiln_problem &problem,
            const std::function<void()> &inside,
            kiln_prepare_options options = KILN_INIT(kiln_prepare_options)) {
  struct Once {
    const std::function<void()> &inside;
    bool done = false;
  } once{inside};
  options.progress_user = &once;
  options.progress = [](void *user, const kiln_progress *) -> int32_t {
    auto *once = static_cast<Once *>(user);
    if (!std::exchange(once->done, true))
      once->inside();
    return 0;
  };
  return kiln_prepare(engine, &problem, 1, &options, nullptr);
}

inline kiln_prepare_options budgetOf(int64_t ms) {
  kiln_prepare_options options = KILN_INIT(kiln_prepare_options);
  options.budget_ms = ms;
  return options;
}

inline kiln_engine *tuningEngine(RuntimeFixture &fixture, int64_t budgetMs) {
  judgeTrials();
  kilnFakeSetHollowMemory(1 << 20); // of a layer's largest values
  kiln_engine_options options = fixture.options(KILN_MODE_TUNE);
  options.tune_budget_ms = budgetMs;
  return fixture.engine(options);
}

/// Runs \p body on a thread with the context of \p fixture.
inline std::thread onThread(const RuntimeFixture &fixture,
                            std::function<void()> body) {
  return std::thread([&fixture, body = std::move(body)] {
    auto scope =
        ScopedContext::push(fixture.gpu.driver(), fixture.gpu.context());
    if (scope)
      body();
    else
      llvm::consumeError(scope.takeError());
  });
}

} // namespace kiln::testing
