// Kernels that are wrong on a real GPU, each in its own way, are found out.
#include "Trial/GpuTrials.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

/// The code of each tile's kernel for `in` and `out` at element i of count.
struct Way {
  int tile;
  const char *body;
  TrialStatus status;
  const char *second = "*at = rounded;"; ///< of z, int8
};
constexpr Way kWays[] = {
    {1, "out[i] = in[i];", TrialStatus::Ok},
    {2, "out[i] = in[i] + (i == 77 ? 1.0f : 0.0f);", TrialStatus::Wrong},
    {3, "out[i] = in[i]; if (i == 0) out[count] = 1.0f;",
     TrialStatus::OutOfBounds},
    {4, "out[i] = in[i]; if (i == 0) ((char *)out)[-1] = 1;",
     TrialStatus::OutOfBounds},
    {5, "", TrialStatus::NotWritten, ""},
    {6, "if (i + 1 < count) out[i] = in[i];", TrialStatus::NotWritten},
    {7,
     "unsigned long long now; "
     "asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now)); "
     "out[i] = in[i] * (1.0f + 1e-5f * ((now >> 5) % 64));",
     TrialStatus::Wrong},
    {8, "out[i] = in[i];", TrialStatus::Wrong,
     "*at = i != 77 ? rounded : rounded > 0 ? rounded - 2 : rounded + 2;"},
    {9, "out[i] = in[i];", TrialStatus::NotWritten,
     "if (i + 1 < count) *at = rounded;"},
    {10, "out[i] = in[i];", TrialStatus::OutOfBounds,
     "*at = rounded; if (i + 1 == params.n) at[1] = 0;"},
};

constexpr const char *kText = R"(
struct Params {{
  const float *x; float *y;
  long long m, n;
  unsigned long long workspace, scratch;
  int tile, split, smCount;
  long long rowBegin, rowEnd;
  double *values, *bounds;
  void *z;
  long long ldz, zIsInt8, zIsRead, operand;
  long long zRows, zPlanes, zPlaneStride, zDefined;
}};
extern "C" __global__ void kilnEntry(const __grid_constant__ Params params) {{
  {}
}}
)";

TranslationUnit makeUnit(const char *name, const std::string &body,
                         const DeviceModel &device) {
  UnitParts unit;
  unit.name = name;
  unit.source = fmt::format(kText, body);
  unit.arch = device.archName();
  return TranslationUnit(std::move(unit));
}

class WrongTemplate final : public Template {
public:
  WrongTemplate()
      : schema("wrong", TextStyle::Dotted,
               {Field{.key = "t",
                      .role = FieldRole::Knob,
                      .required = true,
                      .minimum = 1,
                      .maximum = std::size(kWays)}}) {}

  llvm::StringRef name() const override { return "wrong"; }
  const Schema &configSchema() const override { return schema; }
  void enumerate(const Problem &, const DeviceModel &,
                 llvm::function_ref<void(Values)>) const override {}
  std::optional<Rejection> prune(const Problem &, const Values &,
                                 const DeviceModel &) const override {
    return std::nullopt;
  }
  Estimate estimate(const Problem &, const Values &,
                    const DeviceModel &) const override {
    return {};
  }
  CandidateClass classOf(const Problem &, const Values &) const override {
    return {};
  }
  Derivation explain(const Problem &, const Values &,
                     const DeviceModel &) const override {
    return {};
  }
  Plan plan(const Problem &problem, const Values &config,
            const DeviceModel &device) const override {
    const Way &way = kWays[config.get("t") - 1];
    Plan plan;
    plan.problem = problem.values;
    plan.config = config;
    plan.kernels.push_back(makeUnit(
        "kiln_wrong",
        fmt::format("const float *in = params.x; float *out = params.y; "
                    "long long count = params.m * params.n; "
                    "for (long long i = blockIdx.x * 128 + threadIdx.x; "
                    "i < count; i += gridDim.x * 128) {{ {} "
                    "signed char *at = (signed char *)params.z + "
                    "i / params.n * params.ldz + i % params.n; "
                    "int rounded = max(-127, min(127, "
                    "__float2int_rn(100.0f * in[i]))); {} }}",
                    way.body, way.second),
        device));
    plan.sharedBytes.push_back(0);
    FakeOptions options;
    options.second = DType::INT8;
    plan.binder =
        std::make_shared<FakeBinder>(1, way.tile, 1, plan.workspace, options);
    return plan;
  }

private:
  Schema schema;
};

