#include "llama/Workload.h"

#include "llama/Error.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

using namespace llama;

TEST_CASE("a fixed batch arrives at once, and is equal for equal seeds") {
  const auto requests = makeWorkload(FixedBatch{3, 20, 5}, 1000, 1);
  REQUIRE(requests.size() == 3);
  for (const WorkloadRequest &request : requests) {
    CHECK(request.arrivalSeconds == 0);
    CHECK(request.prompt.size() == 20);
    CHECK(request.newTokens == 5);
    for (const int32_t token : request.prompt)
      CHECK((token >= 0 && token < 1000));
  }
  CHECK(requests[0].prompt != requests[1].prompt);
  CHECK(makeWorkload(FixedBatch{3, 20, 5}, 1000, 1)[2].prompt ==
        requests[2].prompt);
  CHECK(makeWorkload(FixedBatch{3, 20, 5}, 1000, 2)[2].prompt !=
        requests[2].prompt);
}

TEST_CASE("arrivals have the rate, and lengths the median and bounds") {
  PoissonLoad load;
  load.requests = 2000;
  load.requestsPerSecond = 8;
  load.prompt = {100, 1, 10, 400};
  load.newTokens = {32, 0, 1, 64};
  load.sharedPrefixTokens = 7;
  const auto requests = makeWorkload(load, 50, 3);
  std::vector<size_t> lengths;
  double last = 0;
  for (const WorkloadRequest &request : requests) {
    CHECK(request.arrivalSeconds > last);
    last = request.arrivalSeconds;
    CHECK(request.newTokens == 32);
    CHECK(std::equal(request.prompt.begin(), request.prompt.begin() + 7,
                     requests[0].prompt.begin()));
    lengths.push_back(request.prompt.size() - 7);
  }
  // 2000 gaps: their mean deviates by 2.2 %.
  CHECK(last == doctest::Approx(250).epsilon(0.1));
  std::sort(lengths.begin(), lengths.end());
  CHECK(lengths.front() >= 10);
  CHECK(lengths.back() == 400);
  CHECK(static_cast<double>(lengths[1000]) ==
        doctest::Approx(100).epsilon(0.15));
}

TEST_CASE("workloads of nothing are refused") {
  CHECK_THROWS_AS(makeWorkload(FixedBatch{0, 20, 5}, 1000, 1), Error);
  CHECK_THROWS_AS(makeWorkload(FixedBatch{1, 20, 0}, 1000, 1), Error);
  CHECK_THROWS_AS(makeWorkload(FixedBatch{1, 20, 5}, 0, 1), Error);
  PoissonLoad load;
  load.requestsPerSecond = std::nan("");
  CHECK_THROWS_AS(makeWorkload(load, 1000, 1), Error);
  load = {};
  load.prompt.least = 0;
  CHECK_THROWS_WITH_AS(makeWorkload(load, 1000, 1),
                       doctest::Contains("0 to 4096"), Error);
  load = {};
  load.newTokens.sigma = -1;
  CHECK_THROWS_AS(makeWorkload(load, 1000, 1), Error);
}
