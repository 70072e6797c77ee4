#include "Store/ProbeStore.h"

#include "Store/StoreFixture.h"

#include <doctest/doctest.h>

using namespace kiln;

static ProbedAttributes answers() {
  ProbedAttributes probed;
  probed.uuid = "GPU-1";
  probed.pciDeviceId = 0x2335;
  probed.nvmlSmClockMHz = 1980;
  probed.nvmlMemoryClockMHz = 3201;
  probed.nvmlMemoryBusBits = 6016;
  probed.powerLimitWatts = 700;
  return probed;
}

TEST_CASE("NVML's answers are kept for this GPU, driver and boot") {
  auto cache = cache::Store::open({});
  ProbeStore probes(*cache);
  ProbedAttributes probed;
  probed.uuid = "GPU-1";
  CHECK_FALSE(probes.restore(probed, 13000));
  probes.store(answers(), 13000);
  REQUIRE(probes.restore(probed, 13000));
  CHECK(probed.pciDeviceId == 0x2335u);
  CHECK(probed.nvmlSmClockMHz == 1980);
  CHECK(probed.nvmlMemoryClockMHz == 3201);
  CHECK(probed.nvmlMemoryBusBits == 6016);
  CHECK(probed.powerLimitWatts == 700);
  CHECK_FALSE(probes.restore(probed, 13010));
  probed.uuid = "GPU-2";
  CHECK_FALSE(probes.restore(probed, 13000));
  probed.uuid.reset();
  CHECK_FALSE(probes.restore(probed, 13000));
}

TEST_CASE("what NVML did not answer in full is not kept") {
  auto cache = cache::Store::open({});
  ProbeStore probes(*cache);
  ProbedAttributes probed = answers();
  probed.powerLimitWatts.reset();
  probes.store(probed, 13000);
  CHECK(cache->list(cache::Kind::Probe).empty());
}

TEST_CASE("a changed power limit replaces the old answer") {
  auto cache = cache::Store::open({});
  ProbeStore probes(*cache);
  probes.store(answers(), 13000);
  ProbedAttributes changed = answers();
  changed.powerLimitWatts = 500;
  probes.store(changed, 13000);
  ProbedAttributes probed;
  probed.uuid = "GPU-1";
  REQUIRE(probes.restore(probed, 13000));
  CHECK(probed.powerLimitWatts == 500);
}