class WrongReference final : public Reference {
public:
  explicit WrongReference(const DeviceModel &device)
      : unit(makeUnit("kiln_wrong_reference",
                      "long long begin = params.rowBegin * params.n, "
                      "end = params.rowEnd * params.n; "
                      "for (long long i = begin + threadIdx.x; i < end; "
                      "i += 128) { double value = params.x[i]; "
                      "if (params.operand == 2) value = "
                      "fmax(-127.0, fmin(127.0, 100 * value)); "
                      "params.values[i - begin] = value; "
                      "params.bounds[i - begin] = fabs(value); }",
                      device)),
        launches(device, FakeOptions()) {}
  const TranslationUnit &translationUnit() const override { return unit; }
  void bind(const Arguments &arguments, const ReferencePart &part,
            LaunchSpec &spec) const override {
    launches.bind(arguments, part, spec);
  }

private:
  TranslationUnit unit;
  FakeReference launches; ///< its geometry and parameters
};

/// Copies a matrix: y = x, [m, n], and z = 100 x rounded to int8.
class WrongFamily final : public KernelFamily {
public:
  WrongFamily() { addTemplate(std::make_unique<WrongTemplate>()); }
  llvm::StringRef name() const override { return fake.name(); }
  const Schema &problemSchema() const override { return fake.problemSchema(); }
  llvm::Expected<Problem> canonicalise(Values values) const override {
    return fake.canonicalise(std::move(values));
  }
  bool isEmpty(const Problem &problem) const override {
    return fake.isEmpty(problem);
  }
  OperandTable operands(const Problem &problem) const override {
    OperandTable table = fake.operands(problem);
    table.operands[kOperandY].tolerance.relative = 1e-2;
    return table;
  }
  std::unique_ptr<Reference>
  reference(const Problem &, const DeviceModel &device) const override {
    return std::make_unique<WrongReference>(device);
  }
  double flops(const Problem &) const override { return 0; }
  double compulsoryBytes(const Problem &problem) const override {
    return fake.compulsoryBytes(problem);
  }

private:
  static FakeOptions withSecond() {
    FakeOptions options;
    options.second = DType::INT8;
    return options;
  }
  FakeFamily fake{withSecond()};
};

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("wrong kernels are rejected, each with its reason") {
    Registry registry;
    must(registry.add(std::make_unique<WrongFamily>()));
    GpuTrials gpu(std::move(registry));
    const KernelFamily &family = **gpu.registry.get("fake");
    Problem problem = must(family.parseProblem("fake m=61 n=67"));
    std::vector<std::string> configs;
    for (const Way &way : kWays)
      configs.push_back(fmt::format("wrong.t{}", way.tile));
    TrialRequest request = gpu.request(family, problem, configs);
    for (TrialValidation validation :
         {TrialValidation::All, TrialValidation::MayWin}) {
      request.options.validation = validation;
      request.options.measure = validation == TrialValidation::All;
      auto results = must(gpu.runner->run(request));
      for (size_t i = 0; i < results.size(); ++i) {
        CAPTURE(results[i].config);
        CAPTURE(results[i].message);
        CHECK(nameOf(results[i].status).str() == nameOf(kWays[i].status).str());
        CHECK(results[i].validated == (kWays[i].status == TrialStatus::Ok));
        bool namesSecond = results[i].message.starts_with("z: ");
        CHECK(namesSecond == (kWays[i].tile == 8 || kWays[i].tile == 9));
      }
    }
  }

} // TEST_SUITE
