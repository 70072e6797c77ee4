//===- TransposeTemplate.h - base of the family's templates ---------------===//
//
// Each template is its config type (kernel_src/transpose) plus three facts: its
// space, its limits and its memory pass. The rest (values, texts, plans,
// binding) follows from the config and is written once here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/MemoryPass/MemoryPassTemplate.h"
#include "Families/Transpose/TransposeProblem.h"
#include "Kernel/Operand.h"
#include "transpose/TransposeParams.h"

#include <algorithm>
#include <cassert>

namespace kiln {

/// Fills in the parameters that no config changes: operands and extents.
/// Nanoseconds; allocates nothing.
TransposeParams makeTransposeParams(const TransposeProblem &problem,
                                    const Arguments &arguments);

/// The rejection of \p value unless it is a power of two from \p least to
/// \p most. \p unit names its unit, \p allowed the powers; literals.
std::optional<Rejection> checkPower(int value, int least, int most,
                                    llvm::StringRef unit,
                                    llvm::StringRef allowed);
/// checkPower() for the threads of a block.
std::optional<Rejection> checkBlockThreads(int threads);
/// checkPower() for the sides of a tile, at least 32.
template <class Config>
std::optional<Rejection> checkSides(const Config &config, int most,
                                    llvm::StringRef allowed) {
  if (auto rejection =
          checkPower(config.tileRows, 32, most, "rows a tile", allowed))
    return rejection;
  return checkPower(config.tileCols, 32, most, "columns a tile", allowed);
}

/// The share of DRAM's bandwidth that a transposition loses to pieces of rows
/// of less than 256 bytes, on one side. H100, 8192 x 8192 bf16: 95.1 us with
/// 256 bytes, 97.4 us with 128 on one side, 99.1 us on both.
template <Number N> N lostToPieces(int pieceBytes) {
  constexpr double kLostBytes = 6, kEnough = 256;
  if (pieceBytes >= kEnough)
    return 0;
  return fitted<N>(kLostBytes, "bytes lost by a piece", "B") *
         (N(1) / given<N>(pieceBytes, "of a piece", "B") -
          N(1) / fitted<N>(kEnough, "enough", "B"));
}

/// lostToPieces() of both sides, and the loss of tiles that the extents leave
/// partly empty: they take a block's place and keep fewer bytes in flight.
/// H100, in proportion to the other terms: bf16 247 x 126560 by 128 rows 1.2,
/// fp32 51 x 36231 by 64 rows 1.3. Packed rows that lie wholly in a tile are
/// one piece. \p kernel has its tasks.
template <Number N, class Config>
N lostToTiles(const PassWork &kernel, const Config &config,
              const TransposeProblem &p) {
  constexpr double kEmptyLoss = 0.25;
  double places = double(config.tileRows) * config.tileCols *
                  double(std::max<int64_t>(kernel.tasks, 1));
  double used = double(p.rows) * double(p.cols) / places;
  N lost = fitted<N>(kEmptyLoss, "lost by empty places") *
           given<N>(1 - used, "empty share");
  const int bytes = static_cast<int>(bytesOf(p.dtype));
  if (p.ldx > p.cols || config.tileCols < p.cols)
    lost += lostToPieces<N>(config.tileCols * bytes);
  if (p.ldy > p.rows || config.tileRows < p.rows)
    lost += lostToPieces<N>(config.tileRows * bytes);
  return lost;
}

/// Clocks for which a tile of \p bytes in and out occupies shared memory, with
/// the barrier between.
template <Number N>
N sharedMemoryClocks(double bytes, const DeviceModel &device) {
  constexpr double kBarrierClocks = 60;
  return given<N>(bytes, "through shared memory", "B") /
             deviceValue<N>(device, &DeviceModel::sharedBytesPerClockPerSm) +
         fitted<N>(kBarrierClocks, "barrier", "clk");
}

/// The clock of an SM in GHz.
template <Number N> N smClock(const DeviceModel &device) {
  return deviceValue<N>(device, &DeviceModel::smClockMHz) / N(1000);
}

/// The mean number of blocks of an SM that are between their loads and their
/// stores at the same time. The first blocks of an SM begin together; later
/// blocks have drifted apart.
double blocksTogether(const PassWork &kernel, const DeviceModel &device);

/// Time in ns of a tile between its loads and its stores: it moves \p bytes
/// through shared memory at the rate of all banks, in addition to
/// \p instructions of lanes.
template <Number N>
N betweenNs(const PassWork &kernel, double bytes, double instructions,
            const DeviceModel &device) {
  const N lanes =
      deviceValue<N>(device, &DeviceModel::simdFp32FlopsPerClock) / N(2);
  return named(given<N>(blocksTogether(kernel, device), "blocks together") *
                   (sharedMemoryClocks<N>(bytes, device) +
                    given<N>(instructions, "instructions") / lanes) /
                   smClock<N>(device),
               "tile in shared memory", "ns");
}

/// A template of the family, given its config type and the class that derives
/// from it, which adds the costs of a config that prune() has accepted, apart
/// from moving each byte once:
///   template <Number N> void addCosts(MemoryPass<N> &kernel, config, problem,
///                                     signature, device) const;
template <class Derived, class Config>
class TransposeTemplate : public MemoryPassTemplate<Derived, Config> {
public:
  using MemoryPassTemplate<Derived, Config>::MemoryPassTemplate;

