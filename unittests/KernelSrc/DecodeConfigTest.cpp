// The layout of key tiles in shared memory in the decode kernel of attention.
#include "attention/DecodeAttentionConfig.h"

#include <doctest/doctest.h>

#include <set>

using namespace kiln;
using Config = DecodeAttentionConfig;

namespace {

constexpr int kRows = 32;

/// Calls \p visit(elements, type) for each row size that a config allows.
template <class F> void forEachRow(F &&visit) {
  for (DType type : {DType::BF16, DType::E4M3})
    for (int chunks = 1; chunks * 16 / bytesOf(type) <= 576; ++chunks)
      visit(chunks * 16 / bytesOf(type), type);
}

} // namespace

TEST_CASE("each chunk of a tile has a place of its own") {
  forEachRow([](int elements, DType type) {
    CAPTURE(elements);
    const int chunks = Config::chunks(elements, type);
    CHECK(chunks * 16 >= elements * bytesOf(type));
    std::set<unsigned> places;
    for (int row = 0; row < kRows; ++row)
      for (int chunk = 0; chunk < chunks; ++chunk) {
        unsigned place = Config::chunkOffset(elements, type, row, chunk);
        REQUIRE(place % 16 == 0);
        REQUIRE(place + 16 <= unsigned(kRows * Config::pitch(elements, type)));
        REQUIRE(places.insert(place).second);
        // The offsets at which fragments find it.
        REQUIRE(Config::furtherChunk(
                    elements, type,
                    Config::chunkOffset(elements, type, row, chunk % 2),
                    chunk / 2 * 2) == place);
      }
  });
}

TEST_CASE("a chunk of eight rows falls into all banks") {
  forEachRow([](int elements, DType type) {
    CAPTURE(elements);
    for (int first = 0; first < kRows; first += 8)
      for (int chunk = 0; chunk < Config::chunks(elements, type); ++chunk) {
        std::set<unsigned> banks;
        for (int row = first; row < first + 8; ++row)
          banks.insert(Config::chunkOffset(elements, type, row, chunk) / 16 %
                       8);
        REQUIRE(banks.size() == 8);
      }
  });
}

TEST_CASE("rows of a later copy lie as those of the first except for an XOR") {
  forEachRow([](int elements, DType type) {
    CAPTURE(elements);
    const int chunks = Config::chunks(elements, type);
    const int lanes = std::min(chunks & -chunks, 32), rows = 32 / lanes;
    for (int row = 0; row < kRows; ++row)
      for (int chunk = 0; chunk < chunks; ++chunk) {
        int first = row / rows * rows;
        unsigned place =
            Config::chunkOffset(elements, type, row - first, chunk % lanes);
        place ^= unsigned(Config::phase(elements, type, first) * 16);
        place +=
            first * Config::pitch(elements, type) + chunk / lanes * lanes * 16;
        REQUIRE(place == Config::chunkOffset(elements, type, row, chunk));
      }
  });
}

TEST_CASE("copies of any width fill each row once") {
  for (int bytes : {16, 8, 4})
    for (DType type : {DType::BF16, DType::E4M3})
      for (int elements = 8; elements <= 576;
           elements += std::max(bytes / bytesOf(type), 1)) {
        CAPTURE(bytes);
        CAPTURE(elements);
        const int pieces = Config::chunks(elements, type) * 16 / bytes;
        const int lanes = Config::copyLanes(elements, type, bytes);
        const int parts = (pieces + lanes - 1) / lanes, rows = 32 / lanes;
        REQUIRE((lanes & (lanes - 1)) == 0);
        REQUIRE(16 % rows == 0);
        REQUIRE(parts * lanes * 3 <= pieces * 4);
        for (int row = 0; row < kRows; ++row)
          for (int piece = 0; piece < pieces; ++piece) {
            // The offsets of DecodeTileCopy: that of the first copy, and
            // further ones from there.
            const int first = row / rows * rows, lane = piece % lanes;
            unsigned place = Config::chunkOffset(elements, type, row - first,
                                                 lane * bytes / 16) +
                             lane * bytes % 16;
            place ^= unsigned(Config::phase(elements, type, first) * 16);
            place += first * Config::pitch(elements, type) +
                     piece / lanes * lanes * bytes;
            REQUIRE(place == Config::chunkOffset(elements, type, row,
                                                 piece * bytes / 16) +
                                 piece * bytes % 16);
          }
      }
}

TEST_CASE("parts of a row are permuted as the whole is") {
  for (DType type : {DType::BF16, DType::E4M3})
    for (int dim = 8; dim <= 576; dim += 4)
      for (int parts : {2, 4, 8}) {
        const AttentionSignature signature = {
            .kv = type, .headDim = dim, .valueDim = dim, .align = 4};
        const Config config = {.warps = 8, .parts = parts};
        REQUIRE(config.isValid(signature) == (dim * bytesOf(type) % 4 == 0));
        CAPTURE(dim);
        CAPTURE(parts);
        const int chunks = Config::chunks(dim, type);
        const int ofPart = config.partCols(signature) * bytesOf(type) / 16;
        REQUIRE(ofPart * parts >= chunks);
        for (int row = 0; row < 16; ++row)
          for (int chunk = 0; chunk < chunks; ++chunk) {
            const int part = chunk / ofPart, column = chunk % ofPart;
            unsigned at = part * ofPart * 16 +
                          Config::chunkOffset(dim, type, row, column % 2);
            REQUIRE(Config::furtherChunk(dim, type, at, column / 2 * 2) ==
                    Config::chunkOffset(dim, type, row, chunk));
          }
      }
}

TEST_CASE("the sums of all warps fit where their rings were") {
  AttentionSignature signature;
  for (int rows : {8, 16, 32})
    for (int warps : {1, 4, 8})
      for (int cluster : {0, 1}) {
        Config config{
            .rows = rows, .stages = 2, .warps = warps, .cluster = cluster};
        CHECK(config.sharedBytes(signature) >=
              (warps + cluster) * config.sumFloats(signature) * 4);
        CHECK(config.sharedBytes(signature) >=
              warps * config.ringBytes(signature));
        CHECK(config.ringBytes(signature) % 128 == 0);
      }
}
