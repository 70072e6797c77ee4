//===- Families.cpp -------------------------------------------------------===//
#include "Families/Families.h"

namespace kiln {

Registry makeBuiltinRegistry() {
  Registry registry;
#define KILN_FAMILY(make)                                                      \
  llvm::cantFail(registry.add(make()), "a family is listed twice");
#include "Families/Families.def"
  return registry;
}

} // namespace kiln
