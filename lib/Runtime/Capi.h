//===- Capi.h - helpers of the exported functions -------------------------===//
#pragma once

#include "Runtime/Engine.h"
#include "Runtime/PlanHandle.h"
#include "Runtime/PrepareTask.h"
#include "Support/Error.h"
#include "kiln/kiln.h"

#include <cstddef>
#include <new>
#include <string>

struct kiln_engine {
  std::unique_ptr<kiln::Engine> engine;
};
struct kiln_plan {
  std::unique_ptr<kiln::PlanHandle> handle;
};
struct kiln_task {
  std::shared_ptr<kiln::PrepareTask> task;
  kiln::Engine *engine;
};

namespace kiln {

/// Keeps \p error as the calling thread's last one; returns its status.
kiln_status report(llvm::Error error) noexcept;
/// Like the above, for a text in static storage.
kiln_status report(kiln_status status, const char *message) noexcept;

/// How many errors this thread has kept. Never changes the last error.
uint64_t reportsOfThread() noexcept;

/// Runs the body of an exported function. Only a status leaves it, no
/// exception.
template <class Body> kiln_status guarded(const Body &body) noexcept {
  try {
    if (llvm::Error error = body()) [[unlikely]]
      return report(std::move(error));
    return KILN_SUCCESS;
  } catch (const std::bad_alloc &) {
    return report(KILN_OUT_OF_MEMORY, "out of host memory");
  } catch (...) {
    return report(KILN_INTERNAL, "an unexpected exception");
  }
}

/// InvalidArgument: "engine is null".
llvm::Error nullArgument(const char *name);

inline const char *argumentName(const kiln_engine *) { return "engine"; }
inline const char *argumentName(const kiln_plan *) { return "plan"; }
inline const char *argumentName(const kiln_task *) { return "task"; }

/// guarded() for a function of \p handle, which must not be null.
template <class Handle, class Body>
kiln_status guardedOf(const Handle *handle, const Body &body) noexcept {
  return guarded([&]() -> llvm::Error {
    if (!handle) [[unlikely]]
      return nullArgument(argumentName(handle));
    return body();
  });
}

/// Writes \p text as kiln_problem_text describes.
llvm::Error writeText(const std::string &text, char *buffer, size_t capacity,
                      size_t *length);

/// Writes \p text and its null to the \p room bytes of a struct's field.
/// Errors: Internal where it has no room, as half of a text names another
/// thing.
llvm::Error copyText(const std::string &text, char *field, size_t room);
template <size_t kRoom>
llvm::Error copyText(const std::string &text, char (&field)[kRoom]) {
  return copyText(text, field, kRoom);
}

} // namespace kiln
