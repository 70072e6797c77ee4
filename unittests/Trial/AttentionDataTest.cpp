// Attentions of data that must not be read, and of data with one answer: NaN
// behind sequences, empty sequences, keys that have all the weight. All of them
// must be right, on a real GPU.
#include "Families/Attention/AttentionProblem.h"
#include "Families/Families.h"
#include "Trial/Campaign.h"

#include <functional>
#include <limits>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// The family with another operand table: trials fill operands by it.
class ChangedData final : public KernelFamily {
public:
  using Change = std::function<void(OperandTable &)>;
  ChangedData(const KernelFamily &inner, Change change)
      : inner(inner), change(std::move(change)) {}

  llvm::StringRef name() const override { return inner.name(); }
  const Schema &problemSchema() const override { return inner.problemSchema(); }
  llvm::Expected<Problem> canonicalise(Values values) const override {
    return inner.canonicalise(std::move(values));
  }
  bool isEmpty(const Problem &problem) const override {
    return inner.isEmpty(problem);
  }
  OperandTable operands(const Problem &problem) const override {
    OperandTable table = inner.operands(problem);
    change(table);
    return table;
  }
  std::unique_ptr<Reference>
  reference(const Problem &problem, const DeviceModel &device) const override {
    return inner.reference(problem, device);
  }
  double flops(const Problem &problem) const override {
    return inner.flops(problem);
  }

private:
  const KernelFamily &inner;
  Change change;
};

/// A problem whose data is changed. Its text lacks sq.
struct Directed {
  const char *name, *problem;
  void (*change)(OperandTable &);
};

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

OperandInit &usual(OperandTable &table, int operand) {
  return table.operands[static_cast<size_t>(operand)].usual;
}

/// K and V: the last of each \p period rows is NaN.
void spoilRows(OperandTable &table, int period) {
  for (int operand : {AttentionOperand::K, AttentionOperand::V}) {
    usual(table, operand).rowPeriod = period;
    usual(table, operand).rowValue = kNaN;
  }
}

constexpr Directed kDirected[] = {
    {"NaN behind lengths", "batch=3 sk=129 heads=4 kvheads=2 kvlen=used lse=1",
     [](OperandTable &table) {
       spoilRows(table, 129);
       usual(table, AttentionOperand::KeyLengths).integers.most = 128;
     }},
    {"NaN at the end of pages",
     "batch=5 sk=64 heads=4 kvheads=1 kvlen=used pages=table page=64",
     [](OperandTable &table) {
       spoilRows(table, 64);
       usual(table, AttentionOperand::KeyLengths).integers.most = 63;
     }},
    {"NaN behind the last sequence",
     "batch=3 sk=100 heads=4 kvheads=2 kvlen=packed qlen=packed totalk=200 "
     "mask=causal",
     [](OperandTable &table) {
       spoilRows(table, 200);
       usual(table, AttentionOperand::KeyOffsets).integers.total = 199;
     }},
    {"no keys at all, and NaN in their place",
     "batch=3 sk=130 heads=4 kvheads=4 kvlen=used lse=1 sinks=1",
     [](OperandTable &table) {
       spoilRows(table, 1);
       usual(table, AttentionOperand::KeyLengths).integers.most = 0;
     }},
    {"no queries at all", "batch=3 sk=130 heads=4 kvheads=4 qlen=packed lse=1",
     [](OperandTable &table) {
       usual(table, AttentionOperand::QueryOffsets).integers.most = 0;
     }},
    {"a table that ends with the sequences",
     "batch=3 sk=512 heads=4 kvheads=2 kvlen=used pages=table page=64",
     [](OperandTable &table) {
       // Behind it lies -1.
       table.operands[AttentionOperand::PageTable].cols = 3;
       usual(table, AttentionOperand::KeyLengths).integers.most = 3 * 64;
     }},
    {"the greatest values of e4m3", "batch=2 sk=193 heads=4 kvheads=2 lse=1",
     [](OperandTable &table) {
       usual(table, AttentionOperand::K).deviation = 200;
       usual(table, AttentionOperand::V).deviation = 1000;
     }},
    {"equal keys", "batch=2 sk=193 heads=4 kvheads=2 lse=1",
     [](OperandTable &table) {
       usual(table, AttentionOperand::K).deviation = 0;
       usual(table, AttentionOperand::K).mean = 0.5;
     }},
    {"the last key has all the weight",
     "batch=2 sk=193 heads=4 kvheads=2 lse=1",
     [](OperandTable &table) {
       OperandInit &q = usual(table, AttentionOperand::Q);
       OperandInit &k = usual(table, AttentionOperand::K);
       q.mean = 1;
       q.deviation = 0;
       k.deviation = 0.125;
       k.rowPeriod = 193;
       k.rowValue = 8;
     }},
    {"any one key has all the weight",
     "batch=2 sk=1000 heads=8 kvheads=2 mask=causal lse=1",
     [](OperandTable &table) {
       usual(table, AttentionOperand::Q).deviation = 30;
       usual(table, AttentionOperand::K).deviation = 30;
     }},
};

