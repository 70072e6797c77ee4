//===- LineTranspose.cpp - the line template ------------------------------===//
//
// For few rows, and a packed y. Configs differ in the columns of a block. On
// these depend the length of the pieces of x, the number of blocks, and the
// bytes that each has in flight. In 8 of 16 drawn problems that it takes, its
// best config is at least 3 % faster than the other templates', up to 2.4 times
// (H200, benchmarks/sweeps/h200/memory_bound).
//
//===----------------------------------------------------------------------===//
#include "Families/Transpose/TransposeFamily.h"
#include "Families/Transpose/TransposeTemplate.h"
#include "transpose/LineTransposeConfig.h"

#include <algorithm>
#include <array>

namespace kiln {

namespace {

class LineTranspose final
    : public TransposeTemplate<LineTranspose, LineTransposeConfig> {
public:
  template <Number N>
  void addCosts(MemoryPass<N> &kernel, const LineTransposeConfig &config,
                const TransposeProblem &p, const TransposeSignature &signature,
                const DeviceModel &device) const;

  LineTranspose()
      : TransposeTemplate({"transpose/LineTranspose.cuh", "TransposeSignature",
                           "LineTransposeConfig", "TransposeParams",
                           "lineTranspose"}) {}

  /// A class is a tile and its copies; threads vary within it.
  CandidateClass classOfConfig(const LineTransposeConfig &c) const override {
    constexpr uint64_t kMostCopy = 32;
    return {static_cast<uint64_t>(c.tileCols) * kMostCopy +
                static_cast<uint64_t>(c.copyBytes),
            0};
  }

protected:
  void forEachConfig(const TransposeProblem &problem,
                     const TransposeSignature &signature,
                     Emit<LineTransposeConfig> emit) const override;
  std::optional<Rejection>
  checkShape(const LineTransposeConfig &config, const TransposeProblem &problem,
             const TransposeSignature &signature) const override;
  int askedBytes(const LineTransposeConfig &config, const TransposeProblem &p,
                 const TransposeSignature &signature,
                 const DeviceModel &) const override {
    return config.sharedBytes(signature, static_cast<int>(p.rows));
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Space
//===----------------------------------------------------------------------===//

void LineTranspose::forEachConfig(const TransposeProblem &p,
                                  const TransposeSignature &signature,
                                  Emit<LineTransposeConfig> emit) const {
  if (p.ldy != p.rows)
    return;
  // Bounds of a block's bytes: several blocks fit an SM, and each is worth its
  // start.
  constexpr int64_t kLeast = 2 * 1024, kMost = 80 * 1024;
  for (int tileCols = LineTransposeConfig::kMostTileCols; tileCols >= 32;
       tileCols /= 2) {
    int64_t bytes = p.rows * tileCols * signature.elementBytes;
    if (bytes > kMost)
      continue;
    if (bytes < kLeast && tileCols < LineTransposeConfig::kMostTileCols)
      break;
    constexpr int64_t kLarge = 16 * 1024;
    const int fewest = bytes > kLarge ? 256 : 128;
    for (int copyBytes : {16, 4})
      for (int threads : {2 * fewest, fewest}) {
        LineTransposeConfig config{.tileCols = tileCols,
                                   .blockThreads = threads,
                                   .copyBytes = copyBytes};
        if (config.isValid(signature))
          emit(config);
      }
  }
}

std::optional<Rejection>
LineTranspose::checkShape(const LineTransposeConfig &config,
                          const TransposeProblem &p,
                          const TransposeSignature &signature) const {
  constexpr int kMostCols = LineTransposeConfig::kMostTileCols;
  if (auto rejection = checkPower(
          config.tileCols,
          LineTransposeConfig::kSector / signature.elementBytes, kMostCols,
          "columns a tile", "a power of two from a sector to 1024"))
    return rejection;
  if (auto rejection = checkBlockThreads(config.blockThreads))
    return rejection;
  if (config.copyBytes != 4 && config.copyBytes != 16)
    return Rejection{PruneReason::InstructionShape, double(config.copyBytes), 0,
                     "bytes a copy", "4 or 16"};
  if (p.ldy != p.rows)
    return Rejection{PruneReason::Alignment, double(p.ldy), double(p.rows),
                     "elements from row to row of y"};
  if (p.rows > LineTransposeConfig::kMostRows)
    return Rejection{PruneReason::SharedMemory, double(p.rows),
                     double(LineTransposeConfig::kMostRows), "rows"};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Estimate
//===----------------------------------------------------------------------===//

/// Average passes that a warp's access to shared memory takes for its elements,
/// over four elements of a vector. The first warp's accesses are simulated,
/// with x and y at multiples of 16 bytes.
static double passesOf(const LineTransposeConfig &config,
                       const TransposeProblem &p,
                       const TransposeSignature &signature) {
  constexpr int kLanes = 32, kBanks = 32, kWordBytes = 4, kSamples = 4;
  const int vector = config.vector(signature), bytes = signature.elementBytes;
  const int64_t rows = std::max<int64_t>(p.rows, 1);
  int passes = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    std::array<int, kLanes> words;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int element = lane * vector + sample * vector / kSamples;
      const int row = static_cast<int>(element % rows);
      const int column = static_cast<int>(element / rows);
      const auto past =
          static_cast<int>(row * p.ldx * bytes % config.copyBytes);
      words[lane] = (config.rowOffset(signature, row) + past + column * bytes) /
                    kWordBytes;
    }
    std::sort(words.begin(), words.end());
    std::array<int, kBanks> wanted = {};
    for (int lane = 0; lane < kLanes; ++lane)
      if (lane == 0 || words[lane] != words[lane - 1])
        ++wanted[words[lane] % kBanks];
    passes += *std::max_element(wanted.begin(), wanted.end());
  }
  return double(passes) / kSamples;
}

/// kindsOf(): vectors between two that begin at the same row. turnsOf(): how
/// often a block's threads pass over the kinds.
static int64_t kindsOf(int64_t rows, int vector) {
  return rows / std::min<int64_t>(rows & -rows, vector);
}
static int64_t turnsOf(const LineTransposeConfig &config, int64_t rows,
                       int vector) {
  return (kindsOf(rows, vector) + config.threads() - 1) / config.threads();
}

/// Instructions of lanes in a block for the addresses of its kinds' elements.
/// Counted in the kernel's SASS for sm_90, like those below.
static double addressesOf(const LineTransposeConfig &config, int64_t rows,
                          int vector) {
  constexpr double kPerAddress = 16;
  return double(turnsOf(config, rows, vector) * config.threads()) * vector *
         kPerAddress;
}

/// Instructions of lanes in a block for \p copies copies and \p vectors
/// vectors, with a part of the packing for each element.
static double instructionsOf(const LineTransposeConfig &config, int64_t rows,
                             int vector, double passes, double copies,
                             double vectors) {
  constexpr double kPerVector = 10, kPerElement = 1.75, kPerCopy = 10;
  // An SM's port to shared memory takes one access in the time of four
  // arithmetic instructions.
  constexpr double kPerPass = 4;
  double element = kPerElement + kPerPass * passes;
  // Threads form groups with one for each kind, or take kinds in turns: then
  // some are idle in the last turn.
  const int64_t kinds = kindsOf(rows, vector);
  const int64_t groups = std::max<int64_t>(config.threads() / kinds, 1);
  double idle = double(turnsOf(config, rows, vector) * config.threads()) /
                double(groups * kinds);
  return copies * kPerCopy + addressesOf(config, rows, vector) +
         vectors * idle * (kPerVector + vector * element);
}

template <Number N>
void LineTranspose::addCosts(MemoryPass<N> &kernel,
                             const LineTransposeConfig &config,
                             const TransposeProblem &p,
                             const TransposeSignature &signature,
                             const DeviceModel &device) const {
  const int vector = config.vector(signature);
  const int64_t rows = std::max<int64_t>(p.rows, 1);
  const int pieceBytes = config.tileCols * signature.elementBytes;
  // The loss of `shifted`. On the side of y a block's bytes are one piece.
  constexpr double kLost = 0.015;
  // Copies of 4 bytes are four times as many (H200, tiles of the same shape by
  // copies of 4 and of 16 bytes, bf16 249 x 218961 and 82 x 114064: 1.0 to 1.4
  // times as long).
  constexpr double kNarrowLost = 0.1;
  kernel.lostShare = fitted<N>(kLost, "lost by shifted rows") +
                     lostToPieces<N>(pieceBytes) +
                     lostToPieces<N>(static_cast<int>(rows) * pieceBytes);
  if (config.copyBytes < 16)
    kernel.lostShare += fitted<N>(kNarrowLost, "lost by narrow copies");
  // Neighbours also read the sectors at both ends of a piece.
  constexpr int64_t kSector = LineTransposeConfig::kSector;
  if (p.ldx * signature.elementBytes % kSector != 0)
    kernel.sharedBytesPerTask = double(rows) * kSector;
  double moved = double(rows) * pieceBytes;
  double copies = double(rows) * config.rowCopies(signature);
  kernel.loads = {.vectors = copies / config.threads(),
                  .elements = config.copyBytes / signature.elementBytes,
                  .elementBytes = signature.elementBytes};
  const double passes = passesOf(config, p, signature);
  kernel.simdOps =
      instructionsOf(config, rows, vector, passes, copies, moved / 16) *
      double(kernel.tasks);
  // Each lane uses one element of a bank's four bytes.
  const double width = 4.0 / signature.elementBytes;
  kernel.serialNs = betweenNs<N>(kernel, moved * (1 + width * passes),
                                 addressesOf(config, rows, vector), device);
}

std::unique_ptr<Template> makeLineTransposeTemplate() {
  return std::make_unique<LineTranspose>();
}

} // namespace kiln
