//===- CallReader.cpp -----------------------------------------------------===//
#include "Call/CallReader.h"

namespace kiln {

const KernelFamily *findFamily(const Registry &registry, kiln_family number) {
  for (const auto &family : registry.families())
    if (family->call() && family->call()->number == number)
      return family.get();
  return nullptr;
}

CallTable::CallTable(const Registry &registry) {
  for (const auto &family : registry.families()) {
    const CallReader *reader = family->call();
    if (!reader)
      continue;
    auto index = static_cast<size_t>(reader->number);
    targets.resize(std::max(targets.size(), index + 1));
    assert(!targets[index].family && "two families have one number");
    targets[index] = {family.get(), reader};
  }
}

} // namespace kiln
