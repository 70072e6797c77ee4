//===- FakeFamily.h - a kernel family without kernels ---------------------===//
//
// "fake" copies a matrix: y = x, [m, n] fp32, m dynamic; on demand also to a
// second output, z = 100 x. Its translation units compile with any NVRTC and do
// nothing; under the stand-in driver a callback may play the kernel: the first
// parameter of each is a FakeParams, and the text of each module holds the line
// "// <template>.t<tile>". Members of FakeOptions change its behaviour for a
// test.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/OperandLayout.h"
#include "Kernel/Registry.h"
#include "Kernel/Space.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::fake {

/// The value of an Expected that must not fail; llvm::cantFail checks nothing
/// in a release.
template <class T> T must(llvm::Expected<T> value) {
  if (!value)
    FAIL(llvm::toString(value.takeError()));
  return std::move(*value);
}
inline void must(llvm::Error error) {
  if (error)
    FAIL(llvm::toString(std::move(error)));
}

/// The parameter of every fake kernel.
struct FakeParams {
  DeviceAddress x = 0, y = 0;
  int64_t m = 0, n = 0;
  DeviceAddress workspace = 0, scratch = 0;
  int32_t tile = 0, split = 0, smCount = 0;
  /// The reference's output: rows [rowBegin, rowEnd) as doubles and floats.
  int64_t rowBegin = 0, rowEnd = 0;
  DeviceAddress values = 0, bounds = 0;
  /// The second output, which is int8 or fp32.
  DeviceAddress z = 0;
  int64_t ldz = 0, zIsInt8 = 0, zIsRead = 0;
  int64_t operand = 0; ///< that the reference computes
  /// For the second output: the rows of a plane, the planes, and the number of
  /// all rows that are defined.
  int64_t zRows = 0, zPlanes = 1, zPlaneStride = 0, zDefined = 0;

  void setSecond(const OperandArgument &z, int64_t planes, int64_t undefined) {
    this->z = z.address;
    ldz = z.leadingDimension;
    zRows = m / planes;
    zPlanes = planes;
    zPlaneStride = z.planeStride;
    zDefined = m - undefined;
  }
  int64_t zOffset(int64_t row, int64_t column) const {
    const RowLayout layout{n, {zRows, ldz}, {zPlanes, zPlaneStride}, {}};
    return layout.offsetOf(row) + column;
  }
};

/// The text of a kernel that does nothing. It holds the lines \p what, which
/// distinguish it from others, in a literal: comments are not part of its key.
inline std::string fakeText(const std::string &what) {
  return fmt::format("constexpr const char *kWhat = R\"(\n{})\";\n"
                     "struct Params {{ long long words[{}]; }};\n"
                     "extern \"C\" __global__ void "
                     "kilnEntry(const __grid_constant__ Params params) {{}}\n",
                     what, sizeof(FakeParams) / 8);
}

struct FakeOptions {
  /// Predicted ns of a config's text; the default prefers fast.t64, then fast
  /// tiles by their distance, pair at 3000 and more, plain at 20000.
  std::function<double(const std::string &config)> predictNs;
  /// Like `predictNs`, if the time depends on m.
  std::function<double(const std::string &config, int64_t m)> predictAtNs;
  double flops = 0; ///< of every problem
  /// Tiles of the template fast.
  std::vector<int> fastTiles = {16, 32, 64, 128, 256, 512};
  /// A comment that every text has, for FakeNvrtc's failWhen and delayWhen.
  std::string comment;
  uint64_t zeroedBytes = 0, scratchBytes = 0, scratchPerRow = 0;
  /// The one config that needs them; empty: all do.
  std::string needsWorkspace;
  uint32_t sharedBytes = 0;
  bool withTensorMap = false;
  /// A second output, z, of this type: fp32 or int8.
  std::optional<DType> second;
  bool accumulates = false; ///< z, fp32, is added to
  /// For z: its planes, which interleave, with gaps, and share the rows of y;
  /// and the number of last rows that are not defined.
  int64_t planes = 1, undefinedRows = 0;
  int64_t gapZ = 3; ///< elements behind a row of z
  /// Behind z, an input of so many of these integers.
  std::optional<IntegerInit> integers;
  int64_t integerCount = 0;
  OperandInit usual, outliers; ///< of x
};

