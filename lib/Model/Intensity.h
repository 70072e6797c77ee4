//===- Intensity.h - arithmetic intensity of a tile and of a problem ------===//
//
// The roofline (Williams et al., CACM 2009) at two levels: a tile's demand on
// L2, and a problem's demand on DRAM. Where the flops per byte fall short of
// the ridge, the memory and not the arithmetic sets the time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace kiln {

/// Flops per byte against the ridge of a roofline.
struct Intensity {
  double flops = 0;
  double bytes = 0;
  double flopsPerByte = 0;
  double ridge = 0;          ///< peak flops per ns / bandwidth in bytes per ns
  bool computeBound = false; ///< flopsPerByte >= ridge
};

/// Intensity of an output tile against L2: 2*bM*bN flops for bM*bytesA +
/// bN*bytesB bytes a step of k; with equal types 2*bM*bN / ((bM+bN)*bytes).
/// Widths in bits an element; rates in flops and bytes per ns of the chip.
Intensity tileIntensity(int64_t blockM, int64_t blockN, int64_t bitsA,
                        int64_t bitsB, double peakFlopsPerNs,
                        double l2BytesPerNs);

/// Sizes of a contraction and widths of its elements in bits.
struct ProblemSize {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t bitsA = 0, bitsB = 0, bitsD = 0;
};

/// Bytes of A, B and D, each touched once.
double compulsoryBytes(const ProblemSize &size);

/// Intensity of a problem against DRAM: 2mnk flops for the bytes of A, B and D.
Intensity problemIntensity(const ProblemSize &size, double peakFlopsPerNs,
                           double dramBytesPerNs);

} // namespace kiln
