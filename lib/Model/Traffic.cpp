//===- Traffic.cpp --------------------------------------------------------===//
#include "Model/Traffic.h"

#include "Model/MathUtil.h"

#include <algorithm>
#include <cassert>

namespace kiln {

namespace {
/// The operand whose strip a group of tiles keeps, and the one it streams.
struct Operand {
  double rows;       ///< m or n
  double rowBytes;   ///< k elements
  int64_t tiles;     ///< along its dimension
  int64_t blockRows; ///< of a tile

  double bytes() const { return rows * rowBytes; }
  /// Bytes of \p count tiles next to each other.
  double bytesOf(int64_t count) const {
    return std::min(rows, static_cast<double>(count * blockRows)) * rowBytes;
  }
};

/// How often DRAM serves the kept and the streamed operand.
struct Reads {
  double kept, streamed;
};
} // namespace

/// Share of \p bytes that stays in \p room.
static double keptShare(double room, double bytes) {
  return bytes <= 0 ? 1.0 : std::clamp(room / bytes, 0.0, 1.0);
}

/// Reads of an operand that is wanted \p times, of which \p share stays.
static double readsOf(int64_t times, double share) {
  return 1 + static_cast<double>(times - 1) * (1 - share);
}

static Reads readsOfGroups(const Operand &kept, const Operand &streamed,
                           int64_t groupTiles, int64_t waveTiles,
                           double l2Bytes) {
  int64_t group = std::min(groupTiles, kept.tiles);
  int64_t groups = ceilDiv(kept.tiles, group);
  // A wave is a rectangle: some tiles of the walk, or several whole groups.
  int64_t walkTiles = std::clamp<int64_t>(waveTiles / group, 1, streamed.tiles);
  int64_t groupsPerWave =
      std::clamp<int64_t>(waveTiles / (group * streamed.tiles), 1, groups);
  int64_t wavesPerWalk = ceilDiv(streamed.tiles, walkTiles);

  double strip = kept.bytesOf(group * groupsPerWave);
  double waveBytes = streamed.bytesOf(walkTiles);
  return {readsOf(wavesPerWalk, keptShare(l2Bytes - waveBytes, strip)),
          readsOf(ceilDiv(groups, groupsPerWave),
                  keptShare(l2Bytes - strip, streamed.bytes()))};
}

Traffic traffic(const DeviceModel &device, const TrafficInput &input) {
  assert(input.m > 0 && input.n > 0 && input.k > 0 && input.batch > 0 &&
         input.splitK > 0 && input.groupTiles > 0 && "an empty problem");
  double k = static_cast<double>(input.k);
  double batch = static_cast<double>(input.batch);
  Operand a{static_cast<double>(input.m),
            k * static_cast<double>(input.bitsA) / 8,
            ceilDiv(input.m, input.blockM), input.blockM};
  Operand b{static_cast<double>(input.n),
            k * static_cast<double>(input.bitsB) / 8,
            ceilDiv(input.n, input.blockN), input.blockN};

  Traffic result;
  result.input = input;
  result.asksOfA = ceilDiv(b.tiles, input.clusterN);
  result.asksOfB = ceilDiv(a.tiles, input.clusterM);

  int64_t waveTiles = std::max<int64_t>(1, input.slots / input.splitK);
  double l2Bytes = kUsableL2Share * static_cast<double>(device.l2Bytes);
  Reads reads =
      readsOfGroups(input.groupAlongN ? b : a, input.groupAlongN ? a : b,
                    input.groupTiles, waveTiles, l2Bytes);
  result.readsOfA = input.groupAlongN ? reads.streamed : reads.kept;
  result.readsOfB = input.groupAlongN ? reads.kept : reads.streamed;

  double outputs = batch * a.rows * b.rows;
  result.storeBytes = outputs * static_cast<double>(input.bitsD) / 8;
  if (input.splitK > 1) {
    result.reduceReadBytes = outputs * static_cast<double>(input.bitsPartial) /
                             8 * static_cast<double>(input.splitK);
    result.storeBytes += result.reduceReadBytes;
  }
  return result;
}

} // namespace kiln
