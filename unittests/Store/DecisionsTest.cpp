#include "Store/Decisions.h"

#include "Store/StoreFixture.h"
#include "Support/Error.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

TEST_CASE("a decision comes back as it was stored") {
  StoreFixture f;
  DecisionStore decisions(*f.cache);
  CHECK_FALSE(decisions.find(f.problem, f.device));
  Decision decision{
      {{"fast.t64", 1000.1, "dram", "ab"}, {"fast.t32", 1200, "l2", "cd"}}};
  decisions.store(f.problem, f.device, ModelKind::Main, decision);
  CHECK(decisions.find(f.problem, f.device) == decision);
  CHECK_FALSE(decisions.find(f.problem, f.device, ModelKind::Classic));
  Problem other = makeProblem(f.family, "fake m=65 n=64");
  CHECK_FALSE(decisions.find(other, f.device));
}

TEST_CASE("an equal decision is not written again") {
  StoreFixture f;
  DecisionStore decisions(*f.cache);
  Decision decision{{{"fast.t64", 1.0 / 3, "dram", "ab"}}};
  CHECK_FALSE(
      decisions.store(f.problem, f.device, ModelKind::Main, decision).wasThere);
  CHECK(
      decisions.store(f.problem, f.device, ModelKind::Main, decision).wasThere);
  CHECK(f.cache->statistics().stored == 1);
  decision.configs[0].predictedNs = 2;
  decisions.store(f.problem, f.device, ModelKind::Main, decision);
  CHECK(f.cache->statistics().stored == 2);
}

TEST_CASE("F4: an equal decision in memory alone is not there") {
  StoreFixture f;
  auto memory = cache::Store::open({});
  DecisionStore decisions(*memory);
  Decision decision{{{"fast.t64", 1.0 / 3, "dram", "ab"}}};
  for (int i = 0; i < 2; ++i) {
    auto stored =
        decisions.store(f.problem, f.device, ModelKind::Main, decision);
    CHECK_FALSE(stored.wasThere);
    CHECK(stored.publish.status == cache::PublishStatus::Memory);
  }
}

TEST_CASE("damaged configs of a decision are skipped") {
  Decision decision = must(Decision::open(
      R"({"format":2,"holds":"decision"}
7
{"config": "a"}
{"config": "b", "predictedNs": -1, "bound": "", "kernel": ""}
{"config": "c", "predictedNs": 5, "bound": "", "kernel": ""})"));
  CHECK(decision.other.unread.size() == 3);
  REQUIRE(decision.configs.size() == 1);
  CHECK(decision.configs[0].config == "c");
  for (const char *text : {"", "3", "{}"})
    CHECK(summarize(Decision::open(text).takeError()).code ==
          ErrorCode::InvalidArgument);
}

TEST_CASE("a payload that is no decision is none") {
  StoreFixture f;
  f.cache->publish(cache::Kind::Decision,
                   decisionKey(f.problem, f.device, ModelKind::Main), {},
                   "garbage");
  CHECK_FALSE(DecisionStore(*f.cache).find(f.problem, f.device));
}

} // namespace
