#include "kiln-bench/Draw.h"

#include "Store/StoreFixture.h"
#include "Support/Json.h"

#include <cmath>
#include <map>
#include <set>

using namespace kiln;
using namespace kiln::cli;
using kiln::fake::FakeFamily;

static const NamedRanges kRange = {{"m", 1, 8192}};

static std::string messageOf(llvm::Error error) {
  return summarize(std::move(error)).message;
}

TEST_CASE("a draw depends on its seed alone and uses no pair twice") {
  const auto first = llvm::cantFail(drawPairs({24, kRange}, 96, {1, 2}));
  const auto again = llvm::cantFail(drawPairs({24, kRange}, 96, {1, 2}));
  const auto alone = llvm::cantFail(drawPairs({24, kRange}, 96, {1}));
  REQUIRE(first.size() == 192);
  std::set<std::pair<size_t, ExtentPoint>> pairs;
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].values == again[i].values);
    CHECK(first[i].layer == again[i].layer);
    CHECK(first[i].seed == (i < 96 ? 1 : 2));
    CHECK(pairs.insert({first[i].layer, first[i].values}).second);
    if (i < 96)
      CHECK(first[i].values == alone[i].values);
  }
  // The engine is the standard's own: these are the same everywhere.
  CHECK(first[0].layer == 8);
  CHECK(first[0].values == ExtentPoint{15});
}

TEST_CASE("a draw is log-uniform, partly odd, and fair to layers") {
  const auto drawn = llvm::cantFail(drawPairs({1000, kRange}, 6000, {7}));
  std::map<size_t, int> perLayer;
  int small = 0, odd = 0, large = 0;
  for (const Drawn &one : drawn) {
    const int64_t value = one.values.front();
    CHECK((value >= 1 && value <= 8192));
    ++perLayer[one.layer];
    small += value < 64;
    large += value >= 1024;
    odd += value >= 1024 && value % 2 == 1;
  }
  for (const auto &[layer, count] : perLayer)
    CHECK(count == 6);
  // Six of thirteen doublings are below 64, three from 1024 on; of these five
  // in eight are odd.
  CHECK(small / 6000.0 == doctest::Approx(6 / 13.0).epsilon(0.08));
  CHECK(large / 6000.0 == doctest::Approx(3 / 13.0).epsilon(0.1));
  CHECK(static_cast<double>(odd) / large ==
        doctest::Approx(0.625).epsilon(0.1));
}

TEST_CASE("a draw over several extents is log-uniform in each") {
  const NamedRanges ranges = {{"batch", 1, 64}, {"sk", 1, 65536}};
  const auto drawn = llvm::cantFail(drawPairs({10, ranges}, 2000, {3}));
  int smallBatch = 0, smallKeys = 0, both = 0;
  for (const Drawn &one : drawn) {
    REQUIRE(one.values.size() == 2);
    smallBatch += one.values[0] < 8;
    smallKeys += one.values[1] < 256;
    both += one.values[0] < 8 && one.values[1] < 256;
  }
  CHECK(smallBatch / 2000.0 == doctest::Approx(0.5).epsilon(0.08));
  CHECK(smallKeys / 2000.0 == doctest::Approx(0.5).epsilon(0.08));
  CHECK(both / 2000.0 == doctest::Approx(0.25).epsilon(0.15));
  // One value of an extent leaves the others.
  CHECK(llvm::cantFail(drawPairs({1, {{"m", 1, 1}, {"n", 1, 9}}}, 9, {1}))
            .size() == 9);
}

