//===- AttentionConfigNames.h - what studies call configs of `mma` --------===//
//
// Results of attention studies, and profilers, name kernels by the thirteen
// decisions of MmaAttentionConfig in one of three forms. These are read and
// written here, so that figures of Kiln and of others can stand in one table.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attention/MmaAttentionConfig.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <string>

namespace kiln::cli {

enum class ConfigNameForm {
  /// "(FP16, 128, 64, 64, 4): async+eager+swizzled+load_0_2_2_tiles": flags
  /// that are not there are off.
  Short,
  /// "flash_forward_kernel<FlashForwardKernelConfig{5, 128, ..., 1}>"
  Demangled,
  /// The same, of "(c10::ScalarType)5, (int)128, ..., (bool)1".
  Typed,
};

/// The name of \p config, whose dtype must be one of the two.
std::string configName(const MmaAttentionConfig &config,
                       ConfigNameForm form = ConfigNameForm::Short);

/// Reads a name of any form, also one that stands in a longer text: a
/// profiler's row, the first cell of a table. A dtype is a name in any case or
/// its number, a flag 0, 1, true or false. Errors: InvalidArgument with what
/// was expected and the offending part.
llvm::Expected<MmaAttentionConfig> parseConfigName(llvm::StringRef text);

} // namespace kiln::cli
