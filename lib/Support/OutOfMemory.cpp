//===- OutOfMemory.cpp ----------------------------------------------------===//
#include "Support/OutOfMemory.h"

#include <llvm/Support/ErrorHandling.h>

#include <new>

namespace kiln {

/// LLVM's own frames have unwind tables and no objects that would be left
/// behind: its containers allocate before they change anything.
static void throwBadAlloc(void *, const char *, bool) {
  throw std::bad_alloc();
}

void throwWhereMemoryIsOut() {
  static const bool isInstalled = [] {
    llvm::install_bad_alloc_error_handler(throwBadAlloc);
    return true;
  }();
  (void)isInstalled;
}

} // namespace kiln