constexpr const char *kDirectedTypes[] = {
    " d=64 dtype=bf16", " d=128 dtype=fp16", " d=128 dtype=bf16 kv=e4m3"};
constexpr int kDirectedQueries[] = {1, 5, 130};

/// The best configs for each of what \p directed stands for.
std::vector<Triple> triplesOf(const KernelFamily &family,
                              const DeviceModel &device,
                              const Directed &directed) {
  constexpr size_t kConfigs = 8;
  std::vector<Triple> triples;
  for (const char *type : kDirectedTypes)
    for (int sq : kDirectedQueries) {
      Problem problem = must(family.parseProblem(
          fmt::format("{} sq={}{}", directed.problem, sq, type)));
      for (std::string &config : bestConfigs(family, problem, device, kConfigs))
        triples.push_back({&family, problem, std::move(config)});
    }
  return triples;
}

void checkDirected(GpuTrials &gpu, const Directed &directed) {
  INFO(directed.name);
  const KernelFamily &family = **gpu.registry.get("attention");
  const ChangedData changed(family, directed.change);
  gpu.runner->releaseScratch(); // it may hold data of a family that is gone
  for (const Triple &triple :
       compileAll(gpu, triplesOf(family, gpu.device, directed))) {
    INFO(triple.text());
    TrialRequest request = gpu.request(family, triple.problem, {triple.config});
    request.family = &changed;
    request.options.measure = false;
    const TrialResult result = must(gpu.runner->run(request)).front();
    INFO(result.message);
    CHECK(nameOf(result.status).str() == "ok");
    if (!gpu.runner->isAlive())
      FAIL("the context is gone");
  }
}

} // namespace

TEST_CASE("directed data of attention is not what trials use otherwise") {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = **registry.get("attention");
  DeviceModel device = must(findDevice("h200-sxm"));
  for (const Directed &directed : kDirected) {
    CAPTURE(directed.name);
    CHECK(triplesOf(family, device, directed).size() >= 9);
    Problem problem = must(family.parseProblem(
        fmt::format("{} sq=5{}", directed.problem, kDirectedTypes[0])));
    // Not what it is without the change.
    const OperandTable before = family.operands(problem);
    const OperandTable after =
        ChangedData(family, directed.change).operands(problem);
    bool differs = false;
    for (size_t i = 0; i < before.operands.size(); ++i) {
      const OperandInit &a = before.operands[i].usual,
                        &b = after.operands[i].usual;
      differs |=
          a.rowPeriod != b.rowPeriod || a.deviation != b.deviation ||
          (after.operands[i].present && a.integers.most != b.integers.most);
    }
    CHECK(differs);
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: attentions touch nothing beyond their sequences") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (const Directed &directed : kDirected)
      checkDirected(gpu, directed);
  }

} // TEST_SUITE
