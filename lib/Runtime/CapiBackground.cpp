//===- CapiBackground.cpp - kiln_background_* -----------------------------===//
#include "Runtime/Background.h"
#include "Runtime/Capi.h"

using namespace kiln;

/// guardedOf() for the background of \p engine. Errors: Unsupported in other
/// modes.
template <class Body>
static kiln_status guardedBackground(kiln_engine *engine,
                                     const Body &body) noexcept {
  return guardedOf(engine, [&]() -> llvm::Error {
    if (Background *background = engine->engine->background())
      return body(*background);
    return makeError(ErrorCode::Unsupported,
                     "the engine is not of the mode background");
  });
}

extern "C" {

kiln_status kiln_background_pause(kiln_engine *engine) KILN_NOEXCEPT {
  return guardedBackground(engine, [&](Background &background) -> llvm::Error {
    background.pause();
    return llvm::Error::success();
  });
}

kiln_status kiln_background_resume(kiln_engine *engine) KILN_NOEXCEPT {
  return guardedBackground(engine, [&](Background &background) -> llvm::Error {
    if (!background.resume())
      return makeError(ErrorCode::InvalidArgument, "nothing is paused");
    return llvm::Error::success();
  });
}

kiln_status kiln_background_wait(kiln_engine *engine,
                                 int64_t timeout_ms) KILN_NOEXCEPT {
  return guardedBackground(engine, [&](Background &background) -> llvm::Error {
    if (!background.wait(timeout_ms))
      return makeError(ErrorCode::InProgress, "the background is at work");
    return llvm::Error::success();
  });
}

} // extern "C"
