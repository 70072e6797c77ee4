// The brick of memory-bound kernels: limits that it must meet, and directions.
#include "Model/MemoryPass.h"

#include "Model/Bandwidth.h"
#include "Model/TestDevices.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kiln;

/// The model of \p kernel, without a use for its references.
static PassModel<> modelOf(const MemoryPass<> &kernel,
                           const DeviceModel &device) {
  return {kernel, device};
}

/// A copy of 128 MiB by blocks of 4 KiB.
static MemoryPass<> copyKernel() {
  MemoryPass<> kernel;
  constexpr double kBytes = 128 << 20;
  kernel.tasks = 32768;
  kernel.block = {.threads = 256, .registersPerThread = 32, .sharedBytes = 0};
  kernel.readBytes = kernel.writeBytes = kBytes;
  return kernel;
}

TEST_CASE("a large copy takes as long as its bytes, and a little more") {
  DeviceModel device = testDevice();
  PassModel<> time = modelOf(copyKernel(), device);
  double floorNs = 2.0 * (128 << 20) / device.dramGBs;
  CHECK(time.total > floorNs);
  CHECK(time.total < 1.15 * floorNs);
  CHECK(time.bound() == "dram");
}

TEST_CASE("one task takes its life") {
  MemoryPass<> kernel = copyKernel();
  kernel.tasks = 1;
  kernel.readBytes = kernel.writeBytes = 4096;
  DeviceModel device = testDevice();
  PassModel<> time = modelOf(kernel, device);
  CHECK(time.bound() == "latency");
  CHECK(time.fullWaves == 0);
  CHECK(time.full.tasks == 1);
  CHECK(time.firstNs >= time.life);
  CHECK(time.total == device.launchNs + device.rampNs + time.firstNs);
}

TEST_CASE("what is worse takes longer") {
  DeviceModel device = testDevice();
  const MemoryPass<> base = copyKernel();
  double baseNs = modelOf(base, device).total;
  auto isSlower = [&](auto change) {
    MemoryPass<> kernel = base;
    change(kernel);
    return modelOf(kernel, device).total > baseNs;
  };
  CHECK(isSlower([](MemoryPass<> &k) { k.writeBytes *= 2; }));
  CHECK(isSlower([](MemoryPass<> &k) { k.serialNs = 2000; }));
  CHECK(isSlower([](MemoryPass<> &k) { k.block.registersPerThread = 200; }));
  CHECK(isSlower([](MemoryPass<> &k) { k.persistentPerSm = 8; }));
  CHECK(isSlower([](MemoryPass<> &k) { k.simdOps = 4e9; }));
  CHECK(isSlower([](MemoryPass<> &k) { k.specialOps = 1e9; }));
  CHECK(isSlower([](MemoryPass<> &k) { k.rereadBytes = k.readBytes; }));
}

/// Rows of 8 KiB, each of which a block reduces before it stores.
static MemoryPass<> rowsKernel() {
  MemoryPass<> kernel = copyKernel();
  kernel.tasks = 16384;
  kernel.pace = PassPace::Reduces;
  kernel.serialNs = 300;
  return kernel;
}

TEST_CASE("what reduces between loads and stores overlaps less") {
  DeviceModel device = testDevice();
  MemoryPass<> kernel = rowsKernel();
  PassModel<> time = modelOf(kernel, device);
  CHECK(time.full.tasks == time.slots);
  CHECK(time.firstExponent < time.exponent);
  CHECK(time.firstNs > time.fullNs);
  CHECK((1 + time.fullWaves) * time.full.tasks + time.last.tasks ==
        kernel.tasks);
  CHECK(time.total == time.withWaves(device.launchNs + 0.4 * device.rampNs));
  CHECK(time.withWaves(0) ==
        doctest::Approx(time.firstNs + double(time.fullWaves) * time.fullNs +
                        time.lastNs));
  CHECK(time.total > 2.0 * (128 << 20) / device.dramGBs);
}

