#include "Workspace/PublishedTable.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>

using namespace kiln;

namespace {
struct Entry {
  uint64_t hash = 0;
  int key = 0, value = 0;
};

const Entry *find(const PublishedTable<Entry> &table, int key, uint64_t hash) {
  return table.find(hash, [&](const Entry &e) { return e.key == key; });
}

void publish(PublishedTable<Entry> &table, int key, int value, uint64_t hash) {
  table.publish(std::make_unique<Entry>(Entry{hash, key, value}),
                [&](const Entry &e) { return e.key == key; });
}
} // namespace

TEST_CASE("entries of one hash are told apart, and a later one replaces") {
  PublishedTable<Entry> table;
  CHECK(!find(table, 1, 7));
  publish(table, 1, 10, 7);
  publish(table, 2, 20, 7);
  const Entry *first = find(table, 1, 7);
  REQUIRE(first);
  CHECK(first->value == 10);
  CHECK(find(table, 2, 7)->value == 20);
  publish(table, 1, 11, 7);
  CHECK(find(table, 1, 7)->value == 11);
  CHECK(first->value == 10); // a reader's entry stays
  std::set<int> values;
  table.forEach([&](const Entry &e) { values.insert(e.value); });
  CHECK(values == std::set<int>{11, 20});
}

TEST_CASE("a reader misses nothing while the table grows") {
  PublishedTable<Entry> table;
  publish(table, -1, 1, 12345);
  std::atomic<bool> done{false};
  std::atomic<int> misses{0};
  std::thread reader([&] {
    while (!done)
      misses += find(table, -1, 12345) == nullptr;
  });
  for (int key = 0; key < 2000; ++key)
    publish(table, key, key, static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15u);
  done = true;
  reader.join();
  CHECK(misses == 0);
  for (int key = 0; key < 2000; ++key) {
    const Entry *entry =
        find(table, key, static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15u);
    REQUIRE(entry);
    CHECK(entry->value == key);
  }
}
