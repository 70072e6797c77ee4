#include "compare/CopyBaseline.h"

#include "Driver/Stream.h"
#include "Store/FakeDevice.h"
#include "Store/StoreFixture.h"
#include "Trial/FakeTrials.h"

#include <map>
#include <set>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

namespace {

/// The stand-in driver with kernels of the copy baseline, which last as a table
/// says.
struct BaselineFixture : FakeDevice, StoreFixture {
  BaselineFixture() : stream(must(Stream::create(*driver))) {
    kilnFakeOnLaunch("trial/StreamTools.cuh", play, this, sizeof(StreamParams));
    tools.emplace(must(TrialTools::load(*driver, *artifacts, device)));
  }

  static void play(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<BaselineFixture *>(user);
    StreamParams params;
    std::memcpy(static_cast<void *>(&params), launch->params, sizeof(params));
    self->sources.insert(params.read);
    self->targets.insert(params.write);
    auto found = self->durations.find(launch->function);
    launch->durationNs = found == self->durations.end() ? 9000 : found->second;
  }

  std::unique_ptr<CopyBaseline> make(StreamBytes bytes, unsigned copies) {
    kernels.emplace(
        must(StreamTools::load(*driver, *artifacts, device, bytes.mix())));
    return must(CopyBaseline::create(*driver, *tools, *kernels, bytes, copies,
                                     stream.handle()));
  }
  /// Picks the best and measures it once more.
  BaselineResult measure(CopyBaseline &bench, unsigned copies) {
    SamplingOptions sampling;
    sampling.copies = copies;
    must(bench.pickBest(stream.handle(), sampling));
    auto launches = bench.finalists();
    return must(bench.result(must(
        measureInterleaved(*driver, stream.handle(), launches, sampling))));
  }

  FakeTrials trials;
  Stream stream;
  std::optional<TrialTools> tools;
  std::optional<StreamTools> kernels;
  std::map<std::string, double> durations; ///< ns, by kernel
  std::set<const void *> sources, targets;
};

} // namespace

TEST_CASE("the fastest variant stands for all") {
  BaselineFixture f;
  f.durations["kilnStreamStreaming2"] = 7000;
  auto bench = f.make({4096, 2048}, 3);
  BaselineResult result = f.measure(*bench, 3);
  CHECK(result.ns.median == doctest::Approx(7000).epsilon(0.01));
  CHECK(llvm::StringRef(result.variant).starts_with("u2."));
  CHECK(result.variants >= 4);
  CHECK(bench->finalists().size() == 2);
  CHECK(result.bytes.read == 4096);
  // As many copies as the operands have, none where another reads.
  CHECK(f.sources.size() == 3);
  CHECK(f.targets.size() == 3);
  for (const void *target : f.targets)
    CHECK(f.sources.count(target) == 0);
  // No copy: it would read less.
  CHECK(kilnFakeCallCount("cuMemcpyDtoDAsync") == 0);
}

TEST_CASE("the driver's copy takes part where as much is read as written") {
  BaselineFixture f;
  auto bench = f.make({1 << 20, (1 << 20) - 4096}, 1);
  uint64_t before = kilnFakeCallCount("cuMemcpyDtoDAsync");
  BaselineResult result = f.measure(*bench, 1);
  CHECK(kilnFakeCallCount("cuMemcpyDtoDAsync") > before);
  CHECK(result.ns.count > 0);
}

TEST_CASE("a variant that cannot run leaves it to the others") {
  BaselineFixture f;
  auto bench = f.make({4096, 2048}, 1);
  // The first variant's first launch.
  kilnFakeFailCall("cuLaunchKernelEx", 1, 1, KilnFakeOnce);
  BaselineResult result = f.measure(*bench, 1);
  CHECK(result.ns.count > 0);
  CHECK(result.variants + 1 == streamVariants({4096, 2048}).size());
}
