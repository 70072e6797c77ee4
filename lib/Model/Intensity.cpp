//===- Intensity.cpp ------------------------------------------------------===//
#include "Model/Intensity.h"

namespace kiln {

static Intensity judge(double flops, double bytes, double peakFlopsPerNs,
                       double bytesPerNs) {
  Intensity result;
  result.flops = flops;
  result.bytes = bytes;
  result.flopsPerByte = bytes > 0 ? flops / bytes : 0;
  result.ridge = peakFlopsPerNs / bytesPerNs;
  result.computeBound = result.flopsPerByte >= result.ridge;
  return result;
}

Intensity tileIntensity(int64_t blockM, int64_t blockN, int64_t bitsA,
                        int64_t bitsB, double peakFlopsPerNs,
                        double l2BytesPerNs) {
  double flops =
      2.0 * static_cast<double>(blockM) * static_cast<double>(blockN);
  double bytes = static_cast<double>(blockM * bitsA + blockN * bitsB) / 8;
  return judge(flops, bytes, peakFlopsPerNs, l2BytesPerNs);
}

// In doubles: products of three sizes may pass 2^63.
double compulsoryBytes(const ProblemSize &size) {
  double m = static_cast<double>(size.m), n = static_cast<double>(size.n);
  double k = static_cast<double>(size.k);
  double bits = m * k * static_cast<double>(size.bitsA) +
                n * k * static_cast<double>(size.bitsB) +
                m * n * static_cast<double>(size.bitsD);
  return static_cast<double>(size.batch) * bits / 8;
}

Intensity problemIntensity(const ProblemSize &size, double peakFlopsPerNs,
                           double dramBytesPerNs) {
  double flops = 2.0 * static_cast<double>(size.m) *
                 static_cast<double>(size.n) * static_cast<double>(size.k) *
                 static_cast<double>(size.batch);
  return judge(flops, compulsoryBytes(size), peakFlopsPerNs, dramBytesPerNs);
}

} // namespace kiln
