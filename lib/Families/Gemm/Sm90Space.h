//===- Sm90Space.h - the configs of the wgmma GEMM for a problem ----------===//
#pragma once

#include "Device/DeviceModel.h"
#include "Families/Gemm/GemmProblem.h"
#include "Kernel/FastestVariant.h"
#include "gemm/Sm90GemmConfig.h"

#include <array>
#include <cstdint>

namespace kiln {

/// Calls \p emit with the space of \p problem, best guesses first. Pure, some
/// tens of microseconds.
void forEachSm90Config(const GemmProblem &problem,
                       const GemmSignature &signature,
                       const DeviceModel &device, Emit<Sm90GemmConfig> emit);

/// Calls \p emit with the configs of \p config's kernel that the space of
/// \p problem may have, in its order.
void forEachSm90Variant(const GemmProblem &problem,
                        const GemmSignature &signature,
                        const DeviceModel &device, const Sm90GemmConfig &config,
                        Emit<Sm90GemmConfig> emit);

// Choices that the space of packed weights makes as well.

/// Stages of the deepest ring that fits beside what else \p config has in
/// shared memory, at least \p least: the pruner then names what does not fit.
int sm90StagesThatFit(Sm90GemmConfig config, const GemmSignature &signature,
                      int least, const DeviceModel &device);

/// Blocks that may share a tile's k, at most.
inline constexpr int64_t kMostSm90Splits = 32;

/// As many splits of \p steps along k as run at once where there are \p tiles
/// tiles, and fewer by a quarter. Either may be too few to be of use.
std::array<int64_t, 2> sm90Splits(int64_t tiles, int64_t steps,
                                  const DeviceModel &device);

/// Whether tiles along m are so few that activations may stay in L2 by hints.
bool hasFewTilesAlongM(const GemmProblem &problem,
                       const Sm90GemmConfig &config);

/// Whether neighbouring blocks are the tiles of one split. Blocks that ask for
/// the same tiles are to be neighbours where both sides have many: on an H200,
/// 256 x 256 x 16384 with 8 splits took 11.4 us, and 9.2 with tiles first;
/// where one side has few it was 0 to 7 % slower.
bool walksTilesFirst(const GemmProblem &problem, const Sm90GemmConfig &config);

} // namespace kiln