TEST_CASE("blocks of one wave drift apart when they wait often") {
  DeviceModel device = testDevice();
  // As many blocks as are resident, with plenty in flight.
  auto exponentOf = [&](int64_t rounds, double inFlight, int64_t reread = 0) {
    MemoryPass<> kernel = rowsKernel();
    kernel.block.threads = 512;
    kernel.tasks = device.smCount;
    kernel.loadRounds = rounds;
    kernel.rereadRounds = reread;
    const double needed = modelOf(kernel, device).needed;
    kernel.readBytes = inFlight * needed * static_cast<double>(rounds) *
                       static_cast<double>(device.smCount);
    kernel.writeBytes = 0;
    PassModel<> time = modelOf(kernel, device);
    REQUIRE(kernel.tasks <= time.slots);
    return time.firstExponent;
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
  MemoryPass<> kernel = rowsKernel();
  const double bytes = 8192.0 * double(device.smCount);
  kernel.readBytes = kernel.writeBytes = bytes;
  kernel.tasks = 2 * device.smCount;
  double evenNs = modelOf(kernel, device).firstNs;
  kernel.tasks += 1; // of the same bytes in all
  CHECK(modelOf(kernel, device).firstNs > evenNs);
}

TEST_CASE("evict-first stores cost where tasks follow each other") {
  DeviceModel device = testDevice();
  MemoryPass<> kernel = rowsKernel();
  auto loses = [&] {
    kernel.lostInWaves = 0;
    double ns = modelOf(kernel, device).total;
    kernel.lostInWaves = 0.03;
    return modelOf(kernel, device).total > ns;
  };
  CHECK(loses());
  kernel.tasks = device.smCount;
  CHECK_FALSE(loses());
}

TEST_CASE("what is read again comes from DRAM once it exceeds the L2") {
  MemoryPass<> kernel = copyKernel();
  kernel.rereadBytes = kernel.readBytes;
  CHECK(modelOf(kernel, testDevice()).missShare == 0);
  kernel.tasks = 132;
  CHECK(modelOf(kernel, testDevice()).missShare == 1);
  // By and by where a block has more in flight than it needs.
  kernel.pace = PassPace::Reduces;
  kernel.readBytes = kernel.writeBytes = 0.5 * double(testDevice().l2Bytes);
  double share = modelOf(kernel, testDevice()).missShare;
  CHECK(share > 0);
  CHECK(share < 1);
}

TEST_CASE("clusters leave SMs idle") {
  MemoryPass<> kernel = copyKernel();
  DeviceModel device = testDevice();
  int64_t alone = modelOf(kernel, device).slots;
  kernel.clusterSize = 8;
  CHECK(modelOf(kernel, device).slots * 8 < alone);
}

TEST_CASE("E5: a kernel that fits no SM has no resident task") {
  DeviceModel device = testDevice();
  MemoryPass<> kernel = copyKernel();
  auto resident = [&] {
    return residentTasks(kernel, occupancy(device, kernel.block), device);
  };
  CHECK(resident() == modelOf(kernel, device).slots);
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
  PassModel<> time = modelOf(copyKernel(), device);
  CHECK(time.busyLatency ==
        doctest::Approx(kBusyLatencyFactor * device.dramLatencyNs));
  CHECK(time.latency == time.busyLatency);
  CHECK(time.needed == doctest::Approx(time.busyLatency * device.dramGBs /
                                       double(device.smCount)));
}

TEST_CASE("a DRAM that few tasks load answers sooner") {
  DeviceModel device = testDevice();
  MemoryPass<> kernel = copyKernel();
  kernel.tasks = 4;
  kernel.readBytes = kernel.writeBytes = 4 * 4096;
  PassModel<> time = modelOf(kernel, device);
  CHECK(time.inFlight < 0.1 * time.needed);
  CHECK(time.latency > device.dramLatencyNs);
  CHECK(time.latency < 1.2 * device.dramLatencyNs);
}

/// The value called \p name in the formula of \p figure.
static double partOf(const Figure &figure, llvm::StringRef name) {
  for (const Figure &part : figure.formula().parts) {
    if (part.formula().name == name)
      return part.value();
    if (double value = partOf(part, name); !std::isnan(value))
      return value;
  }
  return std::nan("");
}

TEST_CASE("figures lead to the same time, by what a thread has in flight") {
  DeviceModel device = testDevice();
  auto explain = [&](double vectors) {
    MemoryPass<Figure> kernel;
    static_cast<PassWork &>(kernel) = copyKernel();
    kernel.tasks = static_cast<int64_t>(32768 / vectors);
    kernel.loads = {.vectors = vectors, .elements = 8, .elementBytes = 2};
    kernel.serialNs = fitted<Figure>(60, "loads through L1", "ns");
    PassModel<Figure> model(kernel, device);
    CHECK(partOf(model.life, "loads through L1") == 60);
    MemoryPass<> plain{kernel};
    plain.serialNs = 60;
    CHECK(model.total.value() ==
          doctest::Approx(modelOf(plain, device).total).epsilon(1e-12));
    return model.inFlight;
  };
  const Figure one = explain(1), two = explain(2);
  CHECK(partOf(one, "vectors of a thread") == 1);
  CHECK(partOf(two, "vectors of a thread") == 2);
  CHECK(partOf(one, "fill of the rounds") == partOf(two, "fill of the rounds"));
  CHECK(two.value() == doctest::Approx(2 * one.value()));
  CHECK(one.value() == 64 * 32 * 16); // warps, lanes, bytes
}
