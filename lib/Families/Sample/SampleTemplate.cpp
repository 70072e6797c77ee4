//===- SampleTemplate.cpp - parameters, and the space of each template ----===//
#include "Families/Sample/SampleTemplate.h"

#include "sample/BlockSampleConfig.h"
#include "sample/ClusterSampleConfig.h"
#include "sample/SpreadSampleConfig.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include <algorithm>

namespace kiln {

SampleParams makeSampleParams(const SampleProblem &p,
                              const Arguments &arguments) {
  using Operand = SampleOperand;
  SampleParams params;
  auto set = [&]<class T>(T *&pointer, int index, bool isThere = true) {
    if (isThere)
      pointer = reinterpret_cast<T *>(arguments.operands[index].address);
  };
  set(params.logits, Operand::Logits);
  params.ld = arguments.operands[Operand::Logits].leadingDimension;
  params.vocab = static_cast<int>(p.vocab);
  params.scale = static_cast<float>(arguments.scalars[SampleScalar::Scale]);
  params.softcap = static_cast<float>(arguments.scalars[SampleScalar::Softcap]);
  if (p.softcap != 0)
    params.inverseCap = 1 / params.softcap;
  set(params.tokens, Operand::Tokens);
  params.isInt64 = p.isInt64;
  params.advances = p.advances;
  set(params.temperature, Operand::Temperature, p.temperature);
  set(params.seeds, Operand::Seeds, p.temperature);
  set(params.positions, Operand::Positions, p.hasPositions());
  set(params.lengths, Operand::Lengths, p.lengths);
  params.isJoint = p.isJoint;
  set(params.topK, Operand::TopK, p.topK);
  set(params.topP, Operand::TopP, p.topP);
  set(params.minP, Operand::MinP, p.minP);
  set(params.allowed, Operand::Allowed, p.allowed);
  set(params.repetition, Operand::Repetition, p.repetition);
  set(params.frequency, Operand::Frequency, p.frequency);
  set(params.presence, Operand::Presence, p.presence);
  if (p.hasPenalties()) {
    set(params.history, Operand::History);
    set(params.historyBegins, Operand::HistoryBegins);
    set(params.historyEnds, Operand::HistoryEnds);
    set(params.promptLengths, Operand::PromptLengths);
    params.historyCount = p.historyCount;
  }
  set(params.logprobs, Operand::Logprobs, p.logprobs);
  params.topCount = static_cast<int>(p.topCount);
  set(params.topTokens, Operand::TopTokens, p.topCount > 0);
  set(params.topLogprobs, Operand::TopLogprobs, p.topCount > 0);
  return params;
}

/// Vectors that a thread has in flight at once, for parts of \p part tokens:
/// the least that hold all of the part, and others, of which each has work.
static llvm::SmallVector<int, 4> itemsFor(const SampleProblem &p, int64_t part,
                                          int threads) {
  llvm::SmallVector<int, 4> all;
  const int64_t ofThread = ceilDiv(part, packTokens(p) * threads);
  for (int items : {4, 2, 8, 1})
    if (items / 2 < ofThread && items <= mostSampleItems(signatureOf(p)))
      all.push_back(items);
  return all;
}

//===----------------------------------------------------------------------===//
// A row in a block
//===----------------------------------------------------------------------===//

namespace {

class BlockSampleTemplate final
    : public SampleTemplate<BlockSampleTemplate, BlockSampleConfig> {
public:
  BlockSampleTemplate()
      : SampleTemplate({"sample/BlockSample.cuh", "SampleSignature",
                        "BlockSampleConfig", "SampleParams", "blockSample"}) {}

  bool isGeneric() const override { return true; }

  CandidateClass classOfConfig(const BlockSampleConfig &config) const override {
    constexpr int kBlock = 1;
    return {classKey({kBlock, config.blockThreads}), 2};
  }

protected:
  void forEachConfig(const SampleProblem &p, const DeviceModel &,
                     Emit<BlockSampleConfig> emit) const override {
    for (int threads : {1024, 512, 256})
      for (int items : itemsFor(p, p.vocab, threads))
        emit({threads, items});
  }
};

//===----------------------------------------------------------------------===//
// A row in a cluster
//===----------------------------------------------------------------------===//

class ClusterSampleTemplate final
    : public SampleTemplate<ClusterSampleTemplate, ClusterSampleConfig> {
public:
  ClusterSampleTemplate()
      : SampleTemplate({"sample/ClusterSample.cuh", "SampleSignature",
                        "ClusterSampleConfig", "SampleParams",
                        "clusterSample"}) {}

  CandidateClass
  classOfConfig(const ClusterSampleConfig &config) const override {
    constexpr int kCluster = 2;
    return {classKey({kCluster, config.cluster, config.slice > 0}), 1};
  }

protected:
  void forEachConfig(const SampleProblem &p, const DeviceModel &device,
                     Emit<ClusterSampleConfig> emit) const override {
    if (!device.hasClusters())
      return;
    const bool walksAgain = workOf(p).walks > 0;
    for (int cluster : {8, 4, 2}) {
      // Smaller parts leave threads of the smallest block without a vector.
      constexpr int64_t kLeastThreads = 256;
      const int64_t part = partTokens(p, cluster);
      if (part < kLeastThreads * packTokens(p))
        continue;
      const int64_t slice =
          ceilDiv(part, int64_t(ClusterSampleConfig::kSliceTokens));
      for (int threads : {1024, 512, 256})
        for (int items : itemsFor(p, part, threads)) {
          // A row that is walked over once need not be kept.
          if (walksAgain && slice <= ClusterSampleConfig::kMostSlice)
            emit({threads, items, cluster, static_cast<int>(slice)});
          emit({threads, items, cluster, 0});
        }
    }
  }

  std::optional<Rejection>
  checkShape(const SampleProblem &p, const ClusterSampleConfig &config,
             const DeviceModel &device) const override {
    constexpr int kFirstCapability = 90;
    if (!device.hasClusters())
      return Rejection{PruneReason::Architecture,
                       double(device.computeCapability()), kFirstCapability};
    if (config.slice == 0 || config.slice > ClusterSampleConfig::kMostSlice ||
        config.cluster < 1)
      return std::nullopt;
    const int64_t part = partTokens(p, config.cluster);
    if (config.keptTokens() >= part)
      return std::nullopt;
    constexpr int kLogitBytes = 4;
    return Rejection{PruneReason::SharedMemory, double(part) * kLogitBytes,
                     double(config.keptTokens()) * kLogitBytes, "B of logits"};
  }
};

//===----------------------------------------------------------------------===//
// A row in many blocks
//===----------------------------------------------------------------------===//

class SpreadSampleTemplate final
    : public SampleTemplate<SpreadSampleTemplate, SpreadSampleConfig> {
public:
  SpreadSampleTemplate()
      : SampleTemplate({"sample/SpreadSample.cuh", "SampleSignature",
                        "SpreadSampleConfig", "SampleParams", "spreadSample"}) {
  }

  CandidateClass
  classOfConfig(const SpreadSampleConfig &config) const override {
    constexpr int kSpread = 3;
    return {classKey({kSpread, config.ranges > 1}), 0};
  }

  llvm::SmallVector<Values, 4>
  variantsAt(const Problem &problem, const Values &values,
             const DeviceModel &device) const override {
    const SampleProblem p = readSampleProblem(problem.values.array().data());
    auto config = fromValues<SpreadSampleConfig>(values);
    llvm::SmallVector<Values, 4> variants;
    for (int ranges : rangesFor(p, config.blockThreads, config.items, device)) {
      config.ranges = ranges;
      variants.push_back(this->valuesOf(config));
    }
    return variants;
  }

protected:
  void forEachConfig(const SampleProblem &p, const DeviceModel &device,
                     Emit<SpreadSampleConfig> emit) const override {
    if (signatureOf(p).lists())
      return;
    for (int threads : {512, 256, 1024})
      for (int items : itemsFor(p, p.vocab, threads))
        for (int ranges : rangesFor(p, threads, items, device))
          emit({threads, items, ranges});
  }

  std::optional<Rejection> checkShape(const SampleProblem &p,
                                      const SpreadSampleConfig &config,
                                      const DeviceModel &) const override {
    if (signatureOf(p).lists())
      return Rejection{PruneReason::InstructionShape,
                       1 + double(workOf(p).walks), 1, "walks over a row"};
    constexpr double kMostMeetings = 64 << 10; // in bytes
    const double bytes = double(p.rows) * sizeof(SampleMeeting);
    if (bytes > kMostMeetings)
      return Rejection{PruneReason::Workspace, bytes, kMostMeetings, "B"};
    if (config.ranges < 1)
      return Rejection{PruneReason::InstructionShape};
    return std::nullopt;
  }

private:
  /// Numbers of blocks of a row that give each SM some, as long as a thread of
  /// each has a vector.
  static llvm::SmallVector<int, 4> rangesFor(const SampleProblem &p,
                                             int threads, int items,
                                             const DeviceModel &device) {
    constexpr int64_t kMostRanges = 1024; // a knob's
    const int64_t rows = std::max<int64_t>(p.rows, 1);
    const int64_t most =
        std::min(ceilDiv(ceilDiv(p.vocab, packTokens(p)), int64_t(threads)),
                 kMostRanges);
    llvm::SmallVector<int, 4> all;
    auto add = [&](int64_t ranges) {
      const auto each = static_cast<int>(std::clamp<int64_t>(ranges, 1, most));
      if (!llvm::is_contained(all, each))
        all.push_back(each);
    };
    add(device.smCount / rows);
    add(2 * device.smCount / rows);
    add(4 * device.smCount / rows);
    // As many as have all of their vectors in flight at once.
    add(ceilDiv(most, int64_t(items)));
    return all;
  }
};

} // namespace

std::unique_ptr<Template> makeSpreadSampleTemplate() {
  return std::make_unique<SpreadSampleTemplate>();
}
std::unique_ptr<Template> makeClusterSampleTemplate() {
  return std::make_unique<ClusterSampleTemplate>();
}
std::unique_ptr<Template> makeBlockSampleTemplate() {
  return std::make_unique<BlockSampleTemplate>();
}

} // namespace kiln
