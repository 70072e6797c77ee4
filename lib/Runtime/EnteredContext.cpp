//===- EnteredContext.cpp -------------------------------------------------===//
#include "Runtime/EnteredContext.h"

namespace kiln {

llvm::Expected<EnteredContext>
EnteredContext::of(Engine &engine, const StreamContext &context) {
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto current = CurrentContext::enter(**driver, context);
  if (!current)
    return current.takeError();
  EnteredContext entered(**driver, std::move(*current));
  auto state = engine.contextState(**driver, context);
  if (!state)
    return state.takeError();
  entered.theState = std::move(*state);
  return entered;
}

llvm::Expected<EnteredContext> EnteredContext::of(Engine &engine,
                                                  CudaStream stream) {
  auto driver = engine.driver();
  if (!driver)
    return driver.takeError();
  auto context = findContext(**driver, stream);
  if (!context)
    return context.takeError();
  return of(engine, *context);
}

} // namespace kiln
