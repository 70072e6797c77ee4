//===- StreamContext.cpp - the context that a call is for -----------------===//
#include "Driver/StreamContext.h"

#include "Support/Error.h"

namespace kiln {

llvm::Expected<StreamContext> findContext(const Driver &driver,
                                          CudaStream stream) {
  auto current = currentContext(driver);
  if (!current)
    return current.takeError();
  StreamContext found;
  if (stream) {
    auto owner = contextOf(driver, stream);
    if (!owner)
      return addContext(owner.takeError(), "stream");
    found.handle = *owner;
  } else {
    if (!*current)
      return makeError(ErrorCode::InvalidArgument,
                       "stream is null and no context is current to this "
                       "thread");
    found.handle = *current;
  }
  found.isCurrent = found.handle == *current;
  auto id = contextId(driver, found.handle);
  if (!id)
    return id.takeError();
  found.id = *id;
  return found;
}

llvm::Expected<CurrentContext>
CurrentContext::enter(const Driver &driver, const StreamContext &context) {
  CurrentContext entered;
  if (context.isCurrent)
    return entered;
  auto scope = ScopedContext::push(driver, context.handle);
  if (!scope)
    return scope.takeError();
  entered.scope.emplace(std::move(*scope));
  return entered;
}

} // namespace kiln
