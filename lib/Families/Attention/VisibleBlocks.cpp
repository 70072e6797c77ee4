//===- VisibleBlocks.cpp - blocks of keys that tiles of queries see -------===//
//
// A tile of rows mb sees the blocks from lo(mb) to hi(mb), both of the form
// floor((a mb + b) / m), clamped to the existing keys. Their sums have a closed
// form that works like Euclid's algorithm, so that a long sequence costs no
// more than a short one.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionModel.h"
#include "Model/MathUtil.h"

#include <algorithm>

namespace kiln {

namespace {

/// floor((slope * i + offset) / divisor), clamped to [0, cap]; a slope above 0.
struct ClampedLine {
  int64_t slope = 1, offset = 0, divisor = 1, cap = 0;

  int64_t at(int64_t i) const {
    int64_t value = slope * i + offset;
    return value < 0 ? 0 : std::min(value / divisor, cap);
  }
  /// The least i >= 0 whose value is above 0.
  int64_t firstAboveZero() const {
    return offset >= divisor ? 0 : ceilDiv(divisor - offset, slope);
  }
  int64_t sum(int64_t count) const;
};

} // namespace

/// The sum of floor((slope * i + offset) / divisor) for 0 <= i < count, for
/// non-negative arguments.
/// numbers of at least 0.
static int64_t floorSum(int64_t count, int64_t divisor, int64_t slope,
                        int64_t offset) {
  int64_t sum = 0;
  while (count > 0) {
    sum += (count - 1) * count / 2 * (slope / divisor);
    sum += count * (offset / divisor);
    slope %= divisor;
    offset %= divisor;
    int64_t end = slope * count + offset;
    count = end / divisor;
    offset = end % divisor;
    std::swap(divisor, slope);
  }
  return sum;
}

int64_t ClampedLine::sum(int64_t count) const {
  int64_t first = offset >= 0 ? 0 : ceilDiv(-offset, slope);
  first = std::min(first, count);
  int64_t full = cap * divisor - offset;
  int64_t end = std::clamp(full <= 0 ? 0 : ceilDiv(full, slope), first, count);
  return floorSum(end - first, divisor, slope, slope * first + offset) +
         (count - end) * cap;
}

int64_t expectedKeys(const AttentionProblem &problem) {
  return problem.typicalKeys > 0 ? std::min(problem.typicalKeys, problem.keys)
                                 : problem.keys;
}

int64_t expectedQueries(const AttentionProblem &problem) {
  // The lengths of packed sequences are unknown: they rarely exceed the keys,
  // unless the longest one does (cross-attention).
  if (!problem.hasPackedQueries() || problem.queries > problem.keys)
    return problem.queries;
  return std::min(problem.queries, std::max<int64_t>(expectedKeys(problem), 1));
}

VisibleBlocks visibleBlocks(const AttentionProblem &problem, int64_t rows,
                            int64_t packed, int64_t keys) {
  int64_t present = expectedKeys(problem), queries = expectedQueries(problem);
  int64_t cap = ceilDiv(present, keys);
  VisibleBlocks visible;
  visible.tiles = ceilDiv(queries * packed, rows);
  if (problem.mask == AttentionMask::None || visible.tiles == 0) {
    visible.blocks = visible.tiles * cap;
    visible.longest = visible.shortest = visible.tiles > 0 ? cap : 0;
    visible.masked = present % keys != 0 ? visible.tiles : 0;
    visible.empty = cap > 0 ? 0 : visible.tiles;
    return visible;
  }
  bool isWindow = problem.mask == AttentionMask::Window;
  int64_t shift = present - queries, most = present + queries;
  int64_t left = isWindow ? std::min(problem.left, most) : most;
  int64_t right = isWindow ? std::min(problem.right, most) : 0;
  // Row r belongs to query r / packed. The last tile ends with the last query.
  ClampedLine hi{rows, rows - 1 + packed * (shift + right + keys),
                 packed * keys, cap};
  ClampedLine lo{rows, packed * (shift - left), packed * keys, cap};
  int64_t last = visible.tiles - 1;
  auto blocksOf = [&](int64_t tile) {
    int64_t end =
        tile < last
            ? hi.at(tile)
            : std::clamp<int64_t>((present - 1 + right + keys) / keys, 0, cap);
    return std::max<int64_t>(end - lo.at(tile), 0);
  };
  visible.blocks = hi.sum(last) - lo.sum(last) + blocksOf(last);
  visible.longest = visible.shortest = blocksOf(last);
  for (int64_t tile : {int64_t(0), last / 4, last / 2, last * 3 / 4}) {
    visible.longest = std::max(visible.longest, blocksOf(tile));
    visible.shortest = std::min(visible.shortest, blocksOf(tile));
  }
  // With more queries than keys the first tiles are empty; the last query sees
  // the last key.
  visible.empty = cap > 0 ? std::min(hi.firstAboveZero(), last) : visible.tiles;
  // Keys that the first row sees ahead, and the last one behind.
  ClampedLine wholeHi{rows, packed * (shift + right + 1), packed * keys,
                      present / keys};
  int64_t whole = wholeHi.sum(visible.tiles);
  if (isWindow) {
    ClampedLine wholeLo{rows, rows - 1 + packed * (shift - left + keys - 1),
                        packed * keys, cap};
    whole -= wholeLo.sum(visible.tiles);
  }
  visible.masked = visible.blocks - std::max<int64_t>(whole, 0);
  return visible;
}

} // namespace kiln
