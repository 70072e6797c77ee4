// The rules of kernel_src/attention/AttentionRanges.h, which all kernels share,
// and the count of pairs, against a loop over every pair.
#include "attention/AttentionRanges.h"
#include "Families/Attention/AttentionProblem.h"
#include "Families/FamilyTesting.h"

#include <doctest/doctest.h>

#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

constexpr int kUnlimited = 0x7fffffff;

struct MaskCase {
  AttentionMask mask;
  int left, right;
};
constexpr MaskCase kMasks[] = {{AttentionMask::None, 0, 0},
                               {AttentionMask::Causal, 0, 0},
                               {AttentionMask::Window, 0, 0},
                               {AttentionMask::Window, 1, 0},
                               {AttentionMask::Window, 3, 2},
                               {AttentionMask::Window, kUnlimited, 2},
                               {AttentionMask::Window, 4, kUnlimited},
                               {AttentionMask::Window, 100, 100}};

/// The definition.
bool sees(const MaskCase &mask, int row, int queries, int keys, int key) {
  const long long position = (long long)(row) + keys - queries;
  switch (mask.mask) {
  case AttentionMask::None:
    return true;
  case AttentionMask::Causal:
    return key <= position;
  case AttentionMask::Window:
    return key >= position - mask.left && key <= position + mask.right;
  }
  return false;
}

/// Calls \p visit with each mask and small numbers of queries and keys.
template <class Visit> void forEachCase(Visit visit) {
  for (const MaskCase &mask : kMasks)
    for (int queries : {0, 1, 2, 5, 9, 17})
      for (int keys : {0, 1, 3, 5, 8, 21}) {
        CAPTURE(int(mask.mask));
        CAPTURE(mask.left);
        CAPTURE(mask.right);
        CAPTURE(queries);
        CAPTURE(keys);
        visit(mask, reachOf(mask.mask, mask.left, mask.right), queries, keys);
      }
}

} // namespace

TEST_CASE("a query sees the keys that its mask says") {
  forEachCase(
      [](const MaskCase &mask, AttentionReach reach, int queries, int keys) {
        for (int row = 0; row < queries; ++row) {
          const AttentionRange range = keysOf(reach, row, queries, keys);
          CHECK(range.begin <= range.end);
          for (int key = 0; key < keys; ++key)
            CHECK(range.contains(key) == sees(mask, row, queries, keys, key));
          CHECK((range.begin >= 0 && range.end <= keys));
        }
      });
}

TEST_CASE("a tile of queries has the keys of any and of all of its rows") {
  forEachCase([](const MaskCase &mask, AttentionReach reach, int queries,
                 int keys) {
    for (int first = 0; first < queries; ++first)
      for (int last = first + 1; last <= queries; ++last) {
        const AttentionRange any =
            keysOfAny(reach, {first, last}, queries, keys);
        const AttentionRange all =
            keysOfAll(reach, {first, last}, queries, keys);
        for (int key = 0; key < keys; ++key) {
          bool isSeen = false, isSeenByAll = true;
          for (int row = first; row < last; ++row) {
            const bool here = sees(mask, row, queries, keys, key);
            isSeen |= here;
            isSeenByAll &= here;
          }
          // A range may include keys that no row sees, between those of two
          // rows.
          CHECK((!isSeen || any.contains(key)));
          CHECK(all.contains(key) == isSeenByAll);
        }
        const AttentionRange ofFirst = keysOf(reach, first, queries, keys);
        const AttentionRange ofLast = keysOf(reach, last - 1, queries, keys);
        CHECK((ofFirst.size() == 0 || any.begin == ofFirst.begin));
        CHECK((ofLast.size() == 0 || any.end == ofLast.end));
      }
  });
}

TEST_CASE("rows behind the last query see no less than it does") {
  forEachCase(
      [](const MaskCase &, AttentionReach reach, int queries, int keys) {
        if (queries == 0)
          return;
        const AttentionRange last = keysOf(reach, queries - 1, queries, keys);
        const AttentionRange tile =
            keysOfAny(reach, {queries - 1, queries + 40}, queries, keys);
        CHECK(tile.begin == last.begin);
        CHECK((last.size() == 0 || tile.end >= last.end));
        CHECK(tile.end <= keys);
      });
}

TEST_CASE("ranges of the greatest sizes do not overflow") {
  const AttentionReach causal = reachOf(AttentionMask::Causal, 0, 0);
  CHECK(keysOf(causal, 0, kUnlimited, 1) == AttentionRange{});
  CHECK(keysOf(causal, kUnlimited - 1, kUnlimited, 1) == AttentionRange{0, 1});
  CHECK(keysOf(causal, 0, 1, kUnlimited) == AttentionRange{0, kUnlimited});
  const AttentionReach window =
      reachOf(AttentionMask::Window, kUnlimited, kUnlimited);
  CHECK(keysOf(window, 0, kUnlimited, kUnlimited) ==
        AttentionRange{0, kUnlimited});
  CHECK(keysOf(window, 0, kUnlimited, 7) == AttentionRange{0, 7});
  CHECK(keysOfSplit({5, kUnlimited}, 3, 1 << 30) == AttentionRange{});
  CHECK(blocksWith({0, kUnlimited}, 128) == AttentionRange{0, 1 << 24});
}

