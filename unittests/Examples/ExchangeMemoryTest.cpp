// Memory that ranks share, and the calls that sum over it. RanksTest.sh runs
// the ranks.
#include "llama/ExchangeMemory.h"
#include "Examples/EngineFixture.h"
#include "llama/Error.h"
#include "llama/Options.h"
#include "llama/Shard.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

using namespace llama;

TEST_CASE("another process maps memory by its name, its own does not") {
  const EngineFixture f;
  const Gpu gpu;
  const DeviceMemory memory(gpu, 4096, MemoryUse::Scratch);
  const MemoryName name = memory.name();
  CHECK_THROWS_WITH_AS(PeerMemory(gpu, name),
                       doctest::Contains("mapping memory of another process"),
                       Error);
  const pid_t child = fork();
  if (child == 0) {
    bool isMapped = false;
    try {
      isMapped = PeerMemory(gpu, name).address() != 0;
    } catch (const Error &) {
    }
    _exit(isMapped ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("--allreduce is kiln, the default, or nccl") {
  const ModelConfig model = presetConfig("tiny");
  const auto asksForNccl = [&](const char *value) {
    std::string name = "--allreduce", text = value;
    char *words[] = {name.data(), text.data()};
    Options options(text.empty() ? 0 : 2, words);
    return rankOptions(options, model).asksForNccl;
  };
  CHECK(!asksForNccl(""));
  CHECK(!asksForNccl("kiln"));
  CHECK(asksForNccl("nccl"));
  CHECK_THROWS_WITH_AS(asksForNccl("mpi"),
                       "--allreduce is 'mpi', expected kiln or nccl", Error);
}

TEST_CASE("exchange memory has room for the largest step, within a bound") {
  constexpr uint64_t kMiB = uint64_t(1) << 20;
  const ModelConfig model = partOf(presetConfig("llama-3-8b"), 2);
  StepRoom room;
  room.tokens = 2048;
  room.sequences = 1;
  // Two halves, an inbox for each rank.
  CHECK(exchangeBytes(model, room, 2) == (2 * 2 * 2048 * 8192) + 2 * kMiB);
  room.sequences = 64;
  CHECK(exchangeBytes(model, room, 2) >= 2 * 2 * 64 * 128256 * sizeof(float));
  room.tokens = 1 << 20;
  CHECK(exchangeBytes(model, room, 2) == 256 * kMiB);
}