TEST_CASE("an extent that is fixed is odd, or divides by 8 or 64, as often") {
  const NamedRanges ranges = {{"rows", 1, 65536}, {"cols", 33, 262144}};
  const auto drawn =
      llvm::cantFail(drawPairs({1, ranges, {false, true}}, 3000, {9}));
  int odd = 0, eights = 0, sixtyFours = 0, small = 0;
  for (const Drawn &one : drawn) {
    const int64_t cols = one.values[1];
    CHECK((cols >= 33 && cols <= 262144));
    CHECK((cols % 2 == 1 || cols % 8 == 0));
    odd += cols % 2 == 1;
    eights += cols % 8 == 0 && cols % 64 != 0;
    sixtyFours += cols % 64 == 0;
    small += cols < 2941; // the middle of the range's logarithm
  }
  CHECK(odd / 3000.0 == doctest::Approx(1 / 3.0).epsilon(0.1));
  // One multiple of 8 in eight divides by 64.
  CHECK(eights / 3000.0 == doctest::Approx(7 / 24.0).epsilon(0.1));
  CHECK(sixtyFours / 3000.0 == doctest::Approx(9 / 24.0).epsilon(0.1));
  CHECK(small / 3000.0 == doctest::Approx(0.5).epsilon(0.1));
  // A range without such a value gives one that it has: no value is outside of
  // it.
  for (auto [first, last] : {std::pair(2, 2), {7, 7}, {6, 7}, {65, 66}})
    for (const Drawn &one : llvm::cantFail(
             drawPairs({30, {{"cols", first, last}}, {true}}, 30, {1})))
      CHECK((one.values[0] >= first && one.values[0] <= last));
}

TEST_CASE("a layer keeps what it has of its own") {
  DrawSpace space{2, {{"m", 1, 64}, {"n", 33, 4096}}, {false, true}};
  space.own = {{0, 512}, {0, 0}};
  std::set<int64_t> others;
  for (const Drawn &one : llvm::cantFail(drawPairs(space, 40, {1})))
    if (one.layer == 0)
      CHECK(one.values[1] == 512);
    else
      others.insert(one.values[1]);
  CHECK(others.size() > 10);
}

TEST_CASE("a draw of bytes is log-uniform in them") {
  constexpr uint64_t kLeast = 1 << 19, kMost = 1 << 27;
  DrawSpace space{3, {{"rows", 1, 65536}, {"cols", 33, 262144}}, {false, true}};
  space.bytes = {kLeast, kMost};
  space.bytesOf = [](size_t layer, const ExtentPoint &values) {
    return values[0] * values[1] * static_cast<int64_t>(layer + 1);
  };
  int small = 0;
  for (const Drawn &one : llvm::cantFail(drawPairs(space, 1200, {1, 2}))) {
    const auto bytes = static_cast<uint64_t>(
        llvm::cantFail(space.bytesOf(one.layer, one.values)));
    CHECK((bytes >= kLeast && bytes <= kMost));
    small += bytes < 1 << 23;
  }
  CHECK(small / 2400.0 == doctest::Approx(0.5).epsilon(0.08));
  // Bytes that no value has are told, as are faults of the layer.
  space.bytes = {uint64_t(1) << 50, uint64_t(1) << 51};
  auto none = drawPairs(space, 1, {1});
  REQUIRE_FALSE(static_cast<bool>(none));
  CHECK(messageOf(none.takeError()).find("--bytes") != std::string::npos);
  space.bytesOf = [](size_t, const ExtentPoint &) -> llvm::Expected<int64_t> {
    return makeError(ErrorCode::InvalidArgument, "no such size");
  };
  auto wrong = drawPairs(space, 1, {1});
  REQUIRE_FALSE(static_cast<bool>(wrong));
  CHECK(messageOf(wrong.takeError()) == "no such size");
}

TEST_CASE("a draw that uses up its range is refused") {
  CHECK(llvm::cantFail(drawPairs({2, {{"m", 1, 2}}}, 4, {1})).size() == 4);
  for (auto [count, seeds] :
       {std::pair(5, std::vector<uint64_t>{1}), {2, {1, 2, 3}}}) {
    auto drawn =
        drawPairs({2, {{"m", 1, 2}}}, static_cast<unsigned>(count), seeds);
    REQUIRE_FALSE(static_cast<bool>(drawn));
    CHECK(messageOf(drawn.takeError()).find("m=1..2") != std::string::npos);
  }
}

