// The table of plans: its contents, eviction, and concurrent readers.
#include "Runtime/Dispatch.h"
#include "Families/Families.h"
#include "Runtime/Allocations.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <vector>

using namespace kiln;

namespace {

/// Keys of one value each, and the plan that each should have.
struct LaunchValues {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily *family = registry.find("gemm");
  std::vector<ActivePlanPtr> plans;

  explicit LaunchValues(size_t count = 8) {
    for (size_t i = 0; i < count; ++i)
      plans.push_back(std::make_shared<ActivePlan>());
  }
  DispatchKey key(const int64_t &value, uint64_t context = 1) const {
    return {family, context, llvm::ArrayRef<int64_t>(&value, 1)};
  }
  const ActivePlanPtr &planOf(int64_t value) const {
    return plans[static_cast<size_t>(value) % plans.size()];
  }
  void publish(DispatchTable &table, int64_t value) const {
    table.publish(key(value), {planOf(value), double(value), 1});
  }
};

} // namespace

TEST_CASE("the table keeps what readers hold while it grows") {
  DispatchTable table(1);
  LaunchValues values;
  constexpr int64_t kEntries = 3000;
  std::atomic<int64_t> published{0};
  std::atomic<bool> wrong{false};
  std::thread reader([&] {
    while (published < kEntries) {
      int64_t last = published;
      for (int64_t value = 0; value < last; value += 17)
        if (table.find(values.key(value)) != values.planOf(value).get())
          wrong = true;
    }
  });
  for (int64_t value = 0; value < kEntries; ++value) {
    values.publish(table, value);
    ++published;
  }
  reader.join();
  CHECK_FALSE(wrong);
  CHECK(table.planCount() == values.plans.size());
  CHECK(table.valueCount() == kEntries);
  int64_t seven = 7, beyond = kEntries;
  CHECK(table.find(values.key(seven, 2)) == nullptr);
  CHECK(table.find(values.key(beyond)) == nullptr);
  CHECK(table.lookup(values.key(seven)).predictedNs == 7);
  CHECK_FALSE(table.lookup(values.key(beyond)));
  const ActivePlan *held = table.find(values.key(seven));
  auto better = std::make_shared<ActivePlan>();
  table.publish(values.key(seven), {better});
  CHECK(held == values.planOf(seven).get()); // still valid for its users
  CHECK(table.find(values.key(seven)) == better.get());
  CHECK(table.valueCount() == kEntries);
}

TEST_CASE(
    "S7: a value costs what its fields do, and no more are kept than fit") {
  Registry registry = makeBuiltinRegistry();
  size_t fields = 0;
  for (const auto &family : registry.families())
    fields = std::max(fields, family->problemSchema().fields().size());
  constexpr size_t kCapacity = 4096;
  DispatchTable table(fields, kCapacity);
  LaunchValues values;
  for (int64_t value = 0; value < int64_t(kCapacity); ++value)
    values.publish(table, value);
  CHECK(table.valueCount() == kCapacity);
  size_t full = table.bytesInUse();
  const size_t bytesOfValue = 64 + 8 * fields + 64;
  CHECK(full <= bytesOfValue * kCapacity);
  // Millions of further values take no more memory.
  constexpr int64_t kLast = 1000000;
  bool isRight = true;
  for (int64_t value = kCapacity; value < kLast; ++value) {
    values.publish(table, value);
    isRight &= table.find(values.key(value)) == values.planOf(value).get();
  }
  CHECK(isRight);
  CHECK(table.bytesInUse() == full);
  CHECK(table.valueCount() == kCapacity);
  // The last ones are all there, and nothing is found in a wrong place.
  for (int64_t value = 0; value < kLast; value += 3) {
    const ActivePlan *plan = table.find(values.key(value));
    bool isRecent = value >= kLast - int64_t(kCapacity);
    isRight &= isRecent ? plan == values.planOf(value).get() : plan == nullptr;
  }
  CHECK(isRight);
}

