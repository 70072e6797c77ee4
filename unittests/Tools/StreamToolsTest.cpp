#include "compare/StreamTools.h"

#include "Compile/Compiler.h"
#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Store/FakeDevice.h"
#include "Store/StoreFixture.h"
#include "Support/Environment.h"
#include "Trial/GpuTrials.h"

#include <algorithm>
#include <set>
#include <vector>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

static OperandSpec matrix(OperandRole role, DType type, int64_t rows,
                          int64_t cols, int64_t leadingDimension) {
  OperandSpec spec;
  spec.name = "x";
  spec.role = role;
  spec.type = type;
  spec.rows = rows;
  spec.cols = cols;
  spec.leadingDimension = leadingDimension;
  return spec;
}

TEST_CASE("a stream moves what must be read and written") {
  OperandTable table;
  table.operands = {
      matrix(OperandRole::In, DType::BF16, 100, 64, 80), // gaps do not count
      matrix(OperandRole::Constant, DType::BF16, 1, 64, 64),
      matrix(OperandRole::InOut, DType::FP32, 10, 3, 3),
      matrix(OperandRole::Out, DType::E4M3, 100, 64, 64)};
  OperandSpec broadcast = matrix(OperandRole::In, DType::FP32, 100, 64, 0);
  broadcast.batch = 7;
  broadcast.batchStride = 0;
  table.operands.push_back(broadcast);
  OperandSpec absent = broadcast;
  absent.present = false;
  table.operands.push_back(absent);
  StreamBytes bytes = streamBytesOf(table);
  CHECK(bytes.read == (100 * 64 * 2 + 64 * 2 + 120 + 64 * 4 + 15) / 16 * 16);
  CHECK(bytes.written == (100 * 64 + 120 + 15) / 16 * 16);
}

TEST_CASE("the mix is the nearest of small proportions") {
  CHECK(mixOf(100, 100) == StreamMix{1, 1});
  CHECK(mixOf(101, 100) == StreamMix{1, 1});
  CHECK(mixOf(200, 100) == StreamMix{2, 1});
  CHECK(mixOf(100, 200) == StreamMix{1, 2});
  CHECK(mixOf(300, 200) == StreamMix{3, 2});
  CHECK(mixOf(500, 100) == StreamMix{4, 1});
  CHECK(mixOf(1e9, 16) == StreamMix{1, 0});
  CHECK(mixOf(16, 1e9) == StreamMix{1, 4});
}

TEST_CASE("every byte is in exactly one access") {
  for (int reads = 1; reads <= StreamMix::kMost; ++reads)
    for (int writes = 0; writes <= StreamMix::kMost; ++writes)
      for (auto [readChunks, writeChunks] :
           {std::pair<long long, long long>{1, 1},
            {1000, 1000},
            {1001, 998},
            {3, 500},
            {500, 3},
            {7, 0}}) {
        CAPTURE(reads);
        CAPTURE(writes);
        CAPTURE(readChunks);
        CAPTURE(writeChunks);
        StreamMix mix{reads, writes};
        StreamParams params = streamParams(mix, readChunks, writeChunks);
        long long read = 0, written = 0, whole = 0;
        for (long long step = 0; step < params.steps; ++step) {
          int inside = 0;
          for (int r = 0; r < reads; ++r)
            if (step < params.readPitch &&
                r * params.readPitch + step < readChunks)
              ++read, ++inside;
          for (int w = 0; w < writes; ++w)
            if (step < params.writePitch &&
                w * params.writePitch + step < writeChunks)
              ++written, ++inside;
          // All steps before wholeSteps, and no other, have all their accesses
          // inside.
          if (inside == reads + writes)
            ++whole;
          else
            CHECK(step >= params.wholeSteps);
        }
        CHECK(read == readChunks);
        if (writes > 0)
          CHECK(written == writeChunks);
        CHECK(whole == params.wholeSteps);
      }
}

TEST_CASE("variants fit their mix and differ") {
  for (StreamBytes bytes : {StreamBytes{1 << 28, 1 << 28},
                            {1 << 29, 1 << 28},
                            {1 << 30, 1 << 28},
                            {1 << 28, 64},
                            {1 << 20, 1 << 20}}) {
    CAPTURE(bytes.read);
    std::vector<StreamVariant> variants = streamVariants(bytes);
    bool isSmall = bytes.total() < 8 << 20;
    CHECK(variants.size() >= (isSmall ? 4 : 12));
    CHECK(variants.size() <= (isSmall ? 8 : 30));
    std::set<std::string> names;
    for (const StreamVariant &variant : variants) {
      CHECK(StreamConfig{bytes.mix(), variant.unroll, variant.hint}.isValid());
      CHECK(variant.threads <= kStreamThreads);
      names.insert(variant.text());
    }
    CHECK(names.size() == variants.size());
  }
}

