// The integers that trials fill operands with are valid.
#include "trial/IntegerValues.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace kiln;

static std::vector<long long> all(IntegerInit init, long long count,
                                  bool differ) {
  const IntegerValues values{init, differ, count, /*seed=*/3};
  std::vector<long long> result;
  for (long long i = 0; i < count; ++i)
    result.push_back(values.at(i));
  return result;
}

/// The lengths that \p offsets are sums of.
static std::vector<long long> steps(const std::vector<long long> &offsets) {
  std::vector<long long> lengths;
  for (size_t i = 1; i < offsets.size(); ++i)
    lengths.push_back(offsets[i] - offsets[i - 1]);
  return lengths;
}

TEST_CASE("usual lengths are the greatest, outliers differ") {
  const IntegerInit init{IntegerData::Lengths, 0, 100};
  CHECK(all(init, 4, false) == std::vector<long long>(4, 100));
  const auto ragged = all(init, 64, true);
  CHECK(std::ranges::count(ragged, 0) > 0);
  CHECK(std::ranges::count(ragged, 100) > 0);
  CHECK(std::set(ragged.begin(), ragged.end()).size() > 30);
  CHECK(std::ranges::min(ragged) == 0);
  CHECK(std::ranges::max(ragged) == 100);
  const auto positive = all({IntegerData::Lengths, 7, 9}, 64, true);
  CHECK(std::ranges::min(positive) == 7);
  CHECK(std::ranges::max(positive) == 9);
  CHECK(all({IntegerData::Lengths, 5, 5}, 3, true) ==
        std::vector<long long>(3, 5));
}

TEST_CASE("values are any, and both ends") {
  for (bool differ : {false, true}) {
    const auto values = all({IntegerData::Values, -128, 127}, 64, differ);
    CHECK(values[0] == 127);
    CHECK(values[1] == -128);
    CHECK(std::set(values.begin(), values.end()).size() > 30);
    CHECK(std::ranges::min(values) == -128);
    CHECK(std::ranges::max(values) == 127);
  }
  CHECK(all({IntegerData::Values, -5, -5}, 1, false).front() == -5);
}

TEST_CASE("a total makes one usual length the greatest, and others smaller") {
  const auto lengths =
      all({IntegerData::Lengths, 0, 1000, 64 * 250}, 64, false);
  CHECK(lengths.front() == 1000);
  CHECK(std::set(lengths.begin(), lengths.end()).size() > 30);
  long long sum = 0;
  for (long long length : lengths) {
    CHECK(length >= 0);
    CHECK(length <= 1000);
    sum += length;
  }
  CHECK(sum > 64 * 200);
  CHECK(sum < 64 * 300);
  // All of them the greatest; too small for one that is; one alone.
  CHECK(all({IntegerData::Lengths, 0, 9, 27}, 3, false) ==
        std::vector<long long>(3, 9));
  for (long long length : all({IntegerData::Lengths, 2, 900, 12}, 3, false)) {
    CHECK(length >= 2);
    CHECK(length <= 6);
  }
  CHECK(all({IntegerData::Lengths, 0, 9, 4}, 1, false).front() <= 8);
}

TEST_CASE("offsets stay within their total, and lengths within theirs") {
  for (long long least : {0, 1, 3})
    for (long long most : {3, 17, 1000})
      for (long long count : {1, 2, 3, 5, 33, 300})
        for (long long total :
             {least * count, least * count + 1, (least + most) * count / 2,
              most * count, most * count + 9})
          for (bool differ : {false, true}) {
            CAPTURE(least);
            CAPTURE(most);
            CAPTURE(count);
            CAPTURE(total);
            const auto offsets = all({IntegerData::Offsets, least, most, total},
                                     count + 1, differ);
            CHECK(offsets.front() == 0);
            CHECK(offsets.back() <= total);
            const auto lengths = steps(offsets);
            CHECK(std::ranges::min(lengths) >= least);
            CHECK(std::ranges::max(lengths) <= most);
            if (!differ)
              CHECK(lengths ==
                    std::vector<long long>(lengths.size(),
                                           std::min(most, total / count)));
            else if (count > 1 && total >= most + least * (count - 1)) {
              CHECK(lengths[0] == most);
              CHECK(lengths[1] == least);
            }
          }
  // A total that half of the most would fill does not all go to the first.
  const auto lengths =
      steps(all({IntegerData::Offsets, 0, 1000, 8000}, 17, true));
  CHECK(std::ranges::count(lengths, 0) <= 5);
}

TEST_CASE("indices differ as long as there are enough") {
  for (bool differ : {false, true})
    for (long long most : {0, 1, 2, 3, 6, 15, 16, 100, 4095}) {
      CAPTURE(most);
      const auto places =
          all({IntegerData::Indices, 0, most}, most + 1, differ);
      CHECK(std::set(places.begin(), places.end()).size() == places.size());
      CHECK(std::ranges::min(places) == 0);
      CHECK(std::ranges::max(places) == most);
      // Neither in order nor in reverse.
      long long neighbours = 0;
      for (long long step : steps(places))
        neighbours += step == 1 || step == -1;
      if (most > 5)
        CHECK(neighbours < most);
      // More than there are begin again.
      const auto more = all({IntegerData::Indices, 0, most}, 3 * most, differ);
      CHECK((more.empty() || std::ranges::max(more) <= most));
    }
  CHECK(all({IntegerData::Indices, 0, 99}, 50, false) !=
        all({IntegerData::Indices, 0, 99}, 50, true));
}

TEST_CASE("counts make up their total, and outliers differ more") {
  const auto usual = all({IntegerData::Counts, 0, 500, 6400}, 64, false);
  CHECK(std::ranges::min(usual) >= 70);
  CHECK(std::ranges::max(usual) <= 130);
  const auto differ = all({IntegerData::Counts, 0, 500, 6400}, 64, true);
  CHECK(std::ranges::min(differ) == 0);
  CHECK(std::ranges::max(differ) == 500);
  // Few are spread.
  const auto few = all({IntegerData::Counts, 0, 500, 8}, 64, false);
  CHECK(std::ranges::count(few, 1) == 8);
  CHECK(std::ranges::count(few, 0) == 56);
}

TEST_CASE("ends follow one another, from multiples of the alignment") {
  for (long long align : {1, 16, 128})
    for (bool differ : {false, true})
      for (long long total : {0, 1, 100, 5000}) {
        CAPTURE(align);
        CAPTURE(differ);
        CAPTURE(total);
        const auto ends = all(
            {IntegerData::Ends, 0, (total + 1) / 2, total, align}, 9, differ);
        CHECK(std::ranges::is_sorted(ends));
        CHECK(ends.back() <= total);
        if (align == 1 && !differ)
          CHECK(2 * ends.back() >= total);
      }
}