TEST_CASE("S7: what is hit stays, what is not makes room") {
  constexpr size_t kCapacity = 256;
  DispatchTable table(1, kCapacity);
  LaunchValues values;
  constexpr int64_t kHot = 100;
  for (int64_t value = 0; value < kHot; ++value)
    values.publish(table, value);
  for (int64_t cold = kHot; cold < 20000; ++cold) {
    values.publish(table, cold);
    if (cold % 64 == 0)
      for (int64_t value = 0; value < kHot; ++value)
        REQUIRE(table.find(values.key(value)) == values.planOf(value).get());
  }
}

TEST_CASE("S7: readers meet the right plan or none while places are reused") {
  constexpr size_t kCapacity = 512;
  DispatchTable table(1, kCapacity);
  LaunchValues values;
  constexpr int64_t kLast = 200000;
  std::atomic<int64_t> published{0};
  std::atomic<uint64_t> hits{0}, wrong{0};
  std::vector<std::thread> readers;
  for (int64_t seed = 0; seed < 2; ++seed)
    readers.emplace_back([&, seed] {
      while (published < kLast) {
        int64_t last = published;
        for (int64_t back = seed; back < 2 * int64_t(kCapacity); back += 3) {
          int64_t value = std::max<int64_t>(last - back, 0);
          const ActivePlan *plan = table.find(values.key(value));
          hits += plan != nullptr;
          wrong += plan && plan != values.planOf(value).get();
        }
      }
    });
  for (int64_t value = 0; value < kLast; ++value) {
    values.publish(table, value);
    published = value;
  }
  published = kLast;
  for (std::thread &reader : readers)
    reader.join();
  CHECK(wrong == 0);
  CHECK(hits > 0);
}

TEST_CASE("S7: what is kept gives its place to no other value") {
  constexpr size_t kCapacity = 256;
  DispatchTable table(1, kCapacity);
  LaunchValues values;
  constexpr int64_t kKept = kCapacity, kLast = 20000;
  for (int64_t value = 0; value < kLast; ++value) {
    values.publish(table, value);
    // Some values are kept before the table is full, and some after that.
    if (value < kKept / 2 || (value >= 1000 && value < 1000 + kKept / 2))
      CHECK(table.keep(values.key(value), {values.planOf(value)}).plan ==
            values.planOf(value));
  }
  bool isThere = true;
  for (int64_t i = 0; i < kKept / 2; ++i)
    for (int64_t value : {i, 1000 + i})
      isThere &= table.find(values.key(value)) == values.planOf(value).get();
  CHECK(isThere);
  // Kept values take no place from the others, and have their own limit.
  for (int64_t value = kLast - int64_t(kCapacity); value < kLast; ++value)
    isThere &= table.find(values.key(value)) == values.planOf(value).get();
  CHECK(isThere);
  CHECK(table.valueCount() == 2 * kCapacity);
  for (int64_t value = kLast; value < 2 * kLast; ++value)
    table.keep(values.key(value), {values.planOf(value)});
  CHECK(table.valueCount() == 2 * kCapacity);
}

TEST_CASE("S14d: an offer does not replace what is no fallback") {
  DispatchTable table(1);
  LaunchValues values;
  auto fallback = std::make_shared<ActivePlan>();
  fallback->isFallback = true;
  const ActivePlanPtr better = values.plans[0], other = values.plans[1];
  int64_t value = 1;
  CHECK(table.offer(values.key(value), {fallback}).plan == fallback);
  CHECK(table.offer(values.key(value), {better}).plan == better);
  CHECK(table.offer(values.key(value), {fallback}).plan == better);
  CHECK(table.keep(values.key(value), {fallback}).plan == better);
  CHECK(table.offer(values.key(value), {other}).plan == better);
  CHECK(table.find(values.key(value)) == better.get());
  table.publish(values.key(value), {fallback});
  CHECK(table.find(values.key(value)) == fallback.get());
}

