//===- KernelReference.h - a reference of one kernel ----------------------===//
#pragma once

#include "Families/KernelUnit.h"
#include "Kernel/Family.h"

#include <memory>
#include <utility>

namespace kiln {

/// The reference that launches \p unit with blocks of \p threads. \p fill gets
/// arguments, the part and the kernel's params: it completes these, except for
/// the part's rows and their results, and returns the number of blocks.
template <class Params, class Fill>
std::unique_ptr<Reference> makeReference(TranslationUnit unit, int threads,
                                         Fill fill) {
  struct KernelReference final : Reference {
    KernelReference(TranslationUnit unit, int threads, Fill fill)
        : unit(std::move(unit)), threads(threads), fill(std::move(fill)) {}

    const TranslationUnit &translationUnit() const override { return unit; }

    void bind(const Arguments &arguments, const ReferencePart &part,
              LaunchSpec &spec) const override {
      Params params;
      const int64_t blocks = fill(arguments, part, params);
      params.rowBegin = part.rowBegin;
      params.rowEnd = part.rowEnd;
      params.reference = reinterpret_cast<double *>(part.values);
      params.bound = reinterpret_cast<double *>(part.bounds);
      KernelStep &step = spec.addKernel(params);
      step.grid.x = static_cast<uint32_t>(blocks);
      step.block.x = static_cast<uint32_t>(threads);
    }

    TranslationUnit unit;
    int threads;
    Fill fill;
  };
  return std::make_unique<KernelReference>(std::move(unit), threads,
                                           std::move(fill));
}

} // namespace kiln
