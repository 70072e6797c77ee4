// Ranks that reduce rows over each other's memory: sums in the order of ranks,
// equal bits on all ranks, launches that follow each other at any speeds, and
// ranks that do not come.
#include "Emulator/AllReduceRanks.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::emulated;

namespace {

AllReduceSignature signatureOf(int ranks, bool residual, bool norm,
                               int align = 16) {
  return {DType::BF16, ranks, residual, norm, align};
}

void check(const Group &group, unsigned seed = 1) {
  INFO(group.signature.ranks << " ranks, " << group.cols << " columns");
  Ranks ranks(group, seed);
  CHECK(ranks.run() == "");
  ranks.checkResults();
}

} // namespace

TEST_CASE("ranks: 2, 4 and 8 sum in their order, with equal bits") {
  for (int ranks : {2, 4, 8})
    for (bool norm : {false, true})
      check({.signature = signatureOf(ranks, norm, norm), .cols = 256});
}

TEST_CASE("ranks: residual and norm, each alone") {
  check({.signature = signatureOf(2, true, false), .cols = 256});
  check({.signature = signatureOf(2, false, true), .cols = 256});
}

TEST_CASE("ranks: rows with owners have the same sums") {
  for (int ranks : {2, 4, 8})
    for (bool norm : {false, true})
      check({.signature = signatureOf(ranks, norm, norm),
             .cols = 256,
             .mostRows = 11,
             .mostBlocks = 3,
             .hasOwners = true});
}

TEST_CASE("ranks: rows of odd lengths at any alignment") {
  // A pass and a half, a pass and an element, less than a vector.
  for (int cols : {391, 257, 5, 1})
    check({.signature = signatureOf(2, true, true, 2), .cols = cols});
  check({.signature = signatureOf(4, true, true, 4),
         .cols = 390,
         .padding = 4,
         .hasOwners = true});
  check({.signature = signatureOf(2, false, false, 8),
         .cols = 140,
         .padding = 8});
}

TEST_CASE("ranks: threads with several vectors, rows of several passes") {
  for (int vectors : {1, 2})
    for (int cols : {256, 1000, 2504})
      check({.signature = signatureOf(4, true, true, 8),
             .config = {.blockThreads = 64, .vectors = vectors},
             .cols = cols,
             .mostRows = 4});
}

TEST_CASE("ranks: in place") {
  for (bool owners : {false, true})
    for (int cols : {256, 600})
      check({.signature = signatureOf(4, true, true),
             .cols = cols,
             .mostRows = 6,
             .hasOwners = owners,
             .inPlace = true});
}

TEST_CASE("ranks: rounds of rows, as the family binds them") {
  for (int ranks : {2, 3})
    check({.signature = signatureOf(ranks, true, true, 8),
           .cols = 196,
           .padding = 4,
           .mostRows = 9,
           .launches = 6,
           .boundRows = 3});
}

// A last round of fewer rows than ranks, and launches with and without owners
// in one exchange memory.
TEST_CASE("ranks: rounds of rows with owners, as the family binds them") {
  Ranks ranks({.signature = signatureOf(8, true, true),
               .config = {.blockThreads = 128, .vectors = 2},
               .cols = 4096,
               .mostRows = 31,
               .launches = 3,
               .hasOwners = true,
               .boundRows = 16,
               .longestPause = 8},
              3);
  CHECK(ranks.run() == "");
  CHECK(ranks.hadOwners());
  ranks.checkResults();
}

TEST_CASE("ranks: a thousand launches at random speeds") {
  for (bool owners : {false, true})
    check({.signature = signatureOf(owners ? 4 : 2, true, true),
           .cols = 64,
           .mostRows = 5,
           .launches = 1000,
           .hasOwners = owners},
          7);
  check({.signature = signatureOf(8, false, false),
         .cols = 8,
         .mostRows = 2,
         .launches = 300,
         .longestPause = 300},
        9);
}

// Shows that the tests above find data that is overwritten too early: a word
// that was lost is waited for in vain.
TEST_CASE("ranks: one half of exchange memory is too little") {
  Ranks ranks({.signature = signatureOf(2, false, false),
               .cols = 64,
               .launches = 200,
               .oneHalf = true},
              7);
  CHECK(ranks.run() == "");
  CHECK(ranks.errorOf(0) + ranks.errorOf(1) > 0);
}

TEST_CASE("ranks: halves that move are an error of all ranks") {
  for (bool owners : {false, true}) {
    Ranks ranks({.signature = signatureOf(4, true, true),
                 .cols = 64,
                 .launches = 6,
                 .hasOwners = owners,
                 .movesHalvesAt = 3});
    CHECK(ranks.run() == "");
    for (int rank = 0; rank < 4; ++rank)
      CHECK(ranks.errorOf(rank) == KILN_ALLREDUCE_BYTES_DIFFER);
  }
}

TEST_CASE("ranks: inputs with the bits that cannot travel") {
  for (bool owners : {false, true}) {
    Ranks ranks({.signature = signatureOf(4, false, false),
                 .cols = 64,
                 .mostRows = 6,
                 .hasOwners = owners});
    int i = 0;
    ranks.changeInputs([&](uint16_t value) -> uint16_t {
      constexpr uint16_t kBits[] = {0xffff, 0xffff, 0x8000, 0x8000, 0,
                                    0xff80, 0x7f80, 0x7fff, 0x8000};
      return ++i % 3 ? kBits[i / 3 % 9] : value;
    });
    CHECK(ranks.run() == "");
    ranks.checkResults();
  }
}

TEST_CASE("ranks: one that does not come is an error of all others") {
  for (bool owners : {false, true}) {
    Ranks ranks({.signature = signatureOf(4, true, true),
                 .cols = 64,
                 .launches = 3,
                 .hasOwners = owners});
    CHECK(ranks.run(/*present=*/0b1011) == "");
    for (int rank : {0, 1, 3})
      CHECK(ranks.errorOf(rank) == 3);
  }
}

// Rank 7 owns no row and waits for rank 0, which comes late and waits for rank
// 5 itself.
TEST_CASE("ranks: the one that is missing is named, not one that is late") {
  Ranks ranks({.signature = signatureOf(8, false, false),
               .cols = 64,
               .launches = 1,
               .hasOwners = true,
               .longestPause = 0});
  ranks.delay(0b111, 900);
  CHECK(ranks.run(/*present=*/0b11011111) == "");
  for (int rank : {0, 1, 2, 3, 4, 6, 7})
    CHECK(ranks.errorOf(rank) == 1 + 5);
}

TEST_CASE("ranks: one that comes too late does not hang, and all go on after "
          "an error") {
  Ranks ranks({.signature = signatureOf(4, true, true),
               .cols = 64,
               .launches = 3,
               .longestPause = 0});
  ranks.delay(0b100, 9000);
  CHECK(ranks.run() == "");
  for (int rank = 0; rank < 4; ++rank)
    CHECK(ranks.errorOf(rank) == 3);
  ranks.clear();
  ranks.delay(0, 0);
  CHECK(ranks.run() == "");
  ranks.checkResults();
}
