#include "Model/Traffic.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

/// 4096^3 bf16 in tiles of 128 x 256: A, B and D are 32 MiB each.
static TrafficInput square() {
  TrafficInput input;
  input.m = input.n = input.k = 4096;
  input.bitsA = input.bitsB = input.bitsD = 16;
  input.blockM = 128;
  input.blockN = 256;
  input.slots = 128;
  return input;
}

static constexpr double kMiB = 1 << 20;

/// An H200 with \p usableBytes of L2 that count.
static DeviceModel withL2(double usableBytes) {
  DeviceModel device = testDevice();
  device.l2Bytes = static_cast<int64_t>(usableBytes / kUsableL2Share + 0.5);
  return device;
}

TEST_CASE("L2 serves every tile") {
  Traffic result = traffic(testDevice(), square());
  // A for each of 16 columns, B for each of 32 rows.
  CHECK(l2ReadBytes(result) == (16 + 32) * 32 * kMiB);
  CHECK(result.storeBytes == 32 * kMiB);
  CHECK(result.reduceReadBytes == 0);
}

TEST_CASE("clusters read shared tiles once") {
  TrafficInput input = square();
  input.clusterM = 2;
  CHECK(l2ReadBytes(traffic(testDevice(), input)) == (16 + 16) * 32 * kMiB);
  input.clusterN = 2;
  CHECK(l2ReadBytes(traffic(testDevice(), input)) == (8 + 16) * 32 * kMiB);
}

TEST_CASE("with all in L2, DRAM serves each operand once") {
  Traffic result = traffic(withL2(256 * kMiB), square());
  CHECK(result.readsOfA == 1);
  CHECK(result.readsOfB == 1);
  CHECK(dramReadBytes(result) == 64 * kMiB);
}

TEST_CASE("with no L2, waves are all the reuse there is") {
  // A wave of 128 tiles in groups of 8 rows is 8 x 16: a group and all of n.
  TrafficInput input = square();
  input.groupTiles = 8;
  Traffic result = traffic(withL2(0), input);
  CHECK(result.readsOfA == 1);
  CHECK(result.readsOfB == 4);
  // Groups of 1: a wave is 8 groups, again 8 x 16.
  input.groupTiles = 1;
  CHECK(traffic(withL2(0), input).readsOfB == 4);
  // Groups of 32: a wave is 32 x 4, all of m and a quarter of n.
  input.groupTiles = 32;
  result = traffic(withL2(0), input);
  CHECK(result.readsOfA == 4);
  CHECK(result.readsOfB == 1);
}

TEST_CASE("what fits in part is kept in part") {
  // The strip of 8 rows takes 8 MiB; 16 of B's 32 MiB stay beside it, so half
  // of its 3 repeated reads.
  TrafficInput input = square();
  input.groupTiles = 8;
  Traffic result = traffic(withL2(24 * kMiB), input);
  CHECK(result.readsOfA == 1);
  CHECK(result.readsOfB == doctest::Approx(2.5).epsilon(1e-6));
}

TEST_CASE("groups along n swap the operands") {
  TrafficInput input = square();
  input.groupAlongN = true;
  input.groupTiles = 16;
  // A wave is 16 columns by 8 rows: all of n at once, A once for it.
  Traffic result = traffic(withL2(0), input);
  CHECK(result.readsOfA == 1);
  CHECK(result.readsOfB == 4);
  input.groupTiles = 4;
  // 4 columns by 32 rows: all of m.
  result = traffic(withL2(0), input);
  CHECK(result.readsOfA == 4);
  CHECK(result.readsOfB == 1);
}

TEST_CASE("splits of k store and read back partial sums") {
  TrafficInput input = square();
  input.splitK = 4;
  Traffic result = traffic(testDevice(), input);
  CHECK(result.reduceReadBytes == 4 * 64 * kMiB);
  CHECK(result.storeBytes == 4 * 64 * kMiB + 32 * kMiB);
}

TEST_CASE("ragged edges and batches count real rows") {
  TrafficInput input = square();
  input.m = 1;
  input.batch = 3;
  Traffic result = traffic(testDevice(), input);
  CHECK(l2ReadBytes(result) == 3 * (16 * 8192 + 32 * kMiB));
  CHECK(dramReadBytes(result) == 3 * (8192 + 32 * kMiB));
}
