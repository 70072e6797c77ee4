//===- SwizzleTest.cpp - tiles without holes and bank conflicts -----------===//

#include "common/Swizzle.cuh"

#include <doctest/doctest.h>
#include <set>

using namespace kiln;

namespace {

constexpr int kTileRows = 16;
constexpr unsigned kBankLine = 128; // 32 banks of 4 bytes

/// Checks that every 16-byte chunk has a place of its own inside the tile.
template <int kRowBytes, SwizzleFor kUse> void checkPermutation() {
  CAPTURE(kRowBytes);
  std::set<unsigned> places;
  for (unsigned row = 0; row < kTileRows; ++row)
    for (unsigned byte = 0; byte < kRowBytes; byte += 16) {
      unsigned offset = swizzledOffset<kRowBytes, kUse>(row, byte);
      CHECK(offset / kRowBytes == row);
      CHECK(offset % 16 == 0);
      places.insert(offset);
    }
  CHECK(places.size() == kTileRows * kRowBytes / 16);
}

/// Checks that eight rows at one chunk lie in eight different parts of the
/// banks.
template <int kRowBytes> void checkLdmatrix() {
  CAPTURE(kRowBytes);
  for (unsigned first = 0; first < kTileRows; first += 8)
    for (unsigned byte = 0; byte < kRowBytes; byte += 16) {
      std::set<unsigned> banks;
      for (unsigned row = first; row < first + 8; ++row)
        banks.insert(
            swizzledOffset<kRowBytes, SwizzleFor::Ldmatrix>(row, byte) %
            kBankLine);
      CHECK(banks.size() == 8);
    }
}

/// Checks that four rows at eight words lie in 32 different banks.
template <int kRowBytes> void checkWords() {
  CAPTURE(kRowBytes);
  for (unsigned first = 0; first < kTileRows; first += 4)
    for (unsigned byte = 0; byte < kRowBytes; byte += 32) {
      std::set<unsigned> banks;
      for (unsigned row = first; row < first + 4; ++row)
        for (unsigned word = 0; word < 8; ++word)
          banks.insert(swizzledOffset<kRowBytes, SwizzleFor::Words>(
                           row, byte + word * 4) %
                       kBankLine);
      CHECK(banks.size() == 32);
    }
}

/// Whether swizzlePeriod() is the least number of rows after which the phases
/// of kUse repeat, whatever the row's length.
template <SwizzleFor kUse, int... kRowBytes> void checkPeriod() {
  auto repeats = [](unsigned period) {
    bool does = true;
    for (unsigned row = 0; row < 64; ++row)
      ((does &= swizzlePhase<kRowBytes, kUse>(row) ==
                swizzlePhase<kRowBytes, kUse>(row + period)),
       ...);
    return does;
  };
  constexpr unsigned kPeriod = swizzlePeriod(kUse);
  CHECK(repeats(kPeriod));
  CHECK_FALSE(repeats(kPeriod / 2));
}

} // namespace

TEST_CASE("the phase of a swizzle repeats after its period") {
  checkPeriod<SwizzleFor::Ldmatrix, 32, 64, 128, 256>();
  checkPeriod<SwizzleFor::Words, 64, 128, 512>();
}

TEST_CASE("a swizzled tile has no holes") {
  checkPermutation<32, SwizzleFor::Ldmatrix>();
  checkPermutation<64, SwizzleFor::Ldmatrix>();
  checkPermutation<128, SwizzleFor::Ldmatrix>();
  checkPermutation<256, SwizzleFor::Ldmatrix>();
  checkPermutation<384, SwizzleFor::Ldmatrix>();
  checkPermutation<64, SwizzleFor::Words>();
  checkPermutation<128, SwizzleFor::Words>();
  checkPermutation<512, SwizzleFor::Words>();
}

TEST_CASE("ldmatrix reads a swizzled tile without bank conflicts") {
  checkLdmatrix<32>();
  checkLdmatrix<64>();
  checkLdmatrix<128>();
  checkLdmatrix<256>();
  checkLdmatrix<384>();
}

TEST_CASE("word loads read a swizzled tile without bank conflicts") {
  checkWords<64>();
  checkWords<128>();
  checkWords<384>();
  checkWords<512>();
}