TEST_CASE("the stream kernels compile with the real NVRTC") {
  Compiler compiler(NvrtcSearch::fromEnvironment(
      Environment::fromProcess(), {KILN_SOURCE_DIR "/build/cuda"}));
  if (auto nvrtc = compiler.nvrtc(); !nvrtc) {
    MESSAGE("skipped: ", summarize(nvrtc.takeError()).message);
    return;
  }
  for (const char *name : {"t4", "a100-sxm4-80gb", "h200-sxm", "b200-sxm"})
    for (StreamMix mix : {StreamMix{1, 1}, {4, 1}, {1, 0}, {1, 4}, {3, 2}}) {
      CAPTURE(name);
      CAPTURE(mix.reads);
      CAPTURE(mix.writes);
      DeviceModel device = must(findDevice(name));
      auto artifact = compiler.compile(streamToolsUnit(device, mix));
      if (!artifact)
        FAIL(llvm::toString(artifact.takeError()));
      CHECK_FALSE(artifact->hasSpills());
    }
}

TEST_CASE("each variant is one launch of its own kernel") {
  FakeDevice gpu;
  StoreFixture f;
  const StreamBytes bytes{16 << 20, 16 << 20};
  static std::vector<std::pair<std::string, unsigned>> launches;
  launches.clear();
  kilnFakeOnLaunch(
      "trial/StreamTools.cuh",
      [](KilnFakeLaunch *launch, void *) {
        launches.push_back({launch->function, launch->grid[0]});
      },
      nullptr, sizeof(StreamParams));
  {
    StreamTools tools = must(
        StreamTools::load(*gpu.driver, *f.artifacts, f.device, bytes.mix()));
    Stream stream = must(Stream::create(*gpu.driver));
    auto run = [&](const StreamVariant &variant) {
      must(tools.run(variant, bytes, 0x1000, 0x2000, stream.handle()));
      return launches.back();
    };
    auto once = run({4, CacheHint::Streaming, 512, 0});
    CHECK(once.first == "kilnStreamStreaming4");
    CHECK(once.second == (16 << 20) / 16 / (512 * 4));
    auto stays = run({2, CacheHint::Plain, 256, 4});
    CHECK(stays.first == "kilnStreamPlain2");
    CHECK(stays.second == f.device.smCount * 4);
    must(tools.run({}, {0, 0}, 0x1000, 0x2000, stream.handle()));
    CHECK(launches.size() == 2);
  }
  kilnFakeReset();
}

TEST_SUITE("gpu") {

  TEST_CASE("streams write all that they should and nothing else") {
    GpuTrials gpu(Registry{});
    Stream stream = must(Stream::create(*gpu.driver));
    constexpr uint8_t kPoison = 0xee, kData = 0x11;
    for (StreamBytes bytes : {StreamBytes{1 << 20, 1 << 20},
                              {10 << 20, 5 << 20},
                              {9999 * 16, 3 * 3333 * 16},
                              {16 << 20, 4096},
                              {12 << 20, 8 << 20},
                              {16, 16}}) {
      CAPTURE(bytes.read);
      CAPTURE(bytes.written);
      StreamTools tools = must(StreamTools::load(*gpu.driver, *gpu.artifacts,
                                                 gpu.device, bytes.mix()));
      auto size = static_cast<uint64_t>(bytes.written);
      DeviceMemory from = must(DeviceMemory::allocate(
          *gpu.driver, static_cast<uint64_t>(bytes.read)));
      DeviceMemory to =
          must(DeviceMemory::allocate(*gpu.driver, size + kStreamChunk));
      must(fillAsync(*gpu.driver, from.address(), kData, from.bytes(),
                     stream.handle()));
      for (const StreamVariant &variant : streamVariants(bytes)) {
        CAPTURE(variant.text());
        must(fillAsync(*gpu.driver, to.address(), kPoison, to.bytes(),
                       stream.handle()));
        must(tools.run(variant, bytes, from.address(), to.address(),
                       stream.handle()));
        must(stream.synchronize());
        std::vector<uint8_t> written(to.bytes());
        must(copyToHost(*gpu.driver, written.data(), to.address(), to.bytes()));
        // The data, or nothing where two of it met.
        CHECK(std::count(written.begin(), written.begin() + bytes.written,
                         kPoison) == 0);
        CHECK(std::count(written.begin() + bytes.written, written.end(),
                         kPoison) == kStreamChunk);
      }
    }
  }

} // TEST_SUITE
