// Attentions over the same memory agree bit for bit, with more sequences, with
// pages, and when graphs are replayed after lengths changed. On a real GPU.
#include "Families/Attention/AttentionProblem.h"
#include "Families/Families.h"
#include "Trial/Campaign.h"

#include "Driver/Graph.h"
#include "Driver/Stream.h"
#include "Store/LoadedPlan.h"
#include "Trial/TrialBuffers.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

using namespace kiln;
using namespace kiln::fake;

namespace {

using Bytes = std::vector<uint8_t>;

/// The operands of one problem, for launches of it and of others.
class Operands {
public:
  Operands(GpuTrials &gpu, const std::string &text)
      : gpu(gpu), family(**gpu.registry.get("attention")),
        problem(must(family.parseProblem(text))),
        tools(must(TrialTools::load(*gpu.driver, *gpu.artifacts, gpu.device))),
        stream(must(Stream::create(*gpu.driver))),
        buffers(must(TrialBuffers::create(*gpu.driver, tools, family, problem,
                                          options(), stream.handle()))) {}
  Operands(const Operands &) = delete;

  /// Addresses as the operands have them, strides as \p other's.
  Arguments arguments(const Problem &other) const {
    Arguments all = buffers.arguments(0), result;
    result = family.defaultArguments(other);
    for (int i = 0; i < AttentionOperand::Count; ++i)
      result.operands[i].address = all.operands[i].address;
    return result;
  }

  /// Makes a launch ready, whose outputs begin as poison.
  void load(const Problem &other, const std::string &config) {
    auto named = must(family.parseConfig(config));
    plan = must(obtainPlan(*gpu.artifacts, loader,
                           named.tmpl->plan(other, named.config, gpu.device),
                           static_cast<int32_t>(gpu.device.smCount),
                           KernelLifetime::Users));
    const WorkspaceLayout layout = plan->workspace();
    scratch = must(DeviceMemory::allocate(*gpu.driver, layout.bytes()));
    if (layout.bytes())
      must(fillAsync(*gpu.driver, scratch.address(), 0, layout.bytes(),
                     stream.handle()));
    workspace = {scratch.address(), layout.bytes(), true};
  }

  /// The first \p bytes of O behind a launch.
  Bytes launch(const Arguments &given, uint64_t bytes) {
    must(buffers.prepareOutputs(stream.handle()));
    must(plan->launch(given, workspace, stream.handle()));
    return firstOfO(bytes);
  }
  Bytes replay(Graph &graph, uint64_t bytes) {
    must(buffers.prepareOutputs(stream.handle()));
    must(graph.launch(stream.handle()));
    return firstOfO(bytes);
  }
  Graph graphOf(const Arguments &given) {
    GraphBuilder builder = must(GraphBuilder::create(*gpu.driver));
    must(plan->addTo(builder, given, workspace));
    return must(builder.instantiate());
  }

  uint64_t bytesOfO(const Problem &other) const {
    return static_cast<uint64_t>(
        family.operands(other).operands[AttentionOperand::O].bytes());
  }

  GpuTrials &gpu;
  const KernelFamily &family;
  const Problem problem;

private:
  static TrialBufferOptions options() {
    TrialBufferOptions options;
    options.capBytes = uint64_t(1) << 30;
    options.forTiming = false;
    return options;
  }

  Bytes firstOfO(uint64_t bytes) {
    must(stream.synchronize());
    Bytes result(bytes);
    must(copyToHost(*gpu.driver, result.data(),
                    buffers.arguments(0).operands[AttentionOperand::O].address,
                    bytes));
    // Something was written, and not zeros alone.
    CHECK(std::any_of(result.begin(), result.end(), [](uint8_t byte) {
      return byte != 0 && byte != (kTrialPoison & 0xff);
    }));
    return result;
  }

