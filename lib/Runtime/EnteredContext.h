//===- EnteredContext.h - a context that a thread works in ----------------===//
#pragma once

#include "Runtime/Engine.h"

#include <memory>
#include <utility>

namespace kiln {

/// Makes a context current for its lifetime, for work off the path of hits,
/// whatever other threads capture.
class EnteredContext {
public:
  /// Enters \p context, or that of \p stream. May take some 10 ms where the
  /// context is new. Errors: those of Engine::driver(), findContext() and
  /// Engine::contextState().
  static llvm::Expected<EnteredContext> of(Engine &engine,
                                           const StreamContext &context);
  static llvm::Expected<EnteredContext> of(Engine &engine, CudaStream stream);

  const Driver &driver() const { return *theDriver; }
  ContextState &state() const { return *theState; }

private:
  EnteredContext(const Driver &driver, CurrentContext current)
      : theDriver(&driver), current(std::move(current)),
        relaxed(std::make_unique<CaptureModeGuard>(driver)) {}

  const Driver *theDriver;
  CurrentContext current;
  std::unique_ptr<CaptureModeGuard> relaxed;
  std::shared_ptr<ContextState> theState;
};

} // namespace kiln
