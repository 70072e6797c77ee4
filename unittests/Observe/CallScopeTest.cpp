#include "Observe/CallScope.h"
#include "Observe/Trace.h"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <thread>

using namespace kiln;
using namespace kiln::observe;

static void pass(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// Longer than a busy machine keeps a thread from running.
constexpr int kLongMs = 300;

static std::vector<WaitEntry> entriesOf(const WaitLedger &ledger) {
  uint64_t position = 0;
  return ledger.entries(position);
}

TEST_CASE("a call that waited names its function, problem, phase and reason") {
  WaitLedger ledger;
  {
    CallScope call("kiln_gemm", &ledger);
    const std::string problem = "gemm m=16";
    auto text = [&] { return problem; };
    const CallScope::Subject subject(call, text);
    const Span lookup(Phase::Lookup);
    pass(2);
    {
      const Span compile(Phase::Compile, "a kernel is compiled");
      pass(kLongMs);
      const Span cache(Phase::Cache, "a file is written");
      pass(3);
    }
    const Span load(Phase::Load, "the driver loads code");
    pass(1);
  }
  const auto entries = entriesOf(ledger);
  REQUIRE(entries.size() == 1);
  const WaitEntry &entry = entries[0];
  CHECK(std::string(entry.call) == "kiln_gemm");
  CHECK(entry.problem == "gemm m=16");
  CHECK(entry.phase == Phase::Compile);
  CHECK(std::string(entry.reason) == "a kernel is compiled");
  auto ns = [&](Phase phase) {
    return entry.phaseNs[static_cast<size_t>(phase)];
  };
  CHECK(ns(Phase::Lookup) >= 2'000'000);
  CHECK(ns(Phase::Compile) >= kLongMs * 1'000'000);
  CHECK(ns(Phase::Cache) >= 3'000'000);
  CHECK(ns(Phase::Load) >= 1'000'000);
  // All of the time is some phase's.
  CHECK(std::accumulate(entry.phaseNs.begin(), entry.phaseNs.end(),
                        uint64_t(0)) == entry.elapsedNs);
  CHECK(ledger.totals().count == 1);
  CHECK(ledger.totals().ns == entry.elapsedNs);
}

TEST_CASE("a fast call is not entered, and its text is not made") {
  // A busy machine may keep this thread from running in the midst of a call.
  bool isFast = false;
  for (int i = 0; i < 1000 && !isFast; ++i) {
    WaitLedger ledger;
    bool isAsked = false;
    const uint64_t start = monotonicNs();
    {
      CallScope call("kiln_gemm", &ledger);
      auto text = [&] {
        isAsked = true;
        return std::string();
      };
      const CallScope::Subject subject(call, text);
      const Span lookup(Phase::Lookup);
    }
    isFast = monotonicNs() - start < WaitLedger::kThresholdNs / 2;
    CHECK((!isFast || !isAsked));
    CHECK((!isFast || ledger.totals().count == 0));
  }
  CHECK(isFast);
}

TEST_CASE("a call that a hook makes is a call of its own") {
  WaitLedger ledger;
  {
    CallScope outer("kiln_gemm", &ledger);
    const Span trial(Phase::Trial, "kernels are measured");
    CallScope inner("kiln_softmax", &ledger);
    const Span load(Phase::Load, "the driver loads code");
    pass(kLongMs);
  }
  const auto entries = entriesOf(ledger);
  REQUIRE(entries.size() == 2);
  CHECK(std::string(entries[0].call) == "kiln_softmax");
  CHECK(entries[0].phase == Phase::Load);
  CHECK(entries[1].phase == Phase::Trial);
  CHECK(CallFrame::current() == nullptr);
}

TEST_CASE("the work of other threads is not a call's") {
  WaitLedger ledger;
  {
    CallScope call("kiln_gemm", &ledger);
    std::thread([] {
      const Span compile(Phase::Compile);
      pass(2);
    }).join();
  }
  const auto entries = entriesOf(ledger);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].phase == Phase::Call);
  CHECK(entries[0].phaseNs[static_cast<size_t>(Phase::Compile)] == 0);
}
