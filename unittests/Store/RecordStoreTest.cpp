#include "Store/Records.h"

#include "Store/RecordFixture.h"
#include "Store/Verdicts.h"
#include "Support/FaultyFileOps.h"
#include "Support/WatchedFileOps.h"

#include <thread>

using namespace kiln;
using namespace kiln::fake;

namespace {

TEST_CASE("a key holds what is fixed and nothing that varies") {
  RecordFixture f;
  std::string key = recordKey(f.family, f.problem(64), f.device);
  CHECK(recordKey(f.family, f.problem(65), f.device) == key);
  CHECK(recordKey(f.family, makeProblem(f.family, "fake m=64 n=65"),
                  f.device) != key);
  CHECK(recordKey(f.family, makeProblem(f.family, "fake m=64 n=64 type=fp16"),
                  f.device) != key);
  CHECK(recordKey(f.family, f.problem(64), "another") != key);
}

TEST_CASE("find tells how well a record matches") {
  RecordFixture f;
  CHECK(f.find(64).kind == RecordMatchKind::None);
  f.store(point(64, "fast.t32",
                {measured("fast.t64", 90), measured("fast.t32", 100),
                 rejected("fast.t16")}));
  f.store(point(100, "fast.t128", {measured("fast.t128", 100)}));

  RecordMatch exact = f.find(64);
  CHECK(exact.kind == RecordMatchKind::Exact);
  REQUIRE(exact.configs.size() == 2);
  CHECK(exact.configs[0].config.text() == "fast.t32");
  CHECK(exact.configs[0].tmpl->name() == "fast");
  CHECK(exact.configs[1].config.text() == "fast.t64");

  RecordMatch near = f.find(65);
  CHECK(near.kind == RecordMatchKind::Neighbour);
  CHECK(near.extents == ExtentPoint{64});
  CHECK(f.find(1000).extents == ExtentPoint{100});
  CHECK(f.find(16).extents == ExtentPoint{64});
}

TEST_CASE("configs the family does not know are skipped and counted") {
  RecordFixture f;
  f.store(point(64, "gone.t64",
                {measured("gone.t64", 10), measured("fast.t64", 100),
                 measured("fast.t99999", 20)}));
  f.store(point(32, "gone.t64", {measured("gone.t64", 10)}));
  RecordMatch match = f.find(64);
  CHECK(match.skipped == 2);
  REQUIRE(match.configs.size() == 1);
  CHECK(match.configs[0].config.text() == "fast.t64");
  // A point of unknown configs alone is no match; its neighbour is.
  CHECK(f.find(32).kind == RecordMatchKind::Neighbour);
  CHECK(f.find(32).extents == ExtentPoint{64});
}

TEST_CASE("fault 25: concurrent stores lose nothing and agree on a winner") {
  RecordFixture f;
  const char *configs[] = {"fast.t16", "fast.t32", "fast.t64", "fast.t128"};
  std::vector<std::string> adopted(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      adopted[i] =
          f.store(point(8, configs[i], {measured(configs[i], 10 + i)})).winner;
      for (int64_t extent = 100; extent < 105; ++extent)
        f.store(point(extent, configs[i], {measured(configs[i], 10)}));
    });
  for (std::thread &thread : threads)
    thread.join();
  auto record = RecordStore(*f.cache).load(f.family, f.problem(8), f.device);
  REQUIRE(record->size() == 6);
  for (size_t p = 0; p < record->size(); ++p)
    CHECK(record->at(p).measurements.size() == 4);
  for (const std::string &winner : adopted)
    CHECK(winner == record->at(0).winner);
}

/// A store that looks at the disk in each call of find(), or in none but the
/// first.
struct KeptFixture : RecordFixture {
  std::unique_ptr<RecordStore> open(std::chrono::milliseconds recheckInterval,
                                    uint64_t maxKeptBytes = 64u << 20) {
    RecordStoreOptions options;
    options.recheckInterval = recheckInterval;
    options.maxKeptBytes = maxKeptBytes;
    return std::make_unique<RecordStore>(*cache, options);
  }
  uint64_t reads() const {
    cache::Statistics all = cache->statistics();
    return all.hits + all.misses;
  }
  static constexpr std::chrono::milliseconds kNever{1'000'000}, kAlways{0};
};