  TrialTools tools;
  Stream stream;
  TrialBuffers buffers;
  KernelLoader loader{*gpu.driver};
  std::shared_ptr<const LoadedPlan> plan;
  DeviceMemory scratch;
  Workspace workspace;
};

/// The best configs that take the operands' problem and \p other, and that
/// ptxas does not spill.
std::vector<std::string> configsOfBoth(const Operands &operands,
                                       const Problem &other) {
  constexpr size_t kConfigs = 10;
  const KernelFamily &family = operands.family;
  std::vector<Triple> triples;
  for (const std::string &config :
       bestConfigs(family, operands.problem, operands.gpu.device, kConfigs)) {
    auto named = must(family.parseConfig(config));
    if (named.tmpl->prune(other, named.config, operands.gpu.device))
      continue;
    triples.push_back({&family, operands.problem, config});
    triples.push_back({&family, other, config});
  }
  std::map<std::string, int> counts;
  for (const Triple &triple : compileAll(operands.gpu, triples))
    ++counts[triple.config];
  std::vector<std::string> configs;
  for (const auto &[config, count] : counts)
    if (count == 2)
      configs.push_back(config);
  CHECK_FALSE(configs.empty());
  return configs;
}

constexpr const char *kShape = " heads=8 kvheads=2 d=128 dtype=bf16";

/// Integers on the device.
DeviceMemory upload(const Driver &driver, const std::vector<int> &values) {
  DeviceMemory memory =
      must(DeviceMemory::allocate(driver, values.size() * sizeof(int)));
  must(copyToDevice(driver, memory.address(), values.data(), memory.bytes()));
  return memory;
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("with a fixed split, no sequence depends on how many there are") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (const char *rows : {"sq=1", "sq=4", "sq=130", "sq=300 mask=causal"}) {
      CAPTURE(std::string(rows));
      const std::string rest = fmt::format(" {} sk=1000 split=256", rows);
      Operands operands(gpu, "batch=5" + rest + kShape);
      const Problem one =
          must(operands.family.parseProblem("batch=1" + rest + kShape));
      const uint64_t bytes = operands.bytesOfO(one);
      Bytes chosen;
      for (const std::string &config : configsOfBoth(operands, one)) {
        CAPTURE(config);
        operands.load(operands.problem, config);
        const Bytes of5 =
            operands.launch(operands.arguments(operands.problem), bytes);
        operands.load(one, config);
        CHECK(operands.launch(operands.arguments(one), bytes) == of5);
        // Nor on which config is chosen: another batch may have another.
        if (must(operands.family.parseConfig(config)).tmpl->isGeneric())
          continue;
        if (chosen.empty())
          chosen = of5;
        CHECK(chosen == of5);
      }
    }
  }

  TEST_CASE("pages that follow each other are as good as none") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (int sq : {1, 130})
      for (int page : {1, 16, 64, 256}) {
        CAPTURE(sq);
        CAPTURE(page);
        const std::string rest =
            fmt::format("batch=3 sq={} sk=512 split=256{}", sq, kShape);
        Operands operands(gpu, rest);
        const Problem paged = must(operands.family.parseProblem(
            fmt::format("{} pages=table page={}", rest, page)));
        std::vector<int> pages(static_cast<size_t>(3 * 512 / page));
        std::iota(pages.begin(), pages.end(), 0);
        const DeviceMemory table = upload(*gpu.driver, pages);
        const uint64_t bytes = operands.bytesOfO(paged);
        for (const std::string &config : configsOfBoth(operands, paged)) {
          CAPTURE(config);
          operands.load(operands.problem, config);
          const Bytes expected =
              operands.launch(operands.arguments(operands.problem), bytes);
          operands.load(paged, config);
          Arguments arguments = operands.arguments(paged);
          arguments.operands[AttentionOperand::PageTable].address =
              table.address();
          CHECK(operands.launch(arguments, bytes) == expected);
        }
      }
  }

  TEST_CASE("a graph follows lengths that change between its replays") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (int sq : {1, 70}) {
      CAPTURE(sq);
      Operands operands(
          gpu, fmt::format("batch=4 sq={} sk=3000 kvlen=used{}", sq, kShape));
      const uint64_t bytes = operands.bytesOfO(operands.problem);
      Arguments arguments = operands.arguments(operands.problem);
      const DeviceAddress lengths =
          arguments.operands[AttentionOperand::KeyLengths].address;
      for (const std::string &config :
           configsOfBoth(operands, operands.problem)) {
        CAPTURE(config);
        operands.load(operands.problem, config);
        Graph graph = operands.graphOf(arguments);
        Bytes before;
        for (std::array<int, 4> values : {std::array{3000, 3000, 3000, 3000},
                                          {1, 2999, 0, 1500},
                                          {64, 65, 63, 0},
                                          {0, 1, 3000, 200}}) {
          must(copyToDevice(*gpu.driver, lengths, values.data(),
                            sizeof(values)));
          const Bytes replayed = operands.replay(graph, bytes);
          CHECK(operands.launch(arguments, bytes) == replayed);
          CHECK(replayed != before);
          before = replayed;
        }
      }
    }
  }

} // TEST_SUITE