inline constexpr int kFieldM = 0, kFieldN = 1, kFieldType = 2;
inline constexpr int kOperandX = 0, kOperandY = 1, kOperandZ = 2,
                     kOperandIntegers = 3;
/// z is x times this.
inline constexpr int kFactorZ = 100;

inline const Schema &problemSchema() {
  static const FieldName kTypes[] = {
      {static_cast<int64_t>(DType::FP32), "fp32"},
      {static_cast<int64_t>(DType::FP16), "fp16"}};
  static const Schema schema(
      "fake", TextStyle::Spaced,
      {Field{.key = "m", .role = FieldRole::DynamicExtent, .required = true},
       Field{.key = "n", .role = FieldRole::Extent, .required = true},
       Field{.key = "type",
             .kind = FieldKind::Enum,
             .role = FieldRole::Signature,
             .defaultValue = static_cast<int64_t>(DType::FP32),
             .names = kTypes}});
  return schema;
}

inline const Schema &signatureSchema() {
  static const Schema schema(
      "fake_signature", TextStyle::Spaced,
      {Field{.key = "type", .role = FieldRole::Signature, .required = true}});
  return schema;
}

class FakeBinder final : public Binder {
public:
  FakeBinder(int kernels, int tile, int split, const WorkspaceLayout &layout,
             const FakeOptions &options)
      : kernels(kernels), tile(tile), split(split), layout(layout),
        sharedBytes(options.sharedBytes),
        zIsInt8(options.second == DType::INT8), zIsRead(options.accumulates),
        planes(options.planes), undefinedRows(options.undefinedRows) {}

  void bind(const Arguments &arguments, const LaunchContext &context,
            LaunchSpec &spec) const noexcept override {
    FakeParams params;
    params.x = arguments.operands[kOperandX].address;
    params.y = arguments.operands[kOperandY].address;
    params.m = arguments.problem[kFieldM];
    params.n = arguments.problem[kFieldN];
    params.setSecond(arguments.operands[kOperandZ], planes, undefinedRows);
    params.zIsInt8 = zIsInt8;
    params.zIsRead = zIsRead;
    params.workspace = context.zeroed;
    params.scratch = context.scratch;
    params.tile = tile;
    params.split = split;
    params.smCount = context.smCount;
    context.zero(layout.zeroedBytes, spec);
    for (int i = 0; i < kernels; ++i) {
      KernelStep &step = spec.addKernel(params);
      step.function = static_cast<uint32_t>(i);
      step.grid = {static_cast<uint32_t>((params.m + tile - 1) / tile), 1, 1};
      step.block = {128, 1, 1};
      step.sharedBytes = sharedBytes;
    }
  }

private:
  int kernels, tile, split;
  WorkspaceLayout layout;
  uint32_t sharedBytes;
  bool zIsInt8, zIsRead;
  int64_t planes, undefinedRows;
};

/// One template: a tile, a split that costs no compilation, some kernels.
class FakeTemplate final : public Template {
public:
  FakeTemplate(std::string name, std::vector<int> tiles, int kernels,
               const FakeOptions &options)
      : templateName(std::move(name)), tiles(std::move(tiles)),
        kernels(kernels), options(options),
        schema(templateName, TextStyle::Dotted,
               {Field{.key = "t",
                      .role = FieldRole::Knob,
                      .required = true,
                      .minimum = 1,
                      .maximum = 4096},
                Field{.key = "s",
                      .role = FieldRole::RuntimeKnob,
                      .defaultValue = 1,
                      .minimum = 1,
                      .maximum = 16}}) {}

  llvm::StringRef name() const override { return templateName; }
  const Schema &configSchema() const override { return schema; }

