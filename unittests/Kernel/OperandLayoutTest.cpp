#include "Kernel/OperandLayout.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace kiln;

namespace {

/// Every element that a layout's rows have, by going through them.
std::set<long long> elementsOf(const RowLayout &layout) {
  std::set<long long> elements;
  for (long long row = 0; row < layout.rowCount(); ++row)
    for (long long column = 0; column < layout.cols; ++column)
      elements.insert(layout.offsetOf(row) + column);
  return elements;
}

bool isApart(const RowLayout &layout) { return gridOf(layout).isApart(); }

/// 3 tokens of 4 heads of 2 batches, 5 elements each.
OperandSpec heads() {
  OperandSpec spec;
  spec.type = DType::BF16;
  spec.rows = 3;
  spec.cols = 5;
  spec.planes = 4;
  spec.batch = 2;
  spec.planeStride = 7;
  spec.leadingDimension = 4 * 7 + 2;
  spec.batchStride = 3 * (4 * 7 + 2) + 11;
  return spec;
}

} // namespace

TEST_CASE("a grid tells rows from gaps however its axes nest") {
  const RowLayout layouts[] = {
      {5, {3, 5}, {}, {}},              // packed
      {5, {3, 9}, {1, 0}, {2, 40}},     // rows and batches with gaps
      {5, {3, 30}, {4, 7}, {2, 101}},   // [batch][token][head]
      {5, {3, 6}, {4, 20}, {2, 83}},    // [batch][head][token]
      {5, {3, 88}, {4, 22}, {2, 9}},    // [token][head][batch]
      {5, {3, 0}, {4, 6}, {2, 0}},      // one row of each head for all
      {5, {1, 123456}, {1, 1}, {2, 8}}, // strides that nothing takes
      {1, {7, 1}, {2, 9}, {1, 0}},      // columns
  };
  for (const RowLayout &layout : layouts) {
    CAPTURE(layout.rows.stride);
    CAPTURE(layout.batches.stride);
    const RowGrid grid = gridOf(layout);
    REQUIRE(grid.isApart());
    const std::set<long long> elements = elementsOf(layout);
    CHECK(static_cast<long long>(elements.size()) ==
          layout.distinct().rowCount() * layout.cols);
    CHECK(grid.span() == *elements.rbegin() + 1);
    for (long long offset = 0; offset < grid.span(); ++offset)
      CHECK(grid.isOfRow(offset) == elements.contains(offset));
  }
}

TEST_CASE("rows that overlap are not apart") {
  CHECK(isApart({5, {3, 30}, {4, 7}, {2, 81 + 5}}));
  CHECK_FALSE(isApart({5, {3, 30}, {4, 7}, {2, 85}}));
  CHECK_FALSE(isApart({5, {3, 25}, {4, 7}, {2, 200}}));
  CHECK_FALSE(isApart({5, {3, 30}, {4, 4}, {2, 200}}));
  CHECK_FALSE(isApart({5, {3, 4}, {}, {}}));
}

TEST_CASE("bytes of an operand count elements once, without gaps") {
  OperandSpec spec = heads();
  constexpr int64_t kHeads = 3 * 4 * 2 * 5 * 2;
  CHECK(occupiedBytes(spec) == kHeads);
  CHECK(spec.bytes() == gridOf(layoutOf(spec)).span() * 2);
  spec.batchStride = 0; // shared by both batches
  CHECK(occupiedBytes(spec) == kHeads / 2);
  spec.planeStride = 0;
  CHECK(occupiedBytes(spec) == kHeads / 2 / 4);
  spec.leadingDimension = 1; // windows that slide
  CHECK(occupiedBytes(spec) == spec.bytes());
  spec.present = false;
  CHECK(occupiedBytes(spec) == 0);
}
