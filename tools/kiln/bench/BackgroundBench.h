//===- BackgroundBench.h - kiln bench --background ------------------------===//
#pragma once

#include "kiln/CommonOptions.h"

namespace kiln::cli {

inline constexpr OptionSpec kBackgroundOption = {
    "--background", nullptr,
    "measure the mode background: random calls of the suite's layers, with "
    "values of --range (default m=1..2048) and --seed"};
inline constexpr OptionSpec kPermilleOption = {
    "--permille", "N",
    "--background: share of the GPU for trials, in thousandths; default 50"};
inline constexpr OptionSpec kCallsOption = {
    "--calls", "N",
    "--background: calls before the engine has had time to "
    "work; default 2000"};
inline constexpr OptionSpec kTimeOption = {
    "--time", "TIME",
    "--background: of the calls while it works; half of it for calls with and "
    "without trials, in turns, twice that at most for compared ones, and as "
    "long again until there is quiet; default 20s"};
inline constexpr OptionSpec kCheckedOption = {
    "--checked", "N",
    "--background: calls at least whose results are compared; default 10000"};

/// Measures what the mode background promises. Answers the exit code.
llvm::Expected<int> runBackgroundBench(const ParsedOptions &options,
                                       Environment environment,
                                       const Registry &registry);

} // namespace kiln::cli