  void enumerate(const Problem &, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const override {
    for (int tile : tiles) {
      Values config(schema);
      config.set("t", tile);
      emit(std::move(config));
    }
  }

  std::optional<Rejection> prune(const Problem &, const Values &config,
                                 const DeviceModel &) const override {
    if (config.get("t") > 256)
      return Rejection{PruneReason::SharedMemory,
                       static_cast<double>(config.get("t")), 256, "rows"};
    return std::nullopt;
  }

  Estimate estimate(const Problem &problem, const Values &config,
                    const DeviceModel &) const override {
    double ns = options.predictNs ? options.predictNs(config.text())
                                  : defaultNs(config);
    if (options.predictAtNs)
      ns = options.predictAtNs(config.text(), problem.values[kFieldM]);
    Estimate estimate;
    estimate.totalNs = ns;
    estimate.bound = "dram";
    return estimate;
  }

  CandidateClass classOf(const Problem &, const Values &) const override {
    int rank = kernels > 1 ? 1 : isGeneric() ? 2 : 0;
    return {static_cast<uint64_t>(rank), rank};
  }

  Derivation explain(const Problem &, const Values &,
                     const DeviceModel &) const override {
    return {};
  }

  Plan plan(const Problem &problem, const Values &config,
            const DeviceModel &device) const override {
    Plan plan;
    plan.problem = problem.values;
    plan.config = config;
    for (int i = 0; i < kernels; ++i) {
      UnitParts unit;
      unit.name = "kiln_fake_" + templateName;
      unit.source = fakeText(fmt::format(
          "// {}.t{}\n// kernel {} type {} {}\n", templateName, config.get("t"),
          i, problem.signature.get("type"), options.comment));
      unit.arch = device.archName();
      unit.maySpill = isGeneric();
      plan.kernels.push_back(TranslationUnit(std::move(unit)));
      plan.sharedBytes.push_back(options.sharedBytes);
    }
    if (options.withTensorMap) {
      TensorMapSpec map;
      map.elementType = static_cast<int32_t>(DType::FP32);
      map.rank = 2;
      map.dims[0] = 64;
      map.dims[1] = 64;
      map.strides[0] = 256;
      map.box[0] = map.box[1] = 16;
      plan.tensorMaps.push_back(map);
    }
    if (options.needsWorkspace.empty() ||
        options.needsWorkspace == config.text())
      plan.workspace = {options.zeroedBytes,
                        options.scratchBytes +
                            options.scratchPerRow *
                                static_cast<uint64_t>(problem.values[kFieldM])};
    plan.binder = std::make_shared<FakeBinder>(
        kernels, static_cast<int>(config.get("t")),
        static_cast<int>(config.get("s")), plan.workspace, options);
    return plan;
  }

  bool isGeneric() const override { return templateName == "plain"; }

private:
  double defaultNs(const Values &config) const {
    double tile = static_cast<double>(config.get("t"));
    double base = isGeneric() ? 20000 : kernels > 1 ? 3000 : 1000;
    return base + 200 * std::abs(std::log2(tile / 64));
  }

  std::string templateName;
  std::vector<int> tiles;
  int kernels;
  const FakeOptions &options;
  Schema schema;
};

/// The text of its module holds the line "// reference".
class FakeReference final : public Reference {
public:
  FakeReference(const DeviceModel &device, const FakeOptions &options)
      : unit(makeUnit(device)), zIsRead(options.accumulates),
        planes(options.planes), undefinedRows(options.undefinedRows) {}
  const TranslationUnit &translationUnit() const override { return unit; }
  void bind(const Arguments &arguments, const ReferencePart &part,
            LaunchSpec &spec) const override {
    FakeParams params;
    params.x = arguments.operands[kOperandX].address;
    params.m = arguments.problem[kFieldM];
    params.n = arguments.problem[kFieldN];
    params.rowBegin = part.rowBegin;
    params.rowEnd = part.rowEnd;
    params.values = part.values;
    params.bounds = part.bounds;
    params.operand = part.operand;
    params.setSecond(arguments.operands[kOperandZ], planes, undefinedRows);
    params.zIsRead = zIsRead;
    KernelStep &step = spec.addKernel(params);
    step.block = {128, 1, 1};
  }

private:
  static TranslationUnit makeUnit(const DeviceModel &device) {
    UnitParts parts;
    parts.name = "kiln_fake_reference";
    parts.source = fakeText("// reference\n");
    parts.arch = device.archName();
    return TranslationUnit(std::move(parts));
  }

