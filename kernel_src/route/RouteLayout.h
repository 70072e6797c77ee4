//===- route/RouteLayout.h - shared memory of a block that routes ---------===//
//
// Offsets in bytes, multiples of 4. Host and kernels share them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "route/RouteParams.h"
#include "route/RouteSignature.h"

namespace kiln {

/// Tokens whose choices of an expert are the bits of a word.
inline constexpr int kRouteChunk = 32;
/// The most blocks of a cluster.
inline constexpr int kRouteBlocks = 8;

/// The word of \p expert, or the number of words of so many. A word is left out
/// behind each 32, so that lanes which walk experts / 32 experts each meet in
/// no bank.
constexpr int expertWord(int expert) { return expert + expert / 32; }

struct RouteLayout {
  int masks = 0;   ///< [chunks][experts]: the tokens that chose it, as bits
  int places = 0;  ///< [chunks][experts]: the place of the first of them
  int bases = 0;   ///< ExpertWords: the place of the next
  int totals = 0;  ///< ExpertWords: rows of all blocks
  int counts = 0;  ///< [blocks][experts]: rows of each block
  int choices = 0; ///< experts of a pass, 16 bits each
  int keys = 0;    ///< [warps][experts], of a token
  int bytes = 0;   ///< of all
};

/// The layout for \p experts experts (a multiple of 32), passes of \p chunks
/// times kRouteChunk tokens, and clusters of \p blocks.
constexpr RouteLayout routeLayout(const RouteSignature &signature, int experts,
                                  int chunks, int warps, int blocks) {
  constexpr int kWordBytes = 4, kChoiceBytes = 2;
  RouteLayout layout;
  auto place = [&](int bytes) {
    const int at = layout.bytes;
    layout.bytes += bytes;
    return at;
  };
  layout.masks = place(chunks * experts * kWordBytes);
  layout.places = place(chunks * experts * kWordBytes);
  layout.bases = place(expertWord(experts) * kWordBytes);
  layout.totals = place(expertWord(experts) * kWordBytes);
  layout.counts = place(blocks * experts * kWordBytes);
  layout.choices = place(chunks * kRouteChunk * kRouteTopK * kChoiceBytes);
  layout.keys = place(signature.grouped ? warps * experts * kWordBytes : 0);
  return layout;
}

/// Whether kernels have the threads, items and chunks of \p config.
template <class Config> constexpr bool isRouteShape(const Config &config) {
  const int threads = config.blockThreads;
  return threads >= 32 && threads <= 1024 && threads % 32 == 0 &&
         config.items >= 1 && config.items <= 32 && config.chunks >= 1 &&
         config.chunks <= 8;
}

/// Registers of a thread (ptxas 13.0 for sm_90, all configs of the space). A
/// fifth of them can be spared where a block has too many threads.
constexpr int routeRegisters(const RouteSignature &signature, int items,
                             int threads) {
  constexpr int kRegistersPerSm = 65536;
  const int most = kRegistersPerSm / threads;
  const int wanted = signature.byScore ? 40 + 4 * items : 37 + 9 * items / 4;
  if (wanted > most && wanted * 5 <= most * 6)
    return most;
  const int rounded = wanted < 48 ? 48 : (wanted + 7) / 8 * 8;
  return rounded < most ? rounded : wanted > most ? rounded : most;
}

} // namespace kiln
