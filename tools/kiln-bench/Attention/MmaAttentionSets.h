//===- MmaAttentionSets.h - named sets of configs of `mma` ----------------===//
//
// A study of the decisions of MmaAttentionConfig compares kernels that differ
// in known ways. The sets are those that such studies name:
//
//   tune      80: both types, tiles of 64 and 128 rows by 32 and 64 keys, all
//             loads of fragments that tuneRules() leave; sorted
//   all       the same
//   prog      7 steps from plain asynchronous copies to the tuned kernel
//   progall   56: these steps for each size of a tile
//   R,K       those of tune with tiles of R rows and K keys
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Attention/AttentionProblem.h"
#include "attention/MmaAttentionConfig.h"

#include "Device/DeviceModel.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <vector>

namespace kiln::cli {

/// Why a config is not worth tuning.
struct TuneRule {
  llvm::StringRef name;
  /// The wall that explains it.
  llvm::StringRef reason;
  bool (*leavesOut)(const MmaAttentionConfig &config);
};
/// In the order in which they are asked.
llvm::ArrayRef<TuneRule> tuneRules();
/// The first rule that leaves \p config out; null: it is worth tuning.
const TuneRule *leftOutBy(const MmaAttentionConfig &config);

/// "tune, all, prog, progall or R,K (rows and keys of a tile)"
llvm::StringRef mmaAttentionSetNames();
/// The configs of the set called \p name, in its order. Names that begin with
/// "prog" mean the progression, "progall" that of all tiles. Errors:
/// InvalidArgument, which lists the sets.
llvm::Expected<std::vector<MmaAttentionConfig>>
mmaAttentionSet(llvm::StringRef name);

/// Operations of one tile of scores: both products, and what the softmax does
/// with its rows.
double tileFlops(const MmaAttentionConfig &config);
/// Operations of a whole launch: all tiles that \p problem makes of a config,
/// and their ends. They are more than the problem needs where tiles are cut.
double kernelFlops(const AttentionProblem &problem,
                   const MmaAttentionConfig &config);
/// Operations of the problem: 2 (d + dv) + 6 for each pair of a query and a key
/// that it sees. The 6 stand for its softmax, which the usual count
/// (KernelFamily::flops) leaves out.
double attentionFlops(const AttentionProblem &problem);

/// Blocks that a study expects on an SM: 2, or 1 of 8 warps or where shared
/// memory has no room for two.
int expectedBlocksPerSm(const MmaAttentionConfig &config, int64_t sharedBytes,
                        const DeviceModel &device);

} // namespace kiln::cli