TEST_CASE("F5, S7: a record is read once for all extents") {
  KeptFixture f;
  f.store(point(64, "fast.t32", {measured("fast.t32", 100)}));
  auto records = f.open(KeptFixture::kNever);
  const uint64_t before = f.reads();
  const RecordMatch first = records->find(f.family, f.problem(64), f.device);
  for (int64_t m = 1; m < 200; ++m) {
    RecordMatch match = records->find(f.family, f.problem(m), f.device);
    REQUIRE(match.configs.size() == 1);
    // The same object, not a copy.
    CHECK(match.configs[0].measurement == first.configs[0].measurement);
  }
  CHECK(f.reads() == before + 1);
  // The absence of a record is kept as well.
  for (int64_t m = 1; m < 20; ++m)
    CHECK_FALSE(records->find(f.family, f.problem(m), "another"));
  CHECK(f.reads() == before + 2);
}

TEST_CASE("F5: what another process stores is seen, and read only then") {
  KeptFixture f;
  auto records = f.open(KeptFixture::kAlways);
  auto late = f.open(KeptFixture::kNever);
  CHECK_FALSE(records->find(f.family, f.problem(64), f.device));
  CHECK_FALSE(late->find(f.family, f.problem(64), f.device));
  f.store(point(64, "fast.t32", {measured("fast.t32", 100)}));
  CHECK(records->find(f.family, f.problem(64), f.device));
  CHECK_FALSE(late->find(f.family, f.problem(64), f.device));
  // load() always looks, and find() has what it saw.
  CHECK(late->load(f.family, f.problem(64), f.device)->size() == 1);
  CHECK(late->find(f.family, f.problem(64), f.device));
  const uint64_t before = f.reads();
  for (int i = 0; i < 10; ++i)
    CHECK(records->find(f.family, f.problem(64), f.device));
  CHECK(f.reads() == before);
  std::filesystem::remove_all(f.folder.path() + "/v1");
  CHECK_FALSE(records->find(f.family, f.problem(64), f.device));
}

TEST_CASE("F5: what was stored here is seen at once") {
  KeptFixture f;
  auto records = f.open(KeptFixture::kNever);
  SUBCASE("on disk") {}
  SUBCASE("in memory") { f.cache = cache::Store::open({}); }
  records = f.open(KeptFixture::kNever);
  CHECK_FALSE(records->find(f.family, f.problem(64), f.device));
  for (int64_t m : {64, 128, 256}) {
    records->store(f.family, f.problem(m), f.device,
                   point(m, "fast.t32", {measured("fast.t32", 100)}));
    CHECK(records->find(f.family, f.problem(m), f.device).kind ==
          RecordMatchKind::Exact);
  }
}

TEST_CASE("F5: a record that has settled is read once more, and then known") {
  TemporaryFolder folder;
  testing::WatchedFileOps files("record/");
  cache::StoreOptions options;
  options.writeDir = folder.path();
  options.files = &files;
  auto cache = cache::Store::open(options);
  RecordStore records(*cache);
  FakeFamily family;
  const Problem problem = makeProblem(family, "fake m=64 n=64");
  auto readsOf = [&](auto &&work) {
    const int before = files.reads();
    work();
    return files.reads() - before;
  };
  auto store = [&] {
    records.store(family, problem, "class",
                  point(64, "fast.t32", {measured("fast.t32", 100)}));
  };
  auto find = [&] {
    records.find(family, problem, "class", MeasurementMode::Cold,
                 RecordAge::Now);
  };
  store();
  CHECK(readsOf(find) == 1);
  CHECK(readsOf(find) == 0);
  CHECK(readsOf(store) == 1); // another may have stored within a clock's tick
  CHECK(readsOf(find) == 1);
  // Stamps hold the files' times, so it is time that has to pass.
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  CHECK(readsOf(find) == 1);
  CHECK(readsOf(find) == 0);
  CHECK(readsOf(store) == 0);
}

TEST_CASE("F5: memory for records has a bound, and a match keeps its own") {
  KeptFixture f;
  auto records = f.open(KeptFixture::kNever, /*maxKeptBytes=*/1);
  records->store(f.family, f.problem(64), f.device,
                 point(64, "fast.t32", {measured("fast.t32", 100)}));
  RecordMatch match = records->find(f.family, f.problem(64), f.device);
  const uint64_t before = f.reads();
  CHECK_FALSE(records->find(f.family, f.problem(64), "another"));
  CHECK(records->find(f.family, f.problem(64), f.device));
  CHECK_FALSE(records->find(f.family, f.problem(64), "another"));
  CHECK(f.reads() == before + 3); // one of them has room
  REQUIRE(match.configs.size() == 1);
  CHECK(match.configs[0].measurement->config == "fast.t32");
}

TEST_CASE("a gauge counts the records that are kept parsed") {
  KeptFixture f;
  const uint64_t empty = f.gauge->read().bytes;
  auto records = f.open(KeptFixture::kNever, /*maxKeptBytes=*/1);
  records->store(f.family, f.problem(64), f.device,
                 point(64, "fast.t32", {measured("fast.t32", 100)}));
  CHECK(f.gauge->read().bytes > empty);
  const uint64_t one = f.gauge->read().bytes;
  CHECK_FALSE(records->find(f.family, f.problem(64), "another"));
  CHECK(f.gauge->read().bytes < one); // an empty one has its place
  records.reset();
  CHECK(f.gauge->read().bytes == empty);
}