  TranslationUnit unit;
  bool zIsRead;
  int64_t planes, undefinedRows;
};

/// Templates fast (t16 ... t256, and t512, which is pruned), pair (t64, t128;
/// two kernels) and plain (t32, generic). Options may change until the family
/// is used.
class FakeFamily final : public KernelFamily {
public:
  explicit FakeFamily(FakeOptions given = {}) : options(std::move(given)) {
    addTemplate(
        std::make_unique<FakeTemplate>("fast", options.fastTiles, 1, options));
    addTemplate(std::make_unique<FakeTemplate>(
        "pair", std::vector<int>{64, 128}, 2, options));
    addTemplate(std::make_unique<FakeTemplate>("plain", std::vector<int>{32}, 1,
                                               options));
  }

  llvm::StringRef name() const override { return "fake"; }
  const Schema &problemSchema() const override { return fake::problemSchema(); }

  llvm::Expected<Problem> canonicalise(Values values) const override {
    if (values[kFieldN] > 65536)
      return makeError(ErrorCode::Unsupported, "fake: n={} is over 65536",
                       values[kFieldN]);
    Problem problem;
    problem.signature = Values(signatureSchema());
    problem.signature.set("type", values[kFieldType]);
    problem.values = std::move(values);
    return problem;
  }

  bool isEmpty(const Problem &problem) const override {
    return problem.values[kFieldM] == 0 || problem.values[kFieldN] == 0;
  }

  OperandTable operands(const Problem &problem) const override {
    OperandTable table;
    OperandSpec x;
    x.name = "x";
    x.rows = problem.values[kFieldM];
    x.cols = x.leadingDimension = problem.values[kFieldN];
    OperandSpec y = x;
    x.usual = options.usual;
    x.outliers = options.outliers;
    y.name = "y";
    y.role = OperandRole::Out;
    table.operands = {x, y};
    if (options.second)
      table.operands.push_back(secondOutput(y));
    if (options.integers)
      addIntegers(table);
    return table;
  }

  std::unique_ptr<Reference>
  reference(const Problem &, const DeviceModel &device) const override {
    return std::make_unique<FakeReference>(device, options);
  }

  /// No library computes it: bench compares it with the copy baseline.
  Peer peer(const Problem &) const override { return Peer::Stream; }
  double flops(const Problem &) const override { return options.flops; }
  double compulsoryBytes(const Problem &problem) const override {
    return 8.0 * problem.values[kFieldM] * problem.values[kFieldN];
  }

  FakeOptions options;

private:
  OperandSpec secondOutput(OperandSpec z) const {
    z.name = "z";
    z.type = *options.second;
    z.leadingDimension += options.gapZ;
    if (options.planes > 1) {
      z.rows /= options.planes;
      z.planes = options.planes;
      z.planeStride = z.leadingDimension;
      z.leadingDimension = z.planes * z.planeStride + 1;
    }
    if (options.accumulates)
      z.role = OperandRole::InOut;
    if (z.type == DType::INT8)
      z.tolerance.absolute = 0.501;
    return z;
  }
  void addIntegers(OperandTable &table) const {
    OperandSpec absent;
    absent.present = false;
    table.operands.resize(kOperandIntegers, absent);
    OperandSpec integers;
    integers.name = "integers";
    integers.type = DType::INT32;
    integers.rows = 1;
    integers.cols = integers.leadingDimension = options.integerCount;
    integers.usual.integers = integers.outliers.integers = *options.integers;
    table.operands.push_back(integers);
  }
};

/// "fake m=... n=..." or with more of its keys; must parse.
inline Problem makeProblem(const FakeFamily &family, llvm::StringRef text) {
  return must(family.parseProblem(text));
}

/// The plan of a config's text, e.g. "fast.t64"; must parse.
inline Plan makePlan(const FakeFamily &family, const Problem &problem,
                     llvm::StringRef config, const DeviceModel &device) {
  KernelFamily::NamedConfig named = must(family.parseConfig(config));
  return named.tmpl->plan(problem, named.config, device);
}

} // namespace kiln::fake
