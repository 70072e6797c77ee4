#include "Observe/WaitLedger.h"

#include <doctest/doctest.h>

#include <thread>

using namespace kiln::observe;

static WaitEntry entryOf(uint64_t ns) {
  WaitEntry entry;
  entry.elapsedNs = ns;
  return entry;
}

TEST_CASE("a ledger keeps the latest entries, and totals of all") {
  WaitLedger ledger;
  const uint64_t all = WaitLedger::kMostEntries + 10;
  for (uint64_t i = 0; i < all; ++i)
    ledger.add(entryOf(i));
  uint64_t position = 0;
  const auto entries = ledger.entries(position);
  REQUIRE(entries.size() == WaitLedger::kMostEntries);
  CHECK(position == all);
  for (size_t i = 0; i < entries.size(); ++i)
    CHECK(entries[i].elapsedNs == i + 10);
  CHECK(ledger.totals().count == all);
  CHECK(ledger.totals().ns == all * (all - 1) / 2);
  CHECK(ledger.totals().longestNs == all - 1);
  // From a number on.
  position = all - 3;
  CHECK(ledger.entries(position, 2).size() == 2);
  CHECK(position == all - 1);
  CHECK(ledger.entries(position, 2).size() == 1);
  CHECK(ledger.entries(position).empty());
  position = all + 5;
  CHECK(ledger.entries(position).empty());
  CHECK(position == all);
}

TEST_CASE("a listener may read the ledger") {
  uint64_t heard = 0;
  WaitLedger *self = nullptr;
  WaitLedger ledger([&](const WaitEntry &entry) {
    heard += entry.elapsedNs + self->totals().count;
  });
  self = &ledger;
  ledger.add(entryOf(7));
  CHECK(heard == 8);
}

TEST_CASE("a listener is not told of calls that it makes") {
  int told = 0;
  WaitLedger *self = nullptr;
  WaitLedger ledger([&](const WaitEntry &) {
    ++told;
    self->add(entryOf(2));
  });
  self = &ledger;
  ledger.add(entryOf(1));
  ledger.add(entryOf(1));
  CHECK(told == 2);
  CHECK(ledger.totals().count == 4);
}

TEST_CASE("threads add to one ledger") {
  WaitLedger ledger;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      uint64_t position = 0;
      for (int n = 0; n < 1000; ++n) {
        ledger.add(entryOf(1));
        (void)ledger.entries(position);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(ledger.totals().count == 4000);
}