TEST_CASE("blocks and splits cover a range of keys") {
  for (int begin = 0; begin < 20; ++begin)
    for (int end = begin; end < 20; ++end)
      for (int size : {1, 3, 4, 7}) {
        const AttentionRange keys = {begin, end};
        const AttentionRange with = blocksWith(keys, size);
        const AttentionRange within = blocksWithin(keys, size);
        int covered = 0;
        for (int block = 0; block < 20; ++block) {
          bool any = false, all = true;
          for (int key = block * size; key < (block + 1) * size; ++key) {
            any |= keys.contains(key);
            all &= keys.contains(key);
          }
          CHECK(with.contains(block) == any);
          CHECK(within.contains(block) == all);
          covered += keysOfSplit(keys, block, size).size();
        }
        CHECK(covered == keys.size());
      }
}

TEST_CASE("sequences lie where offsets, lengths and pages say") {
  using Lengths = AttentionLengths;
  const int offsets[] = {2, 2, 7, 9}, lengths[] = {0, 50, -3};
  const int table[] = {4, 1, 0, 3, 2, 5}, starts[] = {0, 2, 3, 6};
  AttentionParams params;
  params.queryOffsets = params.keyOffsets = offsets;
  params.keyLengths = lengths;
  params.pageTable = table;
  params.pageOffsets = starts;
  params.pageTableStride = 2;
  params.batch = 3;
  params.queries = 6;
  params.keys = 8;
  params.pageSize = 4;
  params.lseHeadStride = 100;
  params.lseBatchStride = 1000;

  constexpr AttentionSignature kUniform{};
  constexpr AttentionSignature kPacked{.queryLengths = Lengths::Packed,
                                       .keyLengths = Lengths::Packed};
  constexpr AttentionSignature kTable{.keyLengths = Lengths::Used,
                                      .pages = AttentionPages::Table};
  constexpr AttentionSignature kList{.keyLengths = Lengths::Used,
                                     .pages = AttentionPages::List};
  CHECK(queriesOf<kUniform>(params, 1).count == 6);
  CHECK(queriesOf<kPacked>(params, 0).count == 0);
  CHECK(queriesOf<kPacked>(params, 1).first == 2);
  CHECK(queriesOf<kPacked>(params, 1).count == 5);
  CHECK(keysOfSequence<kUniform>(params, 2).count == 8);
  CHECK(keysOfSequence<kPacked>(params, 2).first == 7);
  // A length above its promised maximum is cut.
  CHECK(keysOfSequence<kTable>(params, 0).count == 0);
  CHECK(keysOfSequence<kTable>(params, 1).count == 8);
  CHECK(keysOfSequence<kTable>(params, 2).count == 0);

  const HeadStrides strides = {10, 3, 10000};
  CHECK(queryOffset<kUniform>(strides, 2, {0, 6}, 4, 5) == 20000 + 12 + 50);
  CHECK(queryOffset<kPacked>(strides, 2, {7, 2}, 4, 1) == 12 + 80);
  CHECK(lseOffset<kUniform>(params, 2, {0, 6}, 4, 5) == 2000 + 400 + 5);
  CHECK(lseOffset<kPacked>(params, 2, {7, 2}, 4, 1) == 400 + 8);
  CHECK(keyOffset<kUniform>(params, strides, 2, {0, 8}, 1, 6) == 20063);
  CHECK(keyOffset<kPacked>(params, strides, 2, {7, 2}, 1, 1) == 83);
  CHECK(keyOffset<kTable>(params, strides, 1, {0, 8}, 1, 6) == 30023);
  CHECK(keyOffset<kList>(params, strides, 2, {0, 8}, 1, 6) == 20023);
}

TEST_CASE("the pairs of a mask are counted exactly") {
  AttentionProblem problem;
  problem.heads = 3;
  problem.kvHeads = 3;
  problem.batch = 2;
  forEachCase([&](const MaskCase &mask, AttentionReach, int queries, int keys) {
    problem.mask = mask.mask;
    problem.left = mask.left;
    problem.right = mask.right;
    problem.queries = queries;
    problem.keys = problem.typicalKeys = keys;
    int64_t pairs = 0;
    for (int row = 0; row < queries; ++row)
      for (int key = 0; key < keys; ++key)
        pairs += sees(mask, row, queries, keys, key);
    CHECK(visiblePairs(problem, queries, keys) == double(pairs));
    CHECK(visiblePairs(problem) == double(6 * pairs));
  });
}
