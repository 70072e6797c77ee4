//===- BoxFamily.h - a kernel family with three dynamic extents -----------===//
//
// "box" copies `batch` matrices of [rows, cols], y = x, fp32. All three sizes
// vary from call to call. Lengths of columns are in device memory: `typical` is
// their expected value. x may have room for more rows. Its kernels compile with
// any NVRTC and do nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Store/FakeFamily.h"

#include <algorithm>
#include <atomic>

namespace kiln::fake {

struct BoxField {
  enum : int { Batch, Rows, Cols, Typical, Depth, Room };
};

inline const Schema &boxSchema() {
  static const Schema schema(
      "box", TextStyle::Spaced,
      {Field{
           .key = "batch", .role = FieldRole::DynamicExtent, .defaultValue = 1},
       Field{.key = "rows", .role = FieldRole::DynamicExtent, .required = true},
       Field{.key = "cols", .role = FieldRole::DynamicExtent, .required = true},
       Field{.key = "typical", .role = FieldRole::Hint},
       Field{.key = "depth", .role = FieldRole::Extent, .required = true},
       Field{.key = "room", .role = FieldRole::Capacity}});
  return schema;
}

/// Tall tiles are for many rows, flat ones share the columns of few.
class BoxTemplate final : public Template {
public:
  BoxTemplate(std::string name, bool isFlat)
      : templateName(std::move(name)), isFlat(isFlat),
        schema(templateName, TextStyle::Dotted,
               {Field{.key = "t",
                      .role = FieldRole::Knob,
                      .required = true,
                      .minimum = 1,
                      .maximum = 4096}}) {}

  llvm::StringRef name() const override { return templateName; }
  const Schema &configSchema() const override { return schema; }

  void enumerate(const Problem &, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const override {
    for (int64_t tile : {8, 16, 24, 32, 48, 64, 96, 128, 192, 256})
      emit(Values(schema, {tile}));
  }

  std::optional<Rejection> prune(const Problem &, const Values &,
                                 const DeviceModel &) const override {
    return std::nullopt;
  }

  /// Waves of tiles. Few rows leave a tall tile empty.
  Estimate estimate(const Problem &problem, const Values &config,
                    const DeviceModel &) const override {
    const Values &r = problem.values;
    ++estimates;
    const int64_t tile = config[0];
    const int64_t cols =
        r[BoxField::Typical] ? r[BoxField::Typical] : r[BoxField::Cols];
    const int64_t tall = isFlat ? cols : r[BoxField::Rows];
    const int64_t wide = isFlat ? r[BoxField::Rows] : cols;
    const int64_t tiles =
        r[BoxField::Batch] * std::max<int64_t>((tall + tile - 1) / tile, 1);
    const int64_t waves = (tiles + kBlocks - 1) / kBlocks;
    Estimate estimate;
    estimate.totalNs = 1000 + static_cast<double>(waves * (tile + 20)) *
                                  static_cast<double>(wide) / kRate;
    estimate.bound = "dram";
    return estimate;
  }

  CandidateClass classOf(const Problem &, const Values &) const override {
    return {isFlat ? 1U : 0U, isFlat ? 1 : 0};
  }
  Derivation explain(const Problem &, const Values &,
                     const DeviceModel &) const override {
    return {};
  }

  Plan plan(const Problem &problem, const Values &config,
            const DeviceModel &device) const override {
    const Values &r = problem.values;
    Plan plan;
    plan.problem = r;
    plan.config = config;
    UnitParts unit;
    unit.name = "kiln_box_" + templateName;
    unit.source = fakeText(fmt::format("// {}.t{}\n", templateName, config[0]));
    unit.arch = device.archName();
    plan.kernels.push_back(TranslationUnit(std::move(unit)));
    plan.sharedBytes.push_back(0);
    if (isFlat)
      plan.workspace.scratchBytes = static_cast<uint64_t>(
          r[BoxField::Batch] * r[BoxField::Rows] * scratchPerRow);
    plan.binder = std::make_shared<FakeBinder>(
        1, static_cast<int>(config[0]), 1, WorkspaceLayout{}, FakeOptions());
    return plan;
  }

  int64_t scratchPerRow = 4;
  mutable std::atomic<size_t> estimates{0}; ///< so far

private:
  static constexpr int64_t kBlocks = 132;
  static constexpr double kRate = 50;

  std::string templateName;
  bool isFlat;
  Schema schema;
};

class BoxFamily final : public KernelFamily {
public:
  BoxFamily() {
    for (auto [place, name] : {std::pair(&tall, "tall"), {&flat, "flat"}}) {
      auto made = std::make_unique<BoxTemplate>(name, place == &flat);
      *place = made.get();
      addTemplate(std::move(made));
    }
  }

  llvm::StringRef name() const override { return "box"; }
  const Schema &problemSchema() const override { return boxSchema(); }
  int64_t signaturePeriod() const override { return 1; }

  llvm::Expected<Problem> canonicalise(Values values) const override {
    const int64_t cols = values[BoxField::Cols];
    if (values[BoxField::Typical] > cols)
      return makeError(ErrorCode::InvalidArgument,
                       "box: typical={} is above cols={}",
                       values[BoxField::Typical], cols);
    if (values[BoxField::Typical] == cols)
      values.set(BoxField::Typical, 0);
    if (values[BoxField::Room] == roomOf(values))
      values.set(BoxField::Room, 0);
    Problem problem;
    problem.signature = Values(signatures);
    problem.values = std::move(values);
    return problem;
  }
  /// Other families have something to write even without columns.
  bool isEmpty(const Problem &problem) const override {
    return roomOf(problem.values) == 0;
  }

  OperandTable operands(const Problem &problem) const override {
    const Values &values = problem.values;
    OperandSpec x;
    x.name = "x";
    x.rows = std::max(values[BoxField::Room], roomOf(values));
    x.cols = x.leadingDimension = values[BoxField::Cols];
    OperandSpec y = x;
    y.name = "y";
    y.role = OperandRole::Out;
    y.rows = roomOf(values);
    OperandTable table;
    table.operands = {x, y};
    return table;
  }

  std::unique_ptr<Reference>
  reference(const Problem &, const DeviceModel &device) const override {
    return std::make_unique<FakeReference>(device, FakeOptions());
  }
  Peer peer(const Problem &) const override { return Peer::Stream; }
  double flops(const Problem &problem) const override {
    return static_cast<double>(roomOf(problem.values) *
                               problem.values[BoxField::Cols]);
  }

  BoxTemplate *tall = nullptr, *flat = nullptr;

private:
  static int64_t roomOf(const Values &values) {
    return values[BoxField::Batch] * values[BoxField::Rows];
  }

  Schema signatures{"box_signature", TextStyle::Spaced, {Field{.key = "none"}}};
};

/// "box rows=... cols=... depth=1" or with more of its keys; must parse.
inline Problem makeBox(const BoxFamily &family, llvm::StringRef text) {
  return must(family.parseProblem(text));
}

} // namespace kiln::fake
