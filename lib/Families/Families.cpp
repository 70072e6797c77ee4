//===- Families.cpp -------------------------------------------------------===//
#include "Families/Families.h"

namespace kiln {

#define KILN_FAMILY(make) std::unique_ptr<KernelFamily> make();
#include "Families/Families.def"

Registry makeBuiltinRegistry() {
  Registry registry;
#define KILN_FAMILY(make)                                                      \
  llvm::cantFail(registry.add(make()), "a family is listed twice");
#include "Families/Families.def"
  return registry;
}

} // namespace kiln
