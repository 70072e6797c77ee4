//===- CallScope.h - one call of the caller's, by phases ------------------===//
#pragma once

#include "Observe/Span.h"
#include "Observe/WaitLedger.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <array>
#include <cstdint>
#include <string>

namespace kiln::observe {

/// The phases of the call that a thread is in. Spans of the thread add to it.
class CallFrame {
public:
  /// The calling thread's; null outside of calls.
  static CallFrame *current() noexcept { return top; }

  /// Counts time for \p phase from now on; returns the phase before.
  Phase enter(Phase phase) noexcept;
  /// Whether the thread is in \p which right now.
  bool isIn(Phase which) const noexcept { return phase == which; }
  /// Back to \p outer. \p reason, which may be null, says why a caller waited
  /// in the phase that ends.
  void leave(Phase outer, const char *reason) noexcept;

private:
  friend class CallScope;
  static inline constinit thread_local CallFrame *top = nullptr;

  /// Counts what passed for the present phase.
  void count() noexcept;

  Phase phase = Phase::Call;
  uint64_t startNs = 0, sinceNs = 0;
  std::array<uint64_t, kPhaseCount> phaseNs{};
  std::array<const char *, kPhaseCount> reasons{};
  CallFrame *outer = nullptr; ///< of a call that a hook of another one makes
};

/// A call of the caller's, from its construction on. If it takes longer than
/// the ledger's threshold, it is entered there.
class CallScope {
public:
  /// Whether the call is an interval of traces, and a range.
  enum class Shown { Yes, No };

  /// \p function is in static storage. \p ledger, which may be null, must
  /// outlive it. \p problem is the call's, unless it gets a Subject.
  CallScope(const char *function, WaitLedger *ledger, std::string problem = {},
            Shown shown = Shown::Yes) noexcept;
  /// Tells the ledger's listener, outside of the call's phases.
  ~CallScope();
  CallScope(const CallScope &) = delete;
  CallScope &operator=(const CallScope &) = delete;

  /// The problem of a call, as long as it is known.
  class Subject {
  public:
    /// \p text must live as long; it is called if the call waited.
    Subject(CallScope &call, llvm::function_ref<std::string()> text) noexcept
        : call(call), text(text) {}
    ~Subject();
    Subject(const Subject &) = delete;
    Subject &operator=(const Subject &) = delete;

  private:
    CallScope &call;
    const llvm::function_ref<std::string()> text;
  };

private:
  bool hasWaited() const noexcept;
  void enterLedger(uint64_t endNs);

  const char *function;
  WaitLedger *ledger;
  bool isRange = false, isTraced = false;
  std::string problem;
  CallFrame frame;
};

} // namespace kiln::observe
