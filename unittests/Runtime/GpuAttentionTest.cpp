// Attentions whose kernels share something between their blocks (partial
// results of splits, a counter of tiles): by several threads, on streams of
// their own and on one, and in graphs beside launches, on a GPU.
#include "Driver/CudaApi.h"
#include "Driver/Graph.h"
#include "Runtime/GpuFixture.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// bf16 attentions whose results fill one buffer after another, so that every
/// single launch can be looked at.
class Attentions {
public:
  /// One query against many keys, or with \p chunk as many of each sequence,
  /// packed, of which the second has few.
  Attentions(Gpu &gpu, int chunk, size_t count) : gpu(gpu), count(count) {
    constexpr int64_t kBatch = 2, kHeads = 32, kKvHeads = 8, kDim = 128,
                      kKeys = 4096;
    const int32_t lengths[kBatch] = {kKeys, 1000};
    const int64_t queries = chunk ? chunk : 1;
    q = filled(kBatch * queries * kHeads * kDim);
    k = filled(kBatch * kKeys * kKvHeads * kDim);
    v = filled(kBatch * kKeys * kKvHeads * kDim);
    lengthArray = upload(lengths, sizeof(lengths));
    args.batch = kBatch;
    args.queries = queries;
    args.keys = kKeys;
    args.heads = kHeads;
    args.kv_heads = kKvHeads;
    args.head_dim = kDim;
    args.mask = KILN_ATTENTION_MASK_CAUSAL;
    args.q.type = KILN_BF16;
    args.q.data = at(q);
    args.k.data = at(k);
    args.v.data = at(v);
    args.key_lengths = static_cast<int32_t *>(at(lengthArray));
    if (chunk) {
      const int32_t ends[kBatch + 1] = {0, chunk, chunk + chunk / 3};
      offsets = upload(ends, sizeof(ends));
      args.query_offsets = static_cast<int32_t *>(at(offsets));
    }
    bytes = static_cast<size_t>(kBatch * queries * kHeads * kDim) * 2;
    o = require(DeviceMemory::allocate(*gpu.driver, bytes * count));
    clear();
  }

  kiln_status launch(size_t index, kiln_stream stream) const {
    kiln_attention_args one = args;
    one.o.data = reinterpret_cast<void *>(o.address() + index * bytes);
    return kiln_attention(gpu.engine, &one, nullptr, stream);
  }

  /// Launches once alone, for the result that every other launch must give.
  void expect(kiln_stream stream) {
    kiln_status status = launch(0, stream);
    CAPTURE(gpuError());
    REQUIRE(status == KILN_SUCCESS);
    REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
    expected = fetch(1);
    clear();
  }

  /// Counts the results that differ from the first, and overwrites all.
  size_t countWrong() {
    const std::vector<uint8_t> results = fetch(count);
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i)
      wrong += std::memcmp(&results[i * bytes], expected.data(), bytes) != 0;
    clear();
    return wrong;
  }

private:
  static void *at(const DeviceMemory &memory) {
    return reinterpret_cast<void *>(memory.address());
  }
  DeviceMemory upload(const void *from, size_t size) {
    DeviceMemory memory = require(DeviceMemory::allocate(*gpu.driver, size));
    require(copyToDevice(*gpu.driver, memory.address(), from, size));
    return memory;
  }
  /// Values from -2 to 2.
  DeviceMemory filled(int64_t elements) {
    std::vector<uint16_t> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<uint16_t>(0x3f80 + (i * 2654435761u >> 9) % 128 +
                                        ((i * 40503u >> 7) % 2 ? 0x8000 : 0));
    return upload(values.data(), values.size() * 2);
  }
  std::vector<uint8_t> fetch(size_t results) {
    std::vector<uint8_t> host(bytes * results);
    require(copyToHost(*gpu.driver, host.data(), o.address(), host.size()));
    return host;
  }
  void clear() {
    require(fillAsync(*gpu.driver, o.address(), 0xff, bytes * count,
                      gpu.stream->handle()));
    require(gpu.stream->synchronize());
  }

  Gpu &gpu;
  size_t bytes = 0, count;
  DeviceMemory q, k, v, o, lengthArray, offsets;
  std::vector<uint8_t> expected;
  kiln_attention_args args = kiln_attention_args_init();
};

