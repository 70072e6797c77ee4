//===- WarmupPool.h - kiln warmup --pool ----------------------------------===//
#pragma once

#include "cli/CommonOptions.h"

namespace kiln::cli {

/// The options that only --pool has.
inline constexpr OptionSpec kPoolOptions[] = {
    {"--pool", nullptr,
     "compile the kernels that serve all sizes of the problem's signature: "
     "PROBLEM has no sizes"},
    {"--align", "16|all",
     "of --pool: rows that begin at multiples of 16 bytes, or a pool for each "
     "alignment; default 16"},
    {"--layers", "N",
     "of --pool: draw N layers to choose for; default 256, up to 4096 where "
     "these are too few"},
    {"--max-kernels", "N", "of --pool: at most N kernels; default 800"},
};

/// Makes the pools of the operands on \p devices.
llvm::Expected<int> warmPools(const ParsedOptions &options,
                              const Environment &environment,
                              llvm::ArrayRef<ChosenDevice> devices);

} // namespace kiln::cli