TEST_CASE("F5: threads may find while others store") {
  KeptFixture f;
  auto records = f.open(KeptFixture::kAlways);
  std::atomic<bool> isDone = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!isDone) {
        RecordMatch match = records->find(f.family, f.problem(64), f.device);
        for (const RecordedConfig &config : match.configs)
          CHECK(config.measurement->config == "fast.t32");
      }
    });
  for (int64_t m = 1; m <= 20; ++m) {
    records->store(f.family, f.problem(m), f.device,
                   point(m, "fast.t32", {measured("fast.t32", 100)}));
    CHECK(records->find(f.family, f.problem(m), f.device).extents ==
          ExtentPoint{m});
  }
  isDone = true;
  for (std::thread &reader : readers)
    reader.join();
  CHECK(records->load(f.family, f.problem(1), f.device)->size() == 20);
}

TEST_CASE("F5: a point of the CLI's trials costs a few hundred bytes each") {
  RecordFixture f;
  std::vector<Measurement> trials;
  for (int i = 0; i < 64; ++i) {
    trials.push_back(measured(fmt::format("fast.t{}", i).c_str(), 1234.5));
    trials.back().kernel = std::string(64, 'a');
  }
  f.store(point(64, "fast.t0", trials));
  auto entry = f.cache->lookup(cache::Kind::Record,
                               recordKey(f.family, f.problem(64), f.device));
  REQUIRE(entry);
  CHECK(entry->payload.size() < 64 * 300);
}

TEST_CASE("S5: a kernel that cannot be launched is refused at that extent") {
  RecordFixture f;
  Measurement refused = rejected("fast.t32", "launch-failed: too large");
  Measurement captured = rejected(
      "fast.t128", "launch-failed: x: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT");
  f.store(point(64, "", {rejected("fast.t16"), refused, captured}));
  RecordMatch here = f.find(64);
  CHECK_FALSE(here);
  CHECK(here.refuses("fast.t32", "4567cdef"));
  CHECK_FALSE(here.refuses("fast.t32", "another"));
  CHECK_FALSE(here.refuses("fast.t128", "4567cdef"));
  // A record does not decide whether it is wrong.
  CHECK_FALSE(here.refuses("fast.t16", "4567cdef"));
  CHECK_FALSE(f.find(1000).refuses("fast.t32", "4567cdef"));
}

TEST_CASE("S5: that nothing is right stands as long as a verdict on it does") {
  RecordFixture f;
  f.store(point(64, "", {rejected("fast.t16")}));
  const Verdict wrong{.kernel = "4567cdef",
                      .config = "fast.t16",
                      .problem = "fake m=64",
                      .reason = "wrong"};
  Verdicts verdicts(*f.cache, std::chrono::milliseconds(0));
  CHECK(f.find(64).foundNoneRight);
  CHECK_FALSE(foundNoneRight(f.find(64), verdicts, f.device));
  verdicts.found(f.device, wrong);
  CHECK(foundNoneRight(f.find(64), verdicts, f.device));
  CHECK_FALSE(foundNoneRight(f.find(1000), verdicts, f.device));
  verdicts.withdraw(f.device, wrong.kernel, wrong.problem);
  CHECK_FALSE(foundNoneRight(f.find(64), verdicts, f.device));
}

TEST_CASE("S6: a match tells what was validated from what was only timed") {
  RecordFixture f;
  Measurement timed = measured("fast.t16", 10);
  timed.validated = false;
  f.store(point(64, "fast.t32",
                {timed, measured("fast.t64", 90), measured("fast.t32", 100)}));
  RecordMatch match = f.find(64);
  REQUIRE(match.configs.size() == 3);
  REQUIRE(match.validated().size() == 2);
  CHECK(match.validated()[0].measurement->config == "fast.t32");
  CHECK(match.validated()[1].measurement->config == "fast.t64");
  CHECK(match.configs[2].measurement->config == "fast.t16");
  // A point that has nothing proven does not match.
  f.store(point(128, "", {timed}));
  CHECK(f.find(128).extents == ExtentPoint{64});
}

/// The key under which unreadable content is found again.
std::vector<std::string> keptAside(cache::Store &cache) {
  std::vector<std::string> paths;
  for (const cache::EntryInfo &info : cache.list(cache::Kind::Record))
    if (llvm::StringRef(info.key).contains("unreadable"))
      paths.push_back(info.key);
  return paths;
}

