//===- RingTile.h - what tiles fed by a ring of cp.async share ------------===//
//
// The templates mma and ffma have the same knobs beside those of their
// instruction: a tile, stages of k in a ring, split-K, a raster.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/TileEstimate.h"
#include "Kernel/Family.h"

namespace kiln {

/// The class of \p config among those of template number \p number. Fewer
/// splits move fewer bytes; among ties they are the safer choice.
template <class Config>
CandidateClass ringTileClass(int number, const Config &config) {
  return {classKey({number, config.blockM, config.blockN, config.splitK}),
          config.splitK};
}

/// The kernel of \p config, except for the numbers that its instruction
/// decides: registers, reads of shared memory, rates.
template <class Config>
TileKernel ringTileKernel(const GemmSignature &signature,
                          const Config &config) {
  TileKernel kernel;
  kernel.blockM = config.blockM;
  kernel.blockN = config.blockN;
  kernel.blockK = config.blockK;
  kernel.stages = config.stages;
  kernel.threads = config.threads();
  kernel.splitK = config.splitK;
  if constexpr (requires { config.waveBlocks; })
    kernel.waveBlocks = config.waveBlocks;
  kernel.rasterGroup = config.rasterGroup;
  kernel.sharedBytes = config.sharedBytes(signature);
  const int rowBytes = config.blockK * bytesOf(signature.in);
  kernel.stageBytesA = int64_t(config.blockM) * rowBytes;
  kernel.stageBytesB = int64_t(config.blockN) * rowBytes;
  return kernel;
}

} // namespace kiln