TEST_CASE("S7: a context that is gone leaves its places and no plans") {
  constexpr size_t kCapacity = 128;
  DispatchTable table(1, kCapacity);
  LaunchValues here, there;
  constexpr int64_t kOfEach = kCapacity / 2;
  for (int64_t value = 0; value < kOfEach; ++value) {
    table.publish(here.key(value, 1), {here.planOf(value)});
    table.keep(there.key(value, 2), {there.planOf(value)});
  }
  size_t bytes = table.bytesInUse();
  auto now = std::make_shared<ActivePlan>();
  std::weak_ptr<const ActivePlan> gone[] = {here.plans[0], here.plans[1], now};
  for (int64_t value = 0; value < 8; ++value)
    table.publish(here.key(value, 1), {now});
  here.plans.clear();
  now.reset();
  CHECK_FALSE(gone[2].expired());
  table.forgetContext(1);
  for (const auto &plan : gone)
    CHECK(plan.expired());
  CHECK(table.valueCount() == kOfEach);
  CHECK(table.planCount() == there.plans.size());
  auto isThere = [&](uint64_t context, const LaunchValues &values) {
    for (int64_t value = 0; value < kOfEach; ++value)
      if (table.find(values.key(value, context)) != values.planOf(value).get())
        return false;
    return true;
  };
  CHECK(isThere(2, there));
  int64_t one = 1;
  CHECK(table.find(there.key(one, 1)) == nullptr);
  // Other values take the places.
  LaunchValues next;
  for (int64_t value = 0; value < kOfEach; ++value)
    table.publish(next.key(value, 3), {next.planOf(value)});
  CHECK(isThere(3, next));
  CHECK(isThere(2, there));
  CHECK(table.bytesInUse() == bytes);
  // Kept values are dropped as well.
  table.forgetContext(2);
  for (int64_t value = 0; value < 20 * kOfEach; ++value)
    table.publish(next.key(value, 3), {next.planOf(value)});
  CHECK(table.valueCount() <= kCapacity + kOfEach);
}

TEST_CASE("S7: a table that got no memory is as it was") {
  constexpr int64_t kCapacity = 128;
  for (int64_t allowed = 0; allowed < 8; ++allowed) {
    CAPTURE(allowed);
    DispatchTable table(1, kCapacity);
    LaunchValues values;
    auto isThere = [&](int64_t value) {
      return table.find(values.key(value)) == values.planOf(value).get();
    };
    for (int64_t value = 0; value < kCapacity; ++value) {
      bool failed = false;
      try {
        kiln::testing::AllocationsFail fail(allowed);
        values.publish(table, value);
      } catch (const std::bad_alloc &) {
        failed = true;
      }
      REQUIRE(isThere(value) == !failed);
      values.publish(table, value);
    }
    bool isRight = true;
    for (int64_t value = 0; value < kCapacity; ++value)
      isRight &= isThere(value);
    // The hand goes around, over all places.
    for (int64_t value = kCapacity; value < 4 * kCapacity; ++value) {
      values.publish(table, value);
      isRight &= isThere(value);
    }
    CHECK(isRight);
    CHECK(table.valueCount() == kCapacity);
  }
}

TEST_CASE("plans are swapped value by value") {
  LaunchValues values;
  DispatchTable table(values.family->problemSchema().fields().size());
  const int64_t value = 3, other = 4;
  const ChosenPlan standIn{values.plans[0]}, better{values.plans[1], 5},
      measured{values.plans[2], 5, 6};
  // Nothing is introduced where there is something, nor replaced where there
  // is nothing.
  CHECK_FALSE(table.replace(values.key(value), better));
  CHECK(table.introduce(values.key(value), standIn).plan == standIn.plan);
  CHECK(table.introduce(values.key(value), better).plan == standIn.plan);
  CHECK(table.replace(values.key(value), better));
  CHECK_FALSE(table.replace(values.key(value), better));
  CHECK(table.find(values.key(value)) == better.plan.get());
  // A plan that was measured at the value is not replaced.
  CHECK(table.replace(values.key(value), measured));
  CHECK_FALSE(table.replace(values.key(value), better));
  CHECK(table.find(values.key(value)) == measured.plan.get());

  table.keep(values.key(other), standIn);
  table.introduce(values.key(other, /*context=*/2), standIn);
  size_t place = 0;
  std::vector<DispatchTable::KeyValues> listed;
  while (table.list(*values.family, 1, place, 1, listed))
    ;
  CHECK(listed.size() == 2);
  table.drop(values.key(other));
  CHECK(table.find(values.key(other)) == nullptr);
  CHECK(table.find(values.key(other, 2)) != nullptr);
  table.drop(values.key(other));
}
