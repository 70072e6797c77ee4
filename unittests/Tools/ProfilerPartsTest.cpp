// The parts of the profiler's helper that do not need a process to look at.
#include "Support/Json.h"
#include "profiler/BusyTime.h"
#include "profiler/Collector.h"
#include "profiler/JsonText.h"
#include "profiler/Ranges.h"

#include <doctest/doctest.h>

#include <random>

using namespace kiln;
using namespace kiln::profiler;

TEST_CASE("profiler: busy time is the length of the union") {
  BusyTime busy;
  busy.add(10, 20);
  busy.add(15, 25); // overlaps
  busy.add(25, 30); // touches
  busy.add(5, 7);   // earlier
  busy.add(12, 14); // inside
  busy.add(40, 40); // empty
  CHECK(busy.total() == 22);
  busy.add(0, 100); // around all
  CHECK(busy.total() == 100);
}

TEST_CASE("profiler: busy time of many intervals, roughly in order") {
  BusyTime busy;
  std::mt19937 random(7);
  constexpr uint64_t kCount = 100000;
  std::vector<uint64_t> places(kCount);
  for (uint64_t i = 0; i < kCount; ++i)
    places[i] = i;
  // Out of order by less than is kept.
  for (size_t i = 0; i + 1000 < kCount; i += 1000)
    std::shuffle(places.begin() + i, places.begin() + i + 1000, random);
  for (uint64_t place : places)
    busy.add(place * 10, place * 10 + 6);
  CHECK(busy.total() == 6 * kCount);
}

TEST_CASE("profiler: paths of ranges are pushed and popped by domain") {
  RangeTree tree;
  const RangeDomain kiln{"kiln", {}}, other{"", {}};
  const RangePath *a = tree.child(nullptr, &kiln, "step", "a");
  const RangePath *b = tree.child(a, &other, "", "b");
  const RangePath *c = tree.child(b, &kiln, "layer", "c");
  CHECK(tree.child(a, &other, "", "b") == b);
  CHECK(tree.at(c->id) == c);
  CHECK(tree.at(0) == nullptr);
  CHECK(tree.at(99) == nullptr);
  CHECK(tree.without(c, &kiln) == b);
  // b is not the innermost one.
  const RangePath *rest = tree.without(c, &other);
  CHECK(rest->name == "c");
  CHECK(rest->parent == a);
  const RangeDomain third{"third", {}};
  CHECK(tree.without(c, &third) == c);
}

TEST_CASE("profiler: a launch's ranges join a node's") {
  RangeTree tree;
  const RangeDomain kiln{"kiln", {}};
  auto path =
      [&](std::initializer_list<std::pair<const char *, const char *>> ranges) {
        const RangePath *at = nullptr;
        for (const auto &[category, name] : ranges)
          at = tree.child(at, &kiln, category, name);
        return at;
      };
  const RangePath *replay = path({{"", "serve"}, {"step", "decode 7"}});
  // The capture's step gives way.
  CHECK(tree.join(
            replay,
            path({{"step", "warm-up"}, {"layer", "l3"}, {"call", "gemm"}})) ==
        path({{"", "serve"},
              {"step", "decode 7"},
              {"layer", "l3"},
              {"call", "gemm"}}));
  // Ranges around both are there once.
  CHECK(tree.join(replay, path({{"", "serve"}, {"layer", "l3"}})) ==
        path({{"", "serve"}, {"step", "decode 7"}, {"layer", "l3"}}));
  CHECK(tree.join(nullptr, replay) == replay);
  CHECK(tree.join(replay, nullptr) == replay);
  CHECK(tree.join(replay, replay) == replay);
  // Without a step in the launch, that of the capture stays.
  CHECK(
      tree.join(path({{"", "serve"}}), path({{"step", "s"}, {"layer", "l"}})) ==
      path({{"", "serve"}, {"step", "s"}, {"layer", "l"}}));
}

TEST_CASE("profiler: there are only so many paths") {
  RangeTree tree;
  for (size_t i = 0; i < RangeTree::kMostPaths; ++i)
    REQUIRE(tree.child(nullptr, nullptr, "", std::to_string(i)));
  CHECK(tree.isFull());
  CHECK(tree.child(nullptr, nullptr, "", "another") == nullptr);
  CHECK(tree.child(nullptr, nullptr, "", "77"));
}

TEST_CASE("profiler: the ranges of launches") {
  LaunchRanges launches;
  launches.note(5, 1);
  launches.note(6, 2);
  CHECK(launches.of(5) == 1);
  CHECK(launches.of(6) == 2);
  CHECK(launches.of(7) == 0);
  // The slot of 5 has another launch's.
  CHECK(launches.of(5 + LaunchRanges::kSlots) == 0);
  launches.note(5 + LaunchRanges::kSlots, 3);
  CHECK(launches.of(5) == 0);
}

TEST_CASE("profiler: every text becomes valid JSON") {
  auto parsed = [](const std::string &text) {
    auto value = parseJson("{\"a\":" + jsonString(text) + "}", "text");
    REQUIRE(bool(value));
    return value->getAsObject()->getString("a")->str();
  };
  CHECK(parsed("plain \"quoted\" \\ and\ttab\n\x01") ==
        "plain \"quoted\" \\ and\ttab\n\x01");
  CHECK(parsed("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  // No UTF-8: a lone byte, an overlong form, a surrogate, a cut character.
  CHECK(parsed("a\xff") == "a?");
  CHECK(parsed("\xc0\x80") == "??");
  CHECK(parsed("\xed\xa0\x80") == "???");
  CHECK(parsed("x\xe2\x82") == "x??");
}
