// The brick of memory-bound kernels: limits that it must meet, and directions.
#include "Model/MemoryPass.h"

#include "Model/Bandwidth.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

using namespace kiln;

/// A copy of 128 MiB by blocks of 4 KiB.
static MemoryPass copyKernel() {
  MemoryPass kernel;
  constexpr double kBytes = 128 << 20;
  kernel.tasks = 32768;
  kernel.block = {.threads = 256, .registersPerThread = 32, .sharedBytes = 0};
  kernel.readBytes = kernel.writeBytes = kBytes;
  return kernel;
}

TEST_CASE("a large copy takes as long as its bytes, and a little more") {
  DeviceModel device = testDevice();
  PassTime time = passTime(copyKernel(), device);
  double floorNs = 2.0 * (128 << 20) / device.dramBytesPerNs();
  CHECK(time.totalNs > floorNs);
  CHECK(time.totalNs < 1.15 * floorNs);
  CHECK(time.bound == PassBound::Dram);
}

TEST_CASE("one task takes its life") {
  MemoryPass kernel = copyKernel();
  kernel.tasks = 1;
  kernel.readBytes = kernel.writeBytes = 4096;
  PassTime time = passTime(kernel, testDevice());
  CHECK(time.bound == PassBound::Latency);
  CHECK(time.fullWaves == 0);
  CHECK(time.last.tasks == 1);
  CHECK(time.totalNs >= time.launchNs + time.rampNs + time.life.totalNs());
}

TEST_CASE("what is worse takes longer") {
  DeviceModel device = testDevice();
  const MemoryPass base = copyKernel();
  double baseNs = passTime(base, device).totalNs;
  auto isSlower = [&](auto change) {
    MemoryPass kernel = base;
    change(kernel);
    return passTime(kernel, device).totalNs > baseNs;
  };
  CHECK(isSlower([](MemoryPass &k) { k.writeBytes *= 2; }));
  CHECK(isSlower([](MemoryPass &k) { k.serialNs = 2000; }));
  CHECK(isSlower([](MemoryPass &k) { k.block.registersPerThread = 200; }));
  CHECK(isSlower([](MemoryPass &k) { k.persistentPerSm = 8; }));
  CHECK(isSlower([](MemoryPass &k) { k.simdOps = 4e9; }));
  CHECK(isSlower([](MemoryPass &k) { k.specialOps = 1e9; }));
  CHECK(isSlower([](MemoryPass &k) { k.rereadBytes = k.readBytes; }));
}

/// Rows of 8 KiB, each of which a block reduces before it stores.
static MemoryPass rowsKernel() {
  MemoryPass kernel = copyKernel();
  kernel.tasks = 16384;
  kernel.pace = PassPace::Reduces;
  kernel.serialNs = 300;
  return kernel;
}

TEST_CASE("what reduces between loads and stores overlaps less") {
  DeviceModel device = testDevice();
  MemoryPass kernel = rowsKernel();
  PassTime time = passTime(kernel, device);
  CHECK(time.first.tasks == time.slots);
  CHECK(time.first.totalNs > time.full.totalNs);
  CHECK(time.first.tasks + int64_t(time.fullWaves) * time.full.tasks +
            time.last.tasks ==
        kernel.tasks);
  CHECK(time.totalNs ==
        doctest::Approx(time.launchNs + time.rampNs + time.first.totalNs +
                        time.fullWaves * time.full.totalNs +
                        time.last.totalNs));
  CHECK(time.totalNs > 2.0 * (128 << 20) / device.dramBytesPerNs());
}

TEST_CASE("blocks of one wave drift apart when they wait often") {
  DeviceModel device = testDevice();
  // As many blocks as are resident, with plenty in flight.
  auto exponentOf = [&](int64_t rounds, double inFlight, int64_t reread = 0) {
    MemoryPass kernel = rowsKernel();
    kernel.block.threads = 512;
    kernel.tasks = device.smCount;
    kernel.loadRounds = rounds;
    kernel.rereadRounds = reread;
    const double needed = passTime(kernel, device).bytesNeededPerSm;
    kernel.readBytes = inFlight * needed * static_cast<double>(rounds) *
                       static_cast<double>(device.smCount);
    kernel.writeBytes = 0;
    PassTime time = passTime(kernel, device);
    REQUIRE(kernel.tasks <= time.slots);
    return (time.last.tasks ? time.last : time.full).norm;
  };
  const double inStep = exponentOf(1, 4), apart = exponentOf(100, 4);
  CHECK(inStep < apart);
  CHECK(exponentOf(8, 4) == inStep);
  CHECK(exponentOf(12, 4) > inStep);
  CHECK(exponentOf(12, 4) < apart);
  CHECK(exponentOf(16, 4) == apart);
  CHECK(exponentOf(100, 2) == inStep);
  CHECK(exponentOf(100, 4, /*reread=*/100) == inStep);
}

