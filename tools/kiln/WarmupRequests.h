//===- WarmupRequests.h - kiln warmup --model and --history ---------------===//
#pragma once

#include "cli/CommonOptions.h"

namespace kiln::cli {

/// The options that only --model has.
inline constexpr OptionSpec kModelOptions[] = {
    {"--model", "FILE",
     "a config.json of transformers, or its folder: compile what an engine "
     "that serves the model prepares"},
    {"--tp", "N", "of --model: ranks of tensor parallelism; default 1"},
    {"--sums", "kiln|nccl",
     "of --model: the library that sums over ranks; default kiln"},
    {"--dtype", "bf16|fp8|w4|mxfp4",
     "of --model: weights as they are, W8A8 with a scale for each row, W4A16 "
     "with scales for 128 k, or MXFP4; default bf16"},
    {"--kv-cache", "bf16|e4m3", "of --model: type of the cache; default bf16"},
    {"--max-tokens", "N", "of --model: tokens of a step; default 8192"},
    {"--max-batch", "N", "of --model: sequences of a step; default 256"},
    {"--max-positions", "N",
     "of --model: tokens of a sequence; default the model's, 8192 at most"},
    {"--page-tokens", "N", "of --model: tokens of a page; default 64"},
};

/// The further options of --model and --history.
inline constexpr OptionSpec kHistoryOptions[] = {
    {"--history", "FILE",
     "compile what an engine asked for before, from the file that "
     "KILN_HISTORY named"},
    {"--dry-run", nullptr,
     "of --model and --history: only count what would be compiled"},
};

/// Warms up for the model and the history of \p options on \p devices.
llvm::Expected<int> warmRequests(const ParsedOptions &options,
                                 const Environment &environment,
                                 llvm::ArrayRef<ChosenDevice> devices);

} // namespace kiln::cli
