//===- NaiveAttention.cpp - the naive template ----------------------------===//
//
// A warp for each row of queries of a head: slow, but obviously right, and
// always available.
//
//===----------------------------------------------------------------------===//
#include "Families/Attention/AttentionTemplate.h"
#include "Families/Attention/LaunchedAttention.h"
#include "attention/NaiveAttentionConfig.h"

namespace kiln {

namespace {

class NaiveAttention final : public AttentionTemplate<NaiveAttentionConfig> {
public:
  NaiveAttention()
      : AttentionTemplate({"attention/NaiveAttention.cuh", "AttentionSignature",
                           "NaiveAttentionConfig", "AttentionParams",
                           "naiveAttention"}) {}

  bool isGeneric() const override { return true; }

protected:
  void forEachConfig(const AttentionProblem &, const AttentionSignature &,
                     const DeviceModel &,
                     Emit<NaiveAttentionConfig> emit) const override {
    emit(NaiveAttentionConfig{});
  }

  CandidateClass classOfConfig(const NaiveAttentionConfig &) const override {
    constexpr int kLast = 1000;
    return {.key = kLast, .rank = kLast, .ranksByTime = true};
  }

  std::optional<Rejection> checkLimits(const AttentionProblem &,
                                       const AttentionSignature &,
                                       const NaiveAttentionConfig &,
                                       const DeviceModel &) const override {
    return std::nullopt;
  }

  std::optional<Rejection> checkFixedSplit(const AttentionProblem &,
                                           const AttentionSignature &,
                                           const NaiveAttentionConfig &,
                                           const DeviceModel &) const override {
    return std::nullopt;
  }

  Estimate predict(const AttentionProblem &problem,
                   const NaiveAttentionConfig &,
                   const DeviceModel &device) const override {
    return estimateNaiveAttention(problem, device);
  }
  Prediction<Figure> derive(const AttentionProblem &problem,
                            const NaiveAttentionConfig &,
                            const DeviceModel &device,
                            Derivation &steps) const override {
    return explainNaiveAttention(problem, device, steps);
  }

  void completePlan(const AttentionProblem &,
                    const AttentionSignature &signature,
                    const NaiveAttentionConfig &config, const DeviceModel &,
                    Plan &plan) const override {
    plan.binder =
        makeBinder([config, scaleByDefault = defaultScale(signature.headDim)](
                       const Arguments &arguments, const LaunchContext &,
                       LaunchSpec &spec) {
          AttentionProblem p = readLaunchedAttention(arguments.problem);
          KernelStep &step = spec.addKernelOf([&] {
            return makeAttentionParams(p, arguments, scaleByDefault);
          });
          double rows = double(p.batch) * double(p.heads) * double(p.queries);
          step.grid.x = static_cast<uint32_t>(config.blocks(rows));
          step.block.x = static_cast<uint32_t>(config.threads());
        });
  }
};

} // namespace

std::unique_ptr<Template> makeNaiveAttentionTemplate() {
  return std::make_unique<NaiveAttention>();
}

} // namespace kiln
