//===- RecordFixture.h - measurements and records for tests ---------------===//
#pragma once

#include "Store/Records.h"
#include "Store/StoreFixture.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kiln::fake {

/// The text of a record with \p lines, as another process may have left it.
inline std::string recordOf(const std::string &lines) {
  return "{\"format\":2,\"holds\":\"record\"}\n" + lines;
}

inline Measurement measured(const char *config, double ns, int64_t atMs = 0) {
  Measurement m;
  m.config = config;
  m.validated = true;
  m.medianNs = ns;
  m.ciLowNs = ns * 0.99;
  m.ciHighNs = ns * 1.01;
  m.samples = 20;
  m.predictedNs = ns / 2;
  m.bound = "dram";
  m.kernel = "0123abcd";
  m.measuredAtMs = atMs;
  return m;
}

inline Measurement rejected(const char *config,
                            const char *reason = "wrong: element 7") {
  Measurement m;
  m.config = config;
  m.valid = false;
  m.reason = reason;
  m.kernel = "4567cdef";
  return m;
}

inline RecordPoint point(int64_t extent, const char *winner,
                         std::vector<Measurement> measurements,
                         int64_t generation = 0) {
  RecordPoint p;
  p.extents = {extent};
  p.winner = winner;
  p.measurements = std::move(measurements);
  p.generation = generation;
  return p;
}

struct RecordFixture {
  RecordFixture() {
    cache::StoreOptions options;
    options.writeDir = folder.path();
    options.gauge = gauge;
    cache = cache::Store::open(options);
  }
  Problem problem(int64_t m) const {
    return makeProblem(family, "fake m=" + std::to_string(m) + " n=64");
  }
  RecordMatch find(int64_t m) const {
    return RecordStore(*cache).find(family, problem(m), device);
  }
  RecordPoint store(const RecordPoint &p) const {
    return RecordStore(*cache)
        .store(family, problem(p.extents.front()), device, p)
        .point;
  }
  TemporaryFolder folder;
  FakeFamily family;
  std::string device = "h200-sxm cc=9.0";
  ByteGaugePtr gauge = std::make_shared<ByteGauge>(); ///< of the host
  std::unique_ptr<cache::Store> cache;
};

} // namespace kiln::fake
