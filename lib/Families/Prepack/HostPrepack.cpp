//===- HostPrepack.cpp - weights packed by the host -----------------------===//
#include "Families/Prepack/PrepackFamily.h"

#include <algorithm>
#include <cstring>

namespace kiln {

namespace {

class HostPrepack {
public:
  HostPrepack(const PrepackProblem &problem, const PrepackParams &params)
      : problem(problem), from(problem.from()), params(params) {}

  void packWeights() const {
    const int bits = bitsOf(problem.source);
    const int64_t depth = PackedWeights::blocksOf(problem.k);
    const int blockBytes = PackedWeights::blockBytes(bits);
    auto *packed = static_cast<uint8_t *>(params.packed);
    std::memset(packed, 0,
                static_cast<size_t>(problem.blockRows() * problem.rowBytes()));
    for (int64_t row = 0; row < problem.blockRows() * 64; ++row) {
      const int pad = std::min(15, zeroOf(row, from.groups() - 1));
      for (int64_t at = 0; at < depth * 64; ++at) {
        const bool isInside = row < problem.n && at < problem.k;
        const int code = isInside          ? codeOf(row, at)
                         : row < problem.n ? pad
                                           : from.constantZero();
        const int bit = PackedWeights::bitOf(bits, int(row % 64), int(at % 64));
        packed[(row / 64 * depth + at / 64) * blockBytes + bit / 8] |=
            static_cast<uint8_t>(code << bit % 8);
      }
    }
  }

  void packGroups() const {
    const int64_t groups = problem.packedGroups();
    const auto bytes = static_cast<size_t>(bytesOf(problem.scaleType));
    const auto *scales = static_cast<const uint8_t *>(params.scales);
    auto *packedScales = static_cast<uint8_t *>(params.packedScales);
    auto *packedZeros = static_cast<uint8_t *>(params.packedZeros);
    for (int64_t row = 0; row < problem.blockRows() * 64; ++row)
      for (int64_t group = 0; group < groups; ++group) {
        const auto to =
            static_cast<size_t>(PackedWeights::scaleAt(row, group, groups));
        if (row < problem.n && group < from.groups())
          std::memcpy(packedScales + to * bytes,
                      scales +
                          static_cast<size_t>(from.scaleOf(row, group)) * bytes,
                      bytes);
        else
          std::memset(packedScales + to * bytes, 0, bytes);
        if (problem.zeros)
          packedZeros[to] = static_cast<uint8_t>(zeroOf(row, group));
      }
  }

private:
  static int nibbleOf(const void *words, int64_t index, int place) {
    uint32_t word;
    std::memcpy(&word, static_cast<const char *>(words) + index * 4,
                sizeof(word));
    return static_cast<int>(word >> 4 * place & 15);
  }
  int codeOf(int64_t row, int64_t at) const {
    if (bitsOf(problem.source) == 8)
      return static_cast<const uint8_t *>(params.weights)[row * problem.k + at];
    return nibbleOf(params.weights, from.wordOf(row, at),
                    from.placeOf(row, at));
  }
  int zeroOf(int64_t row, int64_t group) const {
    if (!problem.zeros || row >= problem.n || group >= from.groups())
      return from.constantZero();
    return nibbleOf(params.zeros, from.zeroWordOf(row, group),
                    from.zeroPlaceOf(row)) +
           from.zeroOffset();
  }

  const PrepackProblem &problem;
  const PrepackSource from;
  const PrepackParams &params;
};

} // namespace

void packOnHost(const PrepackProblem &problem, const PrepackParams &params) {
  const HostPrepack pack(problem, params);
  pack.packWeights();
  pack.packGroups();
}

} // namespace kiln