TEST_CASE("a range is two values of a key") {
  const auto range = llvm::cantFail(NamedRange::parse("m=3..4096"));
  CHECK(range.key == "m");
  CHECK(range.first == 3);
  CHECK(range.last == 4096);
  CHECK(range.text() == "m=3..4096");
  for (const char *text :
       {"", "m", "m=", "m=1", "m=1..", "m=..2", "=1..2", "m=0..2", "m=3..2",
        "m=1...2", "m=1..2..3", "m=a..b", "m=1..99999999999999999999"}) {
    CAPTURE(text);
    auto bad = NamedRange::parse(text);
    REQUIRE_FALSE(static_cast<bool>(bad));
    CHECK(messageOf(bad.takeError()).find("--range=") != std::string::npos);
  }
}

static llvm::Expected<std::vector<Layer>>
layersOf(const std::string &list, const NamedRanges &ranges,
         RangedExtents extents = RangedExtents::Dynamic) {
  static Registry registry = [] {
    Registry made;
    llvm::cantFail(made.add(std::make_unique<FakeFamily>()));
    return made;
  }();
  auto json = llvm::cantFail(parseJson("{\"layers\": [" + list + "]}", "test"));
  return parseLayers(json, "layers.json", ranges, extents, registry);
}

TEST_CASE("layers become problems at a value") {
  const auto layers = llvm::cantFail(
      layersOf(R"({"name": "a/o", "family": "fake", "n": 64})", kRange));
  REQUIRE(layers.size() == 1);
  const Case made = llvm::cantFail(layers[0].at(kRange, {137}));
  CHECK(made.name == "a/o/m137");
  CHECK(made.text() == "fake m=137 n=64");
}

TEST_CASE("layers leave out fixed extents, or keep theirs") {
  const NamedRanges ranges = {{"m", 1, 64}, {"n", 33, 512}};
  const auto layers =
      llvm::cantFail(layersOf(R"({"name": "a", "family": "fake", "n": 64},
                  {"name": "b", "family": "fake"})",
                              ranges, RangedExtents::All));
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].own == ExtentPoint{0, 64});
  CHECK(layers[1].own == ExtentPoint{0, 0});
  CHECK_FALSE(layers[0].isFixed(ranges[0]));
  CHECK(layers[0].isFixed(ranges[1]));
  const Case kept = llvm::cantFail(layers[0].at(ranges, {5, 99}));
  CHECK(kept.name == "a/m5");
  CHECK(kept.text() == "fake m=5 n=64");
  const Case open = llvm::cantFail(layers[1].at(ranges, {5, 99}));
  CHECK(open.name == "b/m5-n99");
  CHECK(open.text() == "fake m=5 n=99");
  // A layer cannot give a dynamic extent, and 0 is no size.
  for (const char *fields : {R"("m": 8)", R"("n": 0)", R"("n": "8")"}) {
    CAPTURE(fields);
    auto bad = layersOf(R"({"name": "a", "family": "fake", )" +
                            std::string(fields) + "}",
                        ranges, RangedExtents::All);
    REQUIRE_FALSE(static_cast<bool>(bad));
    CHECK(messageOf(bad.takeError()).find("is given") != std::string::npos);
  }
}

TEST_CASE("layers are checked one by one") {
  auto check = [](const std::string &list, const NamedRanges &ranges,
                  llvm::StringRef mention) {
    CAPTURE(list);
    auto layers = layersOf(list, ranges);
    REQUIRE_FALSE(static_cast<bool>(layers));
    const std::string message = messageOf(layers.takeError());
    CHECK(message.find("layers.json: case 'a'") != std::string::npos);
    CHECK(message.find(mention.str()) != std::string::npos);
  };
  check(R"({"name": "a", "family": "fake", "n": 64, "m": 8})", kRange,
        "m is given");
  check(R"({"name": "a", "family": "fake"})", kRange, "n");
  check(R"({"name": "a", "family": "fake", "n": 64})", {{"n", 1, 2}},
        "n is not an extent of fake that may vary");
  check(R"({"name": "a", "family": "fake", "n": 64})", {{"x", 1, 2}},
        "x is not an extent");
  check(R"({"name": "a", "family": "none", "n": 64})", kRange, "none");
}
