#include "Support/ByteGauge.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace kiln;

TEST_CASE("a gauge follows its amounts, and keeps the most of them") {
  auto gauge = std::make_shared<ByteGauge>();
  {
    ByteAmount one(gauge, 100), two(gauge);
    two += 50;
    CHECK(gauge->read().bytes == 150);
    one.set(20);
    CHECK(gauge->read().bytes == 70);
    CHECK(gauge->read().peakBytes == 150);
    // Bytes that move are counted once, and go with their new owner.
    ByteAmount moved = std::move(one);
    CHECK(moved.bytes() == 20);
    CHECK(gauge->read().bytes == 70);
    two = std::move(moved);
    CHECK(two.bytes() == 20);
    CHECK(gauge->read().bytes == 20);
    gauge->resetPeak();
    CHECK(gauge->read().peakBytes == 20);
    two -= 5;
    CHECK(gauge->read().bytes == 15);
    CHECK(gauge->read().peakBytes == 20);
  }
  CHECK(gauge->read().bytes == 0);
  CHECK(gauge->read().peakBytes == 20);
}

TEST_CASE("an amount without a gauge is a count, and one outlives its maker") {
  ByteAmount plain;
  plain += 7;
  CHECK(plain.bytes() == 7);
  auto gauge = std::make_shared<ByteGauge>();
  ByteAmount late(gauge, 3);
  gauge.reset();
  late -= 2;
  CHECK(late.bytes() == 1);
}

TEST_CASE("no reading is torn while threads count and a peak is reset") {
  auto gauge = std::make_shared<ByteGauge>();
  constexpr uint64_t kMost = 1000;
  constexpr int kThreads = 3, kRounds = 20000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      ByteAmount amount(gauge);
      for (int round = 0; round < kRounds; ++round)
        amount.set(uint64_t(round) * 7919 % (kMost + 1));
      --running;
    });
  bool isSound = true;
  ByteAmount own(gauge, 10);
  while (running) {
    gauge->resetPeak();
    const ByteGauge::Reading reading = gauge->read();
    isSound &= reading.peakBytes >= reading.bytes && reading.bytes >= 10 &&
               reading.peakBytes <= kThreads * kMost + 10;
  }
  for (std::thread &thread : threads)
    thread.join();
  CHECK(isSound);
  CHECK(gauge->read().bytes == 10);
  gauge->resetPeak();
  CHECK(gauge->read().peakBytes == 10);
}
