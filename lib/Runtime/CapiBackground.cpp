//===- CapiBackground.cpp - kiln_background_* -----------------------------===//
#include "Runtime/Background.h"
#include "Runtime/Capi.h"

using namespace kiln;

/// The background of \p engine. Errors: InvalidArgument, Unsupported in other
/// modes.
static llvm::Expected<Background *> backgroundOf(kiln_engine *engine) {
  if (!engine)
    return nullArgument("engine");
  if (Background *background = engine->engine->background())
    return background;
  return makeError(ErrorCode::Unsupported,
                   "the engine is not of the mode background");
}

extern "C" {

kiln_status kiln_background_pause(kiln_engine *engine) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    auto background = backgroundOf(engine);
    if (!background)
      return background.takeError();
    (*background)->pause();
    return llvm::Error::success();
  });
}

kiln_status kiln_background_resume(kiln_engine *engine) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    auto background = backgroundOf(engine);
    if (!background)
      return background.takeError();
    if (!(*background)->resume())
      return makeError(ErrorCode::InvalidArgument, "nothing is paused");
    return llvm::Error::success();
  });
}

kiln_status kiln_background_wait(kiln_engine *engine,
                                 int64_t timeout_ms) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    auto background = backgroundOf(engine);
    if (!background)
      return background.takeError();
    if (!(*background)->wait(timeout_ms))
      return makeError(ErrorCode::InProgress, "the background is at work");
    return llvm::Error::success();
  });
}

} // extern "C"
