// The memory-bound families as they are used: the cases of the benchmark suite
// with the first choice, and outputs that take the place of inputs.
#include "Driver/DeviceMemory.h"
#include "Driver/Stream.h"
#include "Families/Families.h"
#include "Store/LoadedPlan.h"
#include "Support/Json.h"
#include "Trial/Campaign.h"

#include <algorithm>
#include <filesystem>
#include <set>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// The benchmark suite: in the source tree, or in the bundle that it is run in.
llvm::json::Value readSuite() {
  const std::string name = "benchmarks/suites/memory_bound.json";
  std::string path = KILN_SOURCE_DIR "/" + name;
  return must(readJsonFile(std::filesystem::exists(path) ? path : name));
}

/// The first choice for each case of the suite, with both kinds of data.
std::vector<Triple> suiteCases(const Registry &registry,
                               const DeviceModel &device) {
  llvm::json::Value suite = readSuite();
  std::vector<Triple> triples;
  for (const llvm::json::Value &entry :
       *suite.getAsObject()->getArray("cases")) {
    const llvm::json::Object &object = *entry.getAsObject();
    const KernelFamily &family = **registry.get(*object.getString("family"));
    Problem problem = must(family.canonicalise(must(
        Values::fromJson(family.problemSchema(), object, {"name", "family"}))));
    std::string config = bestConfigs(family, problem, device, 1).front();
    for (TrialData data : {TrialData::Usual, TrialData::Outliers})
      triples.push_back({&family, problem, config, data});
  }
  return triples;
}

/// Problems whose outputs may be inputs: rows that are kept in registers, in
/// shared memory and by clusters, and rows that are read again.
constexpr const char *kInPlaceProblems[] = {
    "rmsnorm rows=70 cols=4096 dtype=bf16 weight=1 residual=1",
    "rmsnorm rows=33 cols=1001 dtype=fp16 weight=1 residual=1 ldx=1100 "
    "ldy=1100 ldr=1003 ldh=1003",
    "layernorm rows=9 cols=40000 dtype=bf16 weight=1 bias=1 residual=1",
    "layernorm rows=130 cols=128 dtype=fp32 bias=1",
    "softmax rows=40 cols=2048 dtype=fp16 mask=1 scale=0.125",
    "softmax rows=5 cols=131072 dtype=bf16",
    "softmax rows=500 cols=31 dtype=fp32 mask=2",
    "softmax rows=64 cols=2048 dtype=bf16 out=fp16",
    "elementwise rows=300 cols=1000 op=silu,mul dtype=bf16",
    "elementwise rows=77 cols=999 op=bias,gelu_tanh dtype=fp16 ldx=1001 "
    "ldy=1001",
    "elementwise rows=64 cols=512 op=add dtype=fp32",
    // Odd rows, packed or in matrices with different alignments: elements that
    // an access covers beyond its own may have been written already.
    "rmsnorm rows=61 cols=1001 dtype=bf16 weight=1 residual=1",
    "rmsnorm rows=33 cols=1001 dtype=bf16 weight=1 residual=1 ldx=1002 "
    "ldy=1002 ldr=1003 ldh=1003",
    "layernorm rows=9 cols=39293 dtype=bf16 weight=1 bias=1 residual=1 "
    "ldr=39295 ldh=39295",
    "softmax rows=40 cols=2049 dtype=fp16 mask=1 scale=0.125 ldmask=2051",
    "softmax rows=5 cols=130019 dtype=bf16",
    "softmax rows=600 cols=23 dtype=bf16 mask=2",
    "elementwise rows=77 cols=1001 op=bias,add dtype=bf16",
    "elementwise rows=77 cols=1001 op=silu,mul dtype=fp16 ldx=1003 ldy=1003 "
    "ldo=1005",
    "elementwise rows=130 cols=33 op=row_bias,relu dtype=bf16 align=2",
};

/// The best config of each class of each template.
std::vector<Triple> inPlaceTriples(const Registry &registry,
                                   const DeviceModel &device) {
  constexpr size_t kConfigs = 6;
  std::vector<Triple> triples;
  for (llvm::StringRef text : kInPlaceProblems) {
    const KernelFamily &family = **registry.get(text.split(' ').first);
    Problem problem = must(family.parseProblem(text));
    for (std::string &config : bestConfigs(family, problem, device, kConfigs))
      triples.push_back({&family, problem, std::move(config)});
  }
  return triples;
}

/// Moderate values of any floating type: its highest byte says 0.5 to 2 and a
/// sign, the others are random.
std::vector<uint8_t> moderateBytes(const OperandSpec &operand, Draws &draws) {
  std::vector<uint8_t> bytes(static_cast<size_t>(operand.bytes()));
  auto width = static_cast<size_t>(bytesOf(operand.type));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(i % width == width - 1
                                        ? draws.pick({0x3f, 0xbf, 0x3e, 0xbe})
                                        : draws.below(256));
  return bytes;
}

/// Runs a triple once, over inputs that are the same each time.
class InPlaceRun {
public:
  InPlaceRun(GpuTrials &gpu, const Triple &triple)
      : gpu(gpu), triple(triple),
        table(triple.family->operands(triple.problem)),
        stream(must(Stream::create(*gpu.driver))) {
    auto named = must(triple.family->parseConfig(triple.config));
    loader = std::make_unique<KernelLoader>(*gpu.driver);
    plan = must(obtainPlan(
        *gpu.artifacts, *loader,
        named.tmpl->plan(triple.problem, named.config, gpu.device),
        static_cast<int32_t>(gpu.device.smCount), KernelLifetime::Users));
  }

