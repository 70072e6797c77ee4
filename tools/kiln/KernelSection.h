//===- KernelSection.h - a kernel's name, taken apart ---------------------===//
#pragma once

#include "Kernel/KernelName.h"
#include "cli/Report.h"

#include <optional>
#include <utility>

namespace kiln::cli {

/// The family, the template and each knob of a kernel that a profiler names.
class KernelSection final : public Report {
public:
  explicit KernelSection(KernelName name) : name(std::move(name)) {}
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

private:
  KernelName name;
};

/// The output of `explain KERNEL_NAME`; nullopt: \p operands are not a name of
/// a kernel. Errors: InvalidArgument for one that is misspelt.
llvm::Expected<std::optional<KernelSection>>
findKernel(llvm::ArrayRef<std::string> operands, const Registry &registry);

} // namespace kiln::cli