  void enumerate(const Problem &problem, const DeviceModel &,
                 llvm::function_ref<void(Values)> emit) const final {
    forEachConfig(read(problem), readTransposeSignature(problem.signature),
                  [&](const Config &config) { emit(this->valuesOf(config)); });
  }

  Plan plan(const Problem &problem, const Values &values,
            const DeviceModel &device) const final {
    auto config = fromValues<Config>(values);
    TransposeSignature signature = readTransposeSignature(problem.signature);
    const int sharedBytes =
        askedBytes(config, read(problem), signature, device);
    // The least alignment that the kernel needs, so that better aligned
    // problems share it.
    TransposeSignature least = signature;
    least.align = config.neededAlign(signature);
    Plan plan = this->planWithoutBinder(problem, values, least, config,
                                        sharedBytes, device);
    plan.binder = makeBinder([config, signature, sharedBytes](
                                 const Arguments &arguments,
                                 const LaunchContext &, LaunchSpec &spec) {
      TransposeProblem p = readTransposeProblem(arguments.problem);
      TransposeParams params = makeTransposeParams(p, arguments);
      const long long tileRows = config.tileRowCount(signature, params);
      if constexpr (requires { config.rasterGroup; })
        params.rasterGroup =
            static_cast<int>(std::min<long long>(config.rasterGroup, tileRows));
      KernelStep &step = spec.addKernel(params);
      step.grid.x =
          static_cast<uint32_t>(tileRows * config.tileColumnCount(params.cols));
      step.block.x = static_cast<uint32_t>(config.threads());
      step.sharedBytes = static_cast<uint32_t>(sharedBytes);
    });
    return plan;
  }

protected:
  std::optional<Rejection> checkConfig(const Problem &problem,
                                       const Config &config,
                                       const DeviceModel &device) const final {
    TransposeProblem p = read(problem);
    TransposeSignature signature = readTransposeSignature(problem.signature);
    if (auto rejection = checkThreads(config.threads(), device))
      return rejection;
    if (auto rejection = checkShape(config, p, signature))
      return rejection;
    assert(config.isValid(signature) && "each limit of isValid has a message");
    int64_t shared = askedBytes(config, p, signature, device);
    if (auto rejection = checkSharedBytes(shared, device))
      return rejection;
    // The grid is largest for addresses that are aligned to their elements
    // only.
    return checkGrid(
        double(blocksOf(config, p, signature, signature.elementBytes)));
  }

public:
  template <Number N>
  MemoryPass<N> pass(const Problem &problem, const Config &config,
                     const DeviceModel &device) const {
    TransposeProblem p = read(problem);
    TransposeSignature signature = readTransposeSignature(problem.signature);
    MemoryPass<N> kernel;
    // A pointer of the greatest alignment is almost never aligned to less than
    // a kernel needs.
    constexpr int64_t kMostAlign = 16;
    kernel.tasks =
        blocksOf(config, p, signature, p.align < kMostAlign ? p.align : 0);
    kernel.block = {config.threads(), config.registers(signature),
                    askedBytes(config, p, signature, device)};
    kernel.readBytes = p.bytes();
    kernel.writeBytes = p.bytes();
    static_cast<const Derived &>(*this).addCosts(kernel, config, p, signature,
                                                 device);
    return kernel;
  }

protected:
  /// Calls \p emit with the template's space for a problem, best guesses first.
  virtual void forEachConfig(const TransposeProblem &problem,
                             const TransposeSignature &signature,
                             Emit<Config> emit) const = 0;

  /// The limits of Config::isValid() that a launch does not have, by name, and
  /// the limits of the template that depend on the problem.
  virtual std::optional<Rejection>
  checkShape(const Config &config, const TransposeProblem &problem,
             const TransposeSignature &signature) const = 0;

  /// Shared memory of a launch.
  virtual int askedBytes(const Config &config, const TransposeProblem &problem,
                         const TransposeSignature &signature,
                         const DeviceModel &device) const = 0;

private:
  /// Blocks of a launch with y at \p address.
  static int64_t blocksOf(const Config &config, const TransposeProblem &p,
                          const TransposeSignature &signature,
                          int64_t address) {
    TransposeParams params;
    params.y = reinterpret_cast<void *>(static_cast<uintptr_t>(address));
    params.rows = p.rows;
    params.ldy = p.ldy;
    return config.tileRowCount(signature, params) *
           config.tileColumnCount(p.cols);
  }

  static TransposeProblem read(const Problem &problem) {
    return readTransposeProblem(problem.values.array().data());
  }
};

} // namespace kiln