  /// How many outputs may be an input.
  size_t promised() const {
    return static_cast<size_t>(std::count_if(table.operands.begin(),
                                             table.operands.end(), mayBeInput));
  }

  /// Packed elements of all outputs; with \p inPlace those outputs that may be
  /// an input are it.
  std::vector<std::vector<uint8_t>> outputs(bool inPlace) {
    constexpr unsigned kSeed = 3;
    Draws draws(kSeed);
    std::vector<DeviceMemory> memory;
    std::vector<std::vector<uint8_t>> contents;
    Arguments arguments = triple.family->defaultArguments(triple.problem);
    for (size_t i = 0; i < table.operands.size(); ++i) {
      const OperandSpec &operand = table.operands[i];
      if (operand.bytes() == 0)
        continue;
      // Drawn in any case, so that both runs read the same.
      std::vector<uint8_t> bytes = moderateBytes(operand, draws);
      if (inPlace && mayBeInput(operand))
        continue;
      if (operand.isWritten())
        std::fill(bytes.begin(), bytes.end(), uint8_t(0xff));
      memory.push_back(must(DeviceMemory::allocate(*gpu.driver, bytes.size())));
      arguments.operands[i].address = memory.back().address();
      // On the launch's stream: another one's copy may come too late.
      contents.push_back(std::move(bytes));
      must(copyToDeviceAsync(*gpu.driver, memory.back().address(),
                             contents.back().data(), contents.back().size(),
                             stream.handle()));
    }
    if (inPlace)
      for (size_t i = 0; i < table.operands.size(); ++i)
        if (mayBeInput(table.operands[i]))
          arguments.operands[i] = arguments.operands[table.operands[i].mayBe];
    const WorkspaceLayout layout = plan->workspace();
    DeviceMemory scratch;
    if (layout.bytes()) {
      scratch = must(DeviceMemory::allocate(*gpu.driver, layout.bytes()));
      must(fillAsync(*gpu.driver, scratch.address(), 0, layout.bytes(),
                     stream.handle()));
    }
    must(plan->launch(arguments, {scratch.address(), layout.bytes(), true},
                      stream.handle()));
    must(stream.synchronize());
    return read(arguments);
  }

private:
  static bool mayBeInput(const OperandSpec &operand) {
    return operand.isWritten() && operand.mayBe >= 0;
  }

  std::vector<std::vector<uint8_t>> read(const Arguments &arguments) {
    std::vector<std::vector<uint8_t>> results;
    for (size_t i = 0; i < table.operands.size(); ++i) {
      const OperandSpec &operand = table.operands[i];
      if (!operand.isWritten())
        continue;
      std::vector<uint8_t> bytes(static_cast<size_t>(operand.bytes()));
      must(copyToHost(*gpu.driver, bytes.data(), arguments.operands[i].address,
                      bytes.size()));
      auto width = static_cast<size_t>(bytesOf(operand.type));
      auto row = static_cast<size_t>(operand.cols) * width;
      auto pitch = static_cast<size_t>(operand.leadingDimension) * width;
      std::vector<uint8_t> &packed = results.emplace_back();
      for (size_t at = 0; at < bytes.size(); at += pitch)
        packed.insert(packed.end(), bytes.begin() + at,
                      bytes.begin() + at + row);
    }
    return results;
  }

  GpuTrials &gpu;
  const Triple &triple;
  const OperandTable table;
  Stream stream;
  std::unique_ptr<KernelLoader> loader;
  std::shared_ptr<const LoadedPlan> plan;
};

} // namespace

TEST_CASE("campaigns find the suite's cases and outputs that may be inputs") {
  Registry registry = makeBuiltinRegistry();
  DeviceModel device = must(findDevice("h200-sxm"));
  CHECK(suiteCases(registry, device).size() == 2 * 55);
  std::set<std::string> templates;
  for (const Triple &triple : inPlaceTriples(registry, device)) {
    INFO(triple.text());
    auto named = must(triple.family->parseConfig(triple.config));
    templates.insert(named.tmpl->name().str());
    OperandTable table = triple.family->operands(triple.problem);
    CHECK(table.operands[1].mayBe == 0);
  }
  CHECK(templates ==
        std::set<std::string>{"flat", "reload", "resident", "spread"});
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: the cases of the memory-bound suite are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    std::vector<Triple> triples = suiteCases(gpu.registry, gpu.device);
    checkAll(gpu, triples);
  }

  TEST_CASE("campaign: outputs in the place of inputs hold the same") {
    GpuTrials gpu(makeBuiltinRegistry());
    std::vector<Triple> triples = inPlaceTriples(gpu.registry, gpu.device);
    for (const Triple &triple : compileAll(gpu, triples)) {
      INFO(triple.text());
      InPlaceRun run(gpu, triple);
      CHECK(run.promised() >= 1);
      auto apart = run.outputs(false);
      auto inPlace = run.outputs(true);
      REQUIRE(apart.size() == inPlace.size());
      for (size_t i = 0; i < apart.size(); ++i) {
        INFO("output ", i);
        CHECK(bool(apart[i] == inPlace[i]));
      }
    }
  }

} // TEST_SUITE
