//===- StreamContext.h - the context that a call is for -------------------===//
#pragma once

#include "Driver/Context.h"

#include <optional>

namespace kiln {

/// The context of a stream, and whether the calling thread has it current.
struct StreamContext {
  CudaContext handle = nullptr;
  uint64_t id = 0;
  bool isCurrent = false; ///< to the calling thread
};

/// Looks up the context of \p stream; three driver look-ups, some 10 ns each.
/// Errors: InvalidArgument, ContextDead.
llvm::Expected<StreamContext> findContext(const Driver &driver,
                                          CudaStream stream);

/// Makes \p context current for its lifetime, unless it is.
class CurrentContext {
public:
  static llvm::Expected<CurrentContext> enter(const Driver &driver,
                                              const StreamContext &context);

private:
  std::optional<ScopedContext> scope;
};

} // namespace kiln