/// Launches each of \p all on a thread of its own, on its stream. Returns the
/// number of failed launches.
size_t launchTogether(Gpu &gpu, std::vector<Attentions> &all,
                      const std::vector<kiln_stream> &streams,
                      size_t launches) {
  std::atomic<size_t> failed{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < all.size(); ++t)
    threads.emplace_back([&, t] {
      auto scope = ScopedContext::push(*gpu.driver, gpu.primary->handle());
      for (size_t i = 0; scope && i < launches; ++i)
        failed += all[t].launch(i, streams[t]) != KILN_SUCCESS;
      if (!scope)
        ++failed;
    });
  for (std::thread &thread : threads)
    thread.join();
  REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
  return failed;
}

constexpr size_t kLaunches = 100, kRounds = 20;

std::vector<Attentions> fourAttentions(Gpu &gpu, kiln_stream stream) {
  std::vector<Attentions> all;
  for (int chunk : {0, 0, 200, 200})
    all.emplace_back(gpu, chunk, kLaunches).expect(stream);
  return all;
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("attentions of four threads on one stream, none wrong") {
    Gpu gpu(KILN_MODE_PREDICT);
    std::vector<Attentions> all = fourAttentions(gpu, nullptr);
    size_t wrong = 0;
    for (size_t round = 0; round < kRounds; ++round) {
      CHECK(launchTogether(gpu, all, {4, nullptr}, kLaunches) == 0);
      for (Attentions &each : all)
        wrong += each.countWrong();
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("attentions of four threads on four streams, none wrong") {
    Gpu gpu(KILN_MODE_PREDICT);
    std::vector<Attentions> all = fourAttentions(gpu, gpu.handle());
    std::vector<Stream> own;
    std::vector<kiln_stream> streams;
    for (size_t i = 0; i < all.size(); ++i) {
      own.push_back(require(Stream::create(*gpu.driver)));
      streams.push_back(own.back().handle());
    }
    size_t wrong = 0;
    for (size_t round = 0; round < kRounds; ++round) {
      CHECK(launchTogether(gpu, all, streams, kLaunches) == 0);
      for (Attentions &each : all)
        wrong += each.countWrong();
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("graphs of attentions are replayed beside launches, none wrong") {
    Gpu gpu(KILN_MODE_PREDICT);
    std::vector<Attentions> all = fourAttentions(gpu, gpu.handle());
    // The first and the third are in graphs, each with its own stream.
    std::vector<Stream> captured, replayed;
    std::vector<Graph> graphs;
    for (size_t i : {size_t(0), size_t(2)}) {
      captured.push_back(require(Stream::create(*gpu.driver)));
      replayed.push_back(require(Stream::create(*gpu.driver)));
      CudaStream stream = captured.back().handle();
      REQUIRE(all[i].launch(0, stream) == KILN_SUCCESS); // makes the arena
      require(Graph::beginCapture(*gpu.driver, stream));
      for (size_t j = 0; j < kLaunches; ++j)
        CHECK(all[i].launch(j, stream) == KILN_SUCCESS);
      graphs.push_back(require(Graph::endCapture(*gpu.driver, stream)));
    }
    std::vector<Attentions *> direct = {&all[1], &all[3]};
    std::vector<Stream> own;
    for (size_t i = 0; i < direct.size(); ++i)
      own.push_back(require(Stream::create(*gpu.driver)));
    size_t wrong = 0;
    for (size_t round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < graphs.size(); ++i)
        require(graphs[i].launch(replayed[i].handle()));
      for (size_t j = 0; j < kLaunches; ++j)
        for (size_t i = 0; i < direct.size(); ++i)
          CHECK(direct[i]->launch(j, own[i].handle()) == KILN_SUCCESS);
      REQUIRE(gpu.driver->api().cuCtxSynchronize() == CUDA_SUCCESS);
      for (Attentions &each : all)
        wrong += each.countWrong();
    }
    CHECK(wrong == 0);
  }

} // TEST_SUITE
