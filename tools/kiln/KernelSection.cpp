//===- KernelSection.cpp - a kernel's name, taken apart -------------------===//
#include "kiln/KernelSection.h"

#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

/// Whether a config's text or its kernel's name has the field.
static bool isCompiled(const Field &field) {
  return field.role == FieldRole::Knob;
}

void KernelSection::print(llvm::raw_ostream &os) const {
  os << fmt::format("family     {}\n", name.family->name());
  if (!name.tmpl) {
    os << fmt::format("kernel     {}\nsignature  {}\n", name.role, name.tag);
    return;
  }
  os << fmt::format("template   {}\nconfig     {}\nsignature  {}\n\n",
                    name.tmpl->name(), name.config.text(), name.tag);
  Table table({"knob", ">value", "meaning"});
  for (auto [i, field] : llvm::enumerate(name.config.schema().fields()))
    if (isCompiled(field))
      table.addRow({field.key.str(), name.config.valueText(static_cast<int>(i)),
                    field.meaning.str()});
  table.print(os);
}

llvm::json::Object KernelSection::toJson() const {
  llvm::json::Object object{{"family", name.family->name()},
                            {"signature", name.tag}};
  if (!name.tmpl) {
    object["kernel"] = name.role;
    return object;
  }
  object["template"] = name.tmpl->name();
  object["config"] = name.config.text();
  llvm::json::Array knobs;
  for (auto [i, field] : llvm::enumerate(name.config.schema().fields()))
    if (isCompiled(field))
      knobs.push_back(
          llvm::json::Object{{"knob", field.key},
                             {"value", name.config[static_cast<int>(i)]},
                             {"meaning", field.meaning}});
  object["knobs"] = std::move(knobs);
  return object;
}

llvm::Expected<std::optional<KernelSection>>
findKernel(llvm::ArrayRef<std::string> operands, const Registry &registry) {
  if (operands.size() != 1 ||
      !llvm::StringRef(operands.front()).starts_with(kKernelPrefix))
    return std::nullopt;
  auto name = parseKernelName(registry, operands.front());
  if (!name)
    return name.takeError();
  return KernelSection(std::move(*name));
}

} // namespace kiln::cli
