//===- Commands.h - the commands of kiln-llama ----------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_COMMANDS_H
#define KILN_EXAMPLES_LLAMA_COMMANDS_H

#include "Options.h"

namespace llama {

// Each returns the exit code, and throws what goes wrong.

/// Serves a synthetic workload and reports throughput, latencies, memory, the
/// share of the roofline and the calls of Kiln that waited.
int benchCommand(Options &options);
/// Serves completions over HTTP until a signal.
int serveCommand(Options &options);
/// Serves blocks of steps on request, for a peer that takes turns.
int lockstepCommand(Options &options);
/// Writes the logits of token lists, for comparisons of numerics.
int logitsCommand(Options &options);
/// Writes config.json and the engine's weights as bf16, which transformers
/// loads.
int exportCommand(Options &options);

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_COMMANDS_H