TEST_CASE("a block more on some SMs takes longer than its bytes do") {
  DeviceModel device = testDevice();
  MemoryPass kernel = rowsKernel();
  const double bytes = 8192.0 * double(device.smCount);
  kernel.readBytes = kernel.writeBytes = bytes;
  kernel.tasks = 2 * device.smCount;
  double evenNs = passTime(kernel, device).last.totalNs;
  kernel.tasks += 1; // of the same bytes in all
  CHECK(passTime(kernel, device).last.totalNs > evenNs);
}

TEST_CASE("evict-first stores cost where tasks follow each other") {
  DeviceModel device = testDevice();
  MemoryPass kernel = rowsKernel();
  auto loses = [&] {
    kernel.lostInWaves = 0;
    double ns = passTime(kernel, device).totalNs;
    kernel.lostInWaves = 0.03;
    return passTime(kernel, device).totalNs > ns;
  };
  CHECK(loses());
  kernel.tasks = device.smCount;
  CHECK_FALSE(loses());
}

TEST_CASE("what is read again comes from DRAM once it exceeds the L2") {
  MemoryPass kernel = copyKernel();
  kernel.rereadBytes = kernel.readBytes;
  CHECK(passTime(kernel, testDevice()).rereadMissShare == 0);
  kernel.tasks = 132;
  CHECK(passTime(kernel, testDevice()).rereadMissShare == 1);
  // By and by where a block has more in flight than it needs.
  kernel.pace = PassPace::Reduces;
  kernel.readBytes = kernel.writeBytes = 0.5 * double(testDevice().l2Bytes);
  double share = passTime(kernel, testDevice()).rereadMissShare;
  CHECK(share > 0);
  CHECK(share < 1);
}

TEST_CASE("clusters leave SMs idle") {
  MemoryPass kernel = copyKernel();
  DeviceModel device = testDevice();
  int64_t alone = passTime(kernel, device).slots;
  kernel.clusterSize = 8;
  CHECK(passTime(kernel, device).slots * 8 < alone);
}

TEST_CASE("E5: a kernel that fits no SM has no resident task") {
  DeviceModel device = testDevice();
  MemoryPass kernel = copyKernel();
  auto resident = [&] {
    return residentTasks(kernel, occupancy(device, kernel.block), device);
  };
  CHECK(resident() == passTime(kernel, device).slots);
  kernel.block = {.threads = 1024, .registersPerThread = 68, .sharedBytes = 0};
  CHECK(resident() == 0);
  kernel.block.registersPerThread = 64;
  CHECK(resident() == device.smCount);
  kernel.clusterSize = 8;
  device.smCount = 4;
  device.maxClusters8 = 0;
  CHECK(resident() == 0);
}

TEST_CASE("E8: one latency of a busy DRAM serves the law and a task's life") {
  DeviceModel device = testDevice();
  PassTime time = passTime(copyKernel(), device);
  CHECK(time.loadedLatencyNs ==
        doctest::Approx(kBusyLatencyFactor * device.dramLatencyNs));
  CHECK(time.life.loadNs == time.loadedLatencyNs);
  CHECK(time.bytesNeededPerSm ==
        doctest::Approx(time.loadedLatencyNs * device.dramBytesPerNs() /
                        double(device.smCount)));
}

TEST_CASE("a DRAM that few tasks load answers sooner") {
  DeviceModel device = testDevice();
  MemoryPass kernel = copyKernel();
  kernel.tasks = 4;
  kernel.readBytes = kernel.writeBytes = 4 * 4096;
  PassTime time = passTime(kernel, device);
  CHECK(time.bytesInFlightPerSm < 0.1 * time.bytesNeededPerSm);
  CHECK(time.loadLatencyNs > device.dramLatencyNs);
  CHECK(time.loadLatencyNs < 1.2 * device.dramLatencyNs);
  CHECK(time.life.loadNs == time.loadLatencyNs);
}