TEST_CASE("F3, fault 26: a record that cannot be read is kept aside") {
  RecordFixture f;
  const std::string key = recordKey(f.family, f.problem(64), f.device);
  std::string payload;
  SUBCASE("no JSON") { payload = "what a faulty writer left"; }
  SUBCASE("larger than what is parsed") {
    payload = recordOf(std::string(65u << 20, ' '));
  }
  f.cache->publish(cache::Kind::Record, key, {}, payload);
  CHECK(f.find(64).skipped == 1);
  auto result = RecordStore(*f.cache).store(
      f.family, f.problem(64), f.device,
      point(64, "fast.t32", {measured("fast.t32", 100)}));
  CHECK(result.publish.status == cache::PublishStatus::Stored);
  CHECK(f.find(64).kind == RecordMatchKind::Exact);
  std::vector<std::string> aside = keptAside(*f.cache);
  REQUIRE(aside.size() == 1);
  CHECK(f.cache->lookup(cache::Kind::Record, aside[0])->payload == payload);
}

TEST_CASE("F3: what cannot be kept aside is not replaced") {
  RecordFixture f;
  testing::FaultyFileOps files;
  std::vector<std::string> warnings;
  cache::StoreOptions options;
  options.writeDir = f.folder.path();
  options.files = &files;
  options.log = Log([&](LogLevel level, llvm::StringRef text) {
    if (level == LogLevel::Warning)
      warnings.push_back(text.str());
  });
  f.cache = cache::Store::open(options);
  const std::string key = recordKey(f.family, f.problem(64), f.device);
  const std::string payload = "what a faulty writer left";
  f.cache->publish(cache::Kind::Record, key, {}, payload);
  files.failAlways("rename", ENOSPC);
  auto result = RecordStore(*f.cache).store(
      f.family, f.problem(64), f.device,
      point(64, "fast.t32", {measured("fast.t32", 100)}));
  files.disarm();
  CHECK(result.publish.status == cache::PublishStatus::Dropped);
  CHECK(result.publish.reason.find("kept aside") != std::string::npos);
  REQUIRE_FALSE(warnings.empty());
  CHECK(warnings.back().find("is not kept") != std::string::npos);
  cache::StoreOptions plain;
  plain.writeDir = f.folder.path();
  f.cache = cache::Store::open(plain);
  CHECK(f.cache->lookup(cache::Kind::Record, key)->payload == payload);
}

TEST_CASE("F3: a record grows up to a size and no further") {
  RecordFixture f;
  auto bulky = [](int64_t extent, int64_t atMs, size_t count, size_t bytes) {
    RecordPoint bulk =
        point(extent, "fast.t32", {measured("fast.t32", 100, 1)});
    for (size_t i = 0; i < count; ++i) {
      bulk.measurements.push_back(
          measured(fmt::format("c.t{}", atMs * 10000 + i).c_str(), 200, atMs));
      bulk.measurements.back().bound.assign(bytes, 'x');
    }
    return bulk;
  };
  SUBCASE("in measurements of a point") {
    for (int64_t run : {1, 2, 3})
      f.store(bulky(64, run, kMaxMeasurements / 2, 8));
    auto record = RecordStore(*f.cache).load(f.family, f.problem(64), f.device);
    CHECK(record->at(0).measurements.size() == kMaxMeasurements);
    CHECK(record->at(0).winner == "fast.t32");
    CHECK(record->at(0).find("c.t30000"));
    CHECK_FALSE(record->at(0).find("c.t10255"));
  }
  SUBCASE("in bytes") {
    const size_t bytes = kMaxRecordBytes / 24;
    f.store(bulky(64, 1, 16, bytes));
    RecordPoint now = f.store(bulky(128, 2, 16, bytes));
    CHECK(now.measurements.size() == 8);
    auto record = RecordStore(*f.cache).load(f.family, f.problem(64), f.device);
    REQUIRE(record->size() == 2);
    CHECK(record->at(0).measurements.size() == 8);
    CHECK(record->at(0).winner == "fast.t32");
  }
  SUBCASE("not at all") {
    f.store(point(64, "fast.t32", {measured("fast.t32", 100)}));
    RecordPoint huge = bulky(128, 1, 1, 8);
    huge.unread.push_back(std::string(kMaxRecordBytes, 'x'));
    auto result =
        RecordStore(*f.cache).store(f.family, f.problem(128), f.device, huge);
    CHECK(result.publish.status == cache::PublishStatus::Dropped);
    CHECK(f.find(64).kind == RecordMatchKind::Exact);
    CHECK(f.find(128).kind == RecordMatchKind::Neighbour);
  }
}

} // namespace
