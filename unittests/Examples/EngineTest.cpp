// The engine of examples/llama on the stand-in driver: its words where memory
// runs out or the device dies, and its reports.
#include "ExpertFixture.h"

#include "Examples/EngineFixture.h"
#include "llama/Bench.h"
#include "llama/EngineLoop.h"
#include "llama/Error.h"
#include "llama/HostMatrix.h"
#include "llama/ManualSteps.h"
#include "llama/MemoryNeeds.h"
#include "llama/Options.h"
#include "llama/Report.h"
#include "llama/SafetensorsWriter.h"
#include "llama/Server.h"
#include "llama/WeightChoice.h"
#include "llama/WeightNames.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <set>
#include <string>

using namespace llama;

namespace {

constexpr int kOutOfMemory = 2, kIllegalAddress = 700, kOutOfResources = 701;
constexpr uint64_t kMiB = uint64_t(1) << 20;

template <class Function> std::string refusalOf(const Function &function) {
  try {
    function();
  } catch (const DeviceLost &) {
    return "the device is lost";
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("an engine that cannot fit is refused before it prepares") {
  EngineFixture f;
  const Gpu gpu;
  f.options.pages = 1 << 20;
  kilnFakeSetFreeMemory(0, 100 * kMiB);
  const std::string text =
      refusalOf([&] { Runner(gpu, f.model, f.source, f.options, nullptr); });
  CHECK(text.find("a KV cache of 1048576 pages (32.00 GiB) need") !=
        std::string::npos);
  CHECK(text.find("the device has 100.00 MiB free of 140.40 GiB") !=
        std::string::npos);
  CHECK(kilnFakeCallCount("cuLaunchKernelEx") == 0);
  CHECK(kilnFakeBytesInUse() == 0);
}

TEST_CASE("memory that runs out later is told with its use") {
  EngineFixture f;
  const Gpu gpu;
  kilnFakeSetFreeMemory(0, 10 * kMiB);
  CHECK(refusalOf([&] {
          DeviceMemory(gpu, 11 * kMiB, MemoryUse::Activations);
        }) == "11.00 MiB for activations do not fit: the device has 10.00 MiB "
              "free of 140.40 GiB");
  // The needs that are known at the start fit, and with Kiln's workspace no
  // cache does.
  f.options.pages = 0;
  f.options.pageTokens = 4096;
  const MemoryNeeds needs =
      memoryNeeds(f.model, planWeights(f.model, f.source), f.room());
  kilnFakeSetFreeMemory(0, needs.all() + kMiB / 2);
  const std::string text =
      refusalOf([&] { Runner(gpu, f.model, f.source, f.options, nullptr); });
  CAPTURE(text);
  CHECK(text.find("a KV cache of 2 pages (4.00 MiB) does not fit: behind "
                  "weights, activations and kernels the device has 3.") == 0);
  CHECK(text.find(" MiB free of 140.40 GiB; choose a smaller --token-budget or "
                  "--page-tokens") != std::string::npos);
}

TEST_CASE("the needs of an engine are a lower bound of what it takes") {
  const char *preset = nullptr;
  SUBCASE("without experts") { preset = "tiny"; }
  SUBCASE("with experts") { preset = "tiny-qwen3-moe"; }
  SUBCASE("with biases and sinks") { preset = "tiny-gpt-oss"; }
  EngineFixture f(preset);
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  const MemoryNeeds needs =
      memoryNeeds(f.model, planWeights(f.model, f.source), f.room());
  const uint64_t weights = gpu.bytesOf(MemoryUse::Weights),
                 activations = gpu.bytesOf(MemoryUse::Activations);
  CHECK(needs.weights <= weights);
  CHECK(needs.weights >= weights * 9 / 10);
  CHECK(needs.activations <= activations);
  CHECK(needs.activations >= activations * 9 / 10);
  CHECK(needs.cache == gpu.bytesOf(MemoryUse::Cache));
  // A report knows all that was allocated.
  const nlohmann::json memory = memoryReport(gpu, runner);
  for (const char *use :
       {"weights", "KV cache", "activations", "inputs", "workspace", "kernel",
        "graph", "other", "free", "device"})
    CHECK_MESSAGE(memory.contains(std::string(use) + " bytes"), use);
  CHECK(memory["workspace bytes"] > 0);
  CHECK(memory["kernel bytes"] > 0);
}

TEST_CASE("models with experts are served") {
  for (const char *preset :
       {"tiny-mixtral", "tiny-qwen3-moe", "tiny-gpt-oss"}) {
    CAPTURE(preset);
    EngineFixture f(preset);
    const Gpu gpu;
    Runner runner(gpu, f.model, f.source, f.options, nullptr);
    Server server(gpu, runner, true, true);
    for (int i = 0; i < 3; ++i)
      server.submit(requestOf(40, 10));
    int64_t tokens = 0;
    while (!server.idle())
      tokens += static_cast<int64_t>(server.step().size());
    CHECK(tokens == 30);
  }
}

TEST_CASE("a model is a preset, the first layers of one, or a checkpoint") {
  const auto choose = [](std::vector<std::string> words) {
    std::vector<char *> pointers;
    for (std::string &word : words)
      pointers.push_back(word.data());
    Options options(static_cast<int>(pointers.size()), pointers.data());
    return chooseModel(options);
  };
  CHECK(choose({"--model", "tiny-qwen3-moe"}).config.layers == 3);
  CHECK(choose({"--model", "tiny-qwen3-moe-2-layers"}).config.layers == 2);
  CHECK(choose({"--model", "tiny-qwen3-moe", "--layers", "1"}).config.layers ==
        1);
  // Experts in two tensors are tensors of each expert to the engine.
  EngineFixture f("tiny-mixtral");
  experts::writeZeros(f.folder.path + "/model.safetensors",
                      experts::fusedTensors(f.model));
  const ChosenModel chosen = choose({"--model", f.folder.path});
  CHECK_NOTHROW(requireWeights(chosen.config, *chosen.checkpoint));
  CHECK_THROWS_WITH_AS(choose({"--model", f.folder.path, "--layers", "1"}),
                       doctest::Contains("--layers cuts presets"), Error);
}

TEST_CASE("experts of low precision are served") {
  const auto serve = [](const char *preset, WeightType type) {
    EngineFixture f(preset);
    const Gpu gpu;
    f.source.weights = type;
    Runner runner(gpu, f.model, f.source, f.options, nullptr);
    CHECK(runner.modelWeights().layer(0).gateUp.format.type == type);
    Server server(gpu, runner, true, true);
    server.submit(requestOf(40, 10));
    server.submit(requestOf(20, 10));
    int64_t tokens = 0;
    while (!server.idle())
      tokens += static_cast<int64_t>(server.step().size());
    CHECK(tokens == 20);
  };
  for (const WeightType type :
       {WeightType::E4m3Rows, WeightType::E4m3Blocks, WeightType::E4m3Packed,
        WeightType::Int4, WeightType::Mxfp4}) {
    CAPTURE(nameOf(type));
    serve("tiny-qwen3-moe", type);
  }
  serve("tiny-gpt-oss", WeightType::Mxfp4);
}

TEST_CASE("a server's steps have work, times and a share of the roofline") {
  EngineFixture f;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  Server server(gpu, runner, true, true);
  std::set<SequenceId> begun;
  Roofline roofline;
  server.listen({[&](const Step &step) {
                   for (const auto *part : {&step.decodes, &step.prefills})
                     for (const ScheduledSequence &sequence : *part)
                       begun.insert(sequence.id);
                 },
                 [&](const StepWork &work, double ms) {
                   CHECK(ms > 0);
                   roofline.add(work, ms);
                 }});
  for (int i = 0; i < 3; ++i)
    server.submit(requestOf(40, 10));
  int64_t tokens = 0;
  while (!server.idle())
    tokens += static_cast<int64_t>(server.step().size());
  CHECK(tokens == 30);
  CHECK(begun.size() == 3);
  const DeviceRates rates = deviceRates(gpu, runner);
  CHECK(rates.bytesPerNs > 0);
  CHECK(rates.flopsPerNs > 0);
  const nlohmann::json report = rooflineReport(roofline, rates);
  const int64_t steps = server.schedule().statistics().steps;
  CHECK(report["decode"]["steps"].get<int64_t>() +
            report["prefill"]["steps"].get<int64_t>() ==
        steps);
  for (const char *kind : {"decode", "prefill"})
    CHECK(report[kind]["share"].get<double>() > 0);
  const std::string text = rooflineText(report);
  CHECK(text.find("decoding: ") == 0);
  CHECK(text.find("with prefills: ") != std::string::npos);
  CHECK(text.find("roofline, measured in this run: ") != std::string::npos);
  CHECK(rooflineText(rooflineReport(Roofline(), {})).find("decoding") ==
        std::string::npos);
}

TEST_CASE("a device that dies in the middle ends a server as lost") {
  EngineFixture f;
  f.options.hasGraphs = false;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  Server server(gpu, runner, true, true);
  server.submit(requestOf(40, 10));
  server.step();
  SUBCASE("in a kernel, which a later call tells") {
    kilnFakeOnLaunch(
        "kiln_*",
        [](KilnFakeLaunch *launch, void *) {
          launch->result = kIllegalAddress;
        },
        nullptr, 0);
  }
  SUBCASE("at a launch of Kiln's") {
    kilnFakeFailCall("cuLaunchKernelEx", 3, kIllegalAddress,
                     KilnFakeKillsContext);
  }
  SUBCASE("at a call of the engine's") {
    kilnFakeFailCall("cuEventRecord", 1, kIllegalAddress, KilnFakeKillsContext);
  }
  auto goOn = [&server] {
    while (!server.idle()) {
      server.awaitTurn();
      server.step();
    }
  };
  for (int i = 0; i < 2; ++i)
    CHECK_THROWS_AS(goOn(), DeviceLost);
}

TEST_CASE("a workload that loses its device names the requests") {
  EngineFixture f;
  f.options.hasGraphs = false;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  Server server(gpu, runner, true, true);
  const auto load = makeWorkload(FixedBatch{3, 20, 10}, 512, 1);
  Bench bench(server, load);
  static int launches = 0;
  launches = 0;
  kilnFakeOnLaunch(
      "kiln_*",
      [](KilnFakeLaunch *launch, void *) {
        if (++launches == 100)
          launch->result = kIllegalAddress;
      },
      nullptr, 0);
  std::string text;
  try {
    bench.serve();
  } catch (const DeviceLost &error) {
    text = error.what();
  }
  CAPTURE(text);
  CHECK(text.find("an illegal memory access was encountered") !=
        std::string::npos);
  CHECK(text.find("; 0 of 3 requests are complete; lost are 1 (") !=
        std::string::npos);
  CHECK(text.find(" of 10 tokens), 2 (") != std::string::npos);
  CHECK(text.find(" of 10 tokens), 3 (") != std::string::npos);
}

TEST_CASE("a loop over the engine serves requests, and tells of a loss") {
  EngineFixture f;
  f.options.hasGraphs = false;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  Server server(gpu, runner, true, true);
  ServeMetrics metrics;
  EngineLoop loop(metrics, 4);
  std::vector<std::shared_ptr<CompletionStream>> streams;
  const auto run = [&] {
    loop.run(
        server, {server.schedule().room(), f.options.maxSequences, {}}, [&] {
          for (int i = 0; i < 3; ++i) {
            CompletionRequest request;
            request.request = requestOf(40, 10);
            streams.push_back(std::make_shared<CompletionStream>(100, nullptr));
            loop.offer(request, streams.back());
          }
          CHECK(loop.engineMetrics().find("kiln_launches_total") !=
                std::string::npos);
          loop.stop(EngineLoop::Seconds(60));
        });
  };
  SUBCASE("to their end") {
    run();
    for (const auto &stream : streams) {
      const CompletionStream::News news = stream->take();
      CHECK(news.tokens.size() == 10);
      CHECK(news.ending->outcome == Outcome::Length);
    }
    CHECK(server.idle());
    CHECK(loop.gauges().open == 0);
  }
  SUBCASE("until the device dies") {
    kilnFakeOnLaunch(
        "kiln_*",
        [](KilnFakeLaunch *launch, void *) {
          launch->result = kIllegalAddress;
        },
        nullptr, 0);
    CHECK_THROWS_AS(run(), DeviceLost);
    CHECK(loop.state() == EngineState::Lost);
    for (const auto &stream : streams)
      CHECK(stream->take().ending->outcome == Outcome::Lost);
  }
}

TEST_CASE("no token of a sequence arrives after its cancel") {
  EngineFixture f;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  for (int stepsBefore = 0; stepsBefore < 6; ++stepsBefore) {
    CAPTURE(stepsBefore);
    Server server(gpu, runner, true, true);
    const SequenceId leaving = server.submit(requestOf(8, 3));
    server.submit(requestOf(8, 6));
    for (int i = 0; i < stepsBefore; ++i)
      server.step();
    server.cancel(leaving);
    while (!server.idle())
      for (const NewToken &token : server.step())
        CHECK(token.id != leaving);
  }
}

TEST_CASE("no token of a sequence arrives after a listener cancels it") {
  EngineFixture f;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  for (const bool atBegin : {true, false})
    for (const int64_t newTokens : {3, 20})
      for (int callsBefore = 0; callsBefore < 6; ++callsBefore) {
        CAPTURE(atBegin);
        CAPTURE(newTokens);
        CAPTURE(callsBefore);
        Server server(gpu, runner, true, true);
        const SequenceId leaving = server.submit(requestOf(8, newTokens));
        server.submit(requestOf(8, 12));
        int calls = 0;
        bool hasLeft = false;
        const auto leave = [&] {
          if (calls++ != callsBefore)
            return;
          server.cancel(leaving);
          hasLeft = true;
        };
        StepListener listener;
        if (atBegin)
          listener.began = [&](const Step &) { leave(); };
        else
          listener.ended = [&](const StepWork &, double) { leave(); };
        server.listen(std::move(listener));
        while (!server.idle()) {
          for (const NewToken &token : server.step())
            CHECK_FALSE((hasLeft && token.id == leaving));
          server.schedule().check();
        }
        CHECK(hasLeft);
        const PagePool &pool = server.schedule().pool();
        CHECK(pool.available() == pool.capacity());
      }
}

TEST_CASE("a step that fails is tried again, and loses no token") {
  EngineFixture f;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  for (const char *call : {"cuGraphLaunch", "cuEventRecord"})
    for (uint64_t nth = 1; nth <= 4; ++nth) {
      CAPTURE(call);
      CAPTURE(nth);
      Server server(gpu, runner, true, true);
      for (int i = 0; i < 3; ++i)
        server.submit(requestOf(20, 6));
      kilnFakeFailCall(call, nth, kOutOfMemory, KilnFakeOnce);
      int64_t tokens = 0, failures = 0;
      while (!server.idle()) {
        try {
          tokens += static_cast<int64_t>(server.step().size());
        } catch (const Error &) {
          ++failures;
        }
        server.schedule().check();
      }
      CHECK(failures == 1);
      CHECK(tokens == 18);
      const PagePool &pool = server.schedule().pool();
      CHECK(pool.available() == pool.capacity());
    }
}

TEST_CASE("tokens that arrive beside an error are returned") {
  EngineFixture f;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  Server server(gpu, runner, true, true);
  server.submit(requestOf(20, 6));
  CHECK(server.step().empty()); // its prompt is in flight
  kilnFakeFailCall("cuGraphLaunch", 1, kOutOfMemory, KilnFakeAlways);
  CHECK_THROWS_AS(server.step(), Error);
  CHECK(server.step().size() == 1);
  CHECK_THROWS_AS(server.step(), Error);
  CHECK_THROWS_AS(server.step(), Error);
  server.cancel(1);
  CHECK(server.idle());
}

TEST_CASE("a step beyond the room of a runner is refused") {
  EngineFixture f;
  const Gpu gpu;
  Runner runner(gpu, f.model, f.source, f.options, nullptr);
  const auto vocabulary = static_cast<int32_t>(f.model.vocabSize);
  const auto refuse = [&](const Step &step, const char *message) {
    CHECK_THROWS_WITH_AS(runner.run(step), doctest::Contains(message), Error);
    CHECK_THROWS_WITH_AS(runner.probe(step), doctest::Contains(message), Error);
  };
  ManualSteps steps(f.options.pageTokens), wide(f.options.pageTokens, 4096);
  refuse(steps.prefill(5, 0, 8, vocabulary), "5 sequences, expected 1 to 4");
  refuse(steps.decode(5, 8, false, vocabulary), "5 sequences, expected 1 to 4");
  refuse(steps.prefill(4, 0, 17, vocabulary), "68 tokens, expected 1 to 64");
  refuse(steps.prefill(1, 250, 16, vocabulary), "266 positions of a sequence");
  refuse(wide.prefill(1, 0, 8, vocabulary), "64 pages of a sequence");
  refuse(steps.prefillOf({{}, {5}}), "0 tokens of a sequence");
  CHECK_THROWS_WITH_AS(runner.probe(steps.prefill(1, 0, 5, vocabulary)),
                       "5 rows of logits, and room for 4", Error);
  runner.run(steps.prefill(4, 0, 16, vocabulary));
  runner.probe(steps.prefill(1, 0, 4, vocabulary));
}

TEST_CASE("copies from the host are in the order of the engine's stream") {
  EngineFixture f;
  const Gpu gpu;
  const DeviceMemory memory(gpu, 64, MemoryUse::Scratch);
  memory.zero();
  const std::vector<char> ones(64, 1);
  memory.upload(ones.data(), ones.size());
  CHECK(kilnFakeCallCount("cuMemcpyHtoD") == 0);
  CHECK(kilnFakeCallCount("cuMemcpyHtoDAsync") == 1);
  CHECK(kilnFakeCallCount("cuStreamSynchronize") == 1);
}

TEST_CASE("checkpoints of fp16 are loaded, of other types refused at once") {
  EngineFixture f;
  const Gpu gpu;
  const auto write = [&](DType type, const std::vector<uint16_t> &element) {
    std::vector<TensorDeclaration> tensors;
    for (const WeightSpec &spec : weightSpecs(f.model))
      tensors.push_back({spec.name, type, spec.shape});
    SafetensorsWriter writer(f.folder.path + "/model.safetensors", tensors);
    while (writer.remaining() > 0)
      writer.write(element.data(), element.size() * sizeof(uint16_t));
    writer.finish();
    f.checkpoint.emplace(f.folder.path);
  };
  write(DType::F16, {0xc500});
  {
    const DeviceWeights weights = f.load(gpu);
    for (DeviceAddress address :
         {weights.lastNorm(), weights.layer(0).gateUp.data})
      CHECK(*reinterpret_cast<const uint16_t *>(address) == 0xc0a0);
  }
  write(DType::I32, {0, 0});
  const uint64_t before = kilnFakeCallCount("cuMemAlloc");
  CHECK(refusalOf([&] { f.load(gpu); }).find("has the type I32") !=
        std::string::npos);
  CHECK(kilnFakeCallCount("cuMemAlloc") == before);
}

TEST_CASE("weights and caches of every type serve, with their launches") {
  struct Kind {
    WeightType weights;
    bool hasE4m3Head;
    CacheType cache;
    int launchesOfLayer;
  };
  for (const Kind &kind :
       {Kind{WeightType::Bf16, false, CacheType::Bf16, 8},
        Kind{WeightType::E4m3Rows, false, CacheType::E4m3, 10},
        Kind{WeightType::E4m3Blocks, true, CacheType::Bf16, 10},
        Kind{WeightType::E4m3Packed, true, CacheType::E4m3, 8},
        Kind{WeightType::Int4, true, CacheType::Bf16, 8}}) {
    CAPTURE(nameOf(kind.weights));
    EngineFixture f;
    const Gpu gpu;
    f.source.weights = kind.weights;
    f.source.hasE4m3Head = kind.hasE4m3Head;
    f.options.cache = kind.cache;
    f.options.hasGraphs = false;
    Runner runner(gpu, f.model, f.source, f.options, nullptr);
    const MemoryNeeds needs =
        memoryNeeds(f.model, planWeights(f.model, f.source), f.room());
    CHECK(needs.weights == gpu.bytesOf(MemoryUse::Weights));
    CHECK(needs.cache == gpu.bytesOf(MemoryUse::Cache));
    CHECK(needs.activations <= gpu.bytesOf(MemoryUse::Activations));
    Server server(gpu, runner, true, true);
    server.submit(requestOf(40, 10));
    server.step();
    server.step();
    const uint64_t before = kilnFakeCallCount("cuLaunchKernelEx");
    server.step();
    // Embedding, last norm, head and sampler; attention and products may have
    // a step more, but no layer has more than two of them.
    const auto launches =
        static_cast<int64_t>(kilnFakeCallCount("cuLaunchKernelEx") - before);
    CHECK(launches >= 4 + f.model.layers * kind.launchesOfLayer);
    CHECK(launches <= 4 + f.model.layers * (kind.launchesOfLayer + 2));
    int64_t tokens = 0;
    while (!server.idle())
      tokens += static_cast<int64_t>(server.step().size());
    CHECK(tokens > 0);
  }
}

TEST_CASE("a packed weight is what kiln_prepack makes of its rows") {
  EngineFixture f;
  for (WeightType type : {WeightType::E4m3Packed, WeightType::Int4}) {
    f.source.weights = type;
    const WeightPlan plan = planWeights(f.model, f.source);
    const PlannedMatrix &matrix = plan.matrices[plan.layers[0].gateUp];
    const HostMatrix host(f.model, f.source, matrix);
    kiln::Sized<kiln_prepack_args> call = packingOf(matrix);
    kiln::Sized<kiln_prepack_layout> layout;
    REQUIRE(kiln_prepack_query(&call, &layout) == KILN_SUCCESS);
    const WeightBytes bytes =
        bytesOf(matrix.format, matrix.rows, matrix.columns);
    CHECK(bytes.data == layout.weight_bytes);
    CHECK(bytes.scales == layout.scale_bytes);
    CHECK(bytes.zeros == layout.zero_bytes);
    CHECK(layout.order == KILN_ORDER_K64R16);
    std::vector<uint8_t> packed(bytes.data), scales(bytes.scales);
    const auto place = [](kiln_operand &operand, const auto &data) {
      operand.data = const_cast<uint8_t *>(data.data());
    };
    place(call.weights, host.codes());
    place(call.scales, host.scales());
    place(call.packed, packed);
    place(call.packed_scales, scales);
    REQUIRE(kiln_prepack_host(&call) == KILN_SUCCESS);
    // The same codes in another order. Rows and columns are padded with codes
    // that stand for 0.
    const auto histogram = [&](const std::vector<uint8_t> &codes) {
      std::array<int64_t, 256> counts{};
      for (const uint8_t code : codes)
        if (type == WeightType::Int4) {
          ++counts[code & 15];
          ++counts[code >> 4];
        } else {
          ++counts[code];
        }
      counts[type == WeightType::Int4 ? 8 : 0] = 0;
      return counts;
    };
    CHECK(histogram(packed) == histogram(host.codes()));
  }
}

TEST_CASE("options name types of weights, head and cache") {
  const auto options = [](std::vector<std::string> words) {
    std::vector<char *> pointers;
    for (std::string &word : words)
      pointers.push_back(word.data());
    return Options(static_cast<int>(pointers.size()), pointers.data());
  };
  const auto source = [&](const std::vector<std::string> &words) {
    Options given = options(words);
    return chooseModel(given).source;
  };
  CHECK_FALSE(source({"--model", "tiny"}).weights.has_value());
  CHECK(source({"--model", "tiny", "--weights", "fp8-block"}).weights ==
        WeightType::E4m3Blocks);
  CHECK(source({"--model", "tiny", "--head", "e4m3"}).hasE4m3Head);
  CHECK_THROWS_WITH_AS(source({"--head", "fp8"}),
                       "--head is 'fp8', expected bf16 or e4m3", Error);
  Options cached = options({"--kv-cache", "e4m3"});
  CHECK(runnerOptions(cached).cache == CacheType::E4m3);
}

TEST_CASE("options are bounded, and a small budget is no default") {
  const auto chosen = [](std::vector<std::string> words) {
    std::vector<char *> pointers;
    for (std::string &word : words)
      pointers.push_back(word.data());
    Options options(static_cast<int>(pointers.size()), pointers.data());
    return runnerOptions(options);
  };
  CHECK(chosen({}).budgetMs == 0);
  CHECK(chosen({"--prepare-budget", "1.5"}).budgetMs == 1500);
  CHECK(chosen({"--prepare-budget", "0.0001"}).budgetMs == 1);
  CHECK(chosen({"--prepare-budget", "1e300"}).budgetMs > 0);
  for (const char *value : {"-1", "nan", "inf", "1s", ""})
    CHECK_THROWS_WITH_AS(chosen({"--prepare-budget", value}),
                         doctest::Contains("expected a number of 0 or more"),
                         Error);
  CHECK(chosen({"--max-sequences", "3"}).maxSequences == 3);
  for (const char *value : {"0", "-1", "3x", "", "9223372036854775808"})
    CHECK_THROWS_WITH_AS(chosen({"--max-sequences", value}),
                         doctest::Contains("a whole number of 1 or more"),
                         Error);
}

TEST_CASE("errors that a context survives are no loss") {
  for (int code : {1, 2, kOutOfResources, 600, 708, 712, 720})
    CHECK_FALSE(isFatal(code));
  for (int code : {214, kIllegalAddress, 702, 710, 716, 719})
    CHECK(isFatal(code));
  EngineFixture f;
  const Gpu gpu;
  CHECK(refusalOf([&] { gpu.check(kOutOfResources, "launching"); }) ==
        "launching failed: too many resources requested (CUDA error 701)");
  CHECK_THROWS_WITH_AS(
      gpu.check(kIllegalAddress, "launching a graph"),
      "launching a graph failed: an illegal memory access was encountered "
      "(CUDA error 700)",
      DeviceLost);
}
