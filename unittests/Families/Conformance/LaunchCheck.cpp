#include "Families/Conformance/LaunchCheck.h"

#include "Kernel/OperandLayout.h"
#include "Support/Format.h"

#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

namespace kiln::conformance {

//===----------------------------------------------------------------------===//
// Operand tables
//===----------------------------------------------------------------------===//

static bool isRead(const OperandSpec &spec) {
  return spec.present && spec.role != OperandRole::Out;
}

/// The fault of the data with which trials fill an operand.
static std::string faultOfInit(const OperandSpec &spec,
                               const OperandInit &init) {
  constexpr double kGreatestFp16 = 65504;
  double greatest = spec.type == DType::FP16 ? kGreatestFp16 : 1e38;
  if (!std::isfinite(init.deviation) || init.deviation < 0)
    return "no deviation";
  if (std::fabs(init.mean) + 10 * init.deviation > greatest)
    return "samples that its type does not hold";
  if (std::fabs(init.outlier) > greatest)
    return "an outlier that its type does not hold";
  if (init.outlierPeriod < 0 || init.minusInfinityPeriod < 0 ||
      init.rowPeriod < 0 || init.mantissaBits < 0)
    return "a period below 0";
  return "";
}

/// The fault of the integers with which trials fill \p spec.
static std::string faultOfIntegers(const OperandSpec &spec,
                                   const IntegerInit &init) {
  constexpr int64_t kGreatest = 2147483647;
  const bool hasIntegers = init.kind != IntegerData::None;
  if (hasIntegers != isIndexType(spec.type))
    return hasIntegers ? "integers in a type of reals"
                       : "integers that trials cannot fill";
  if (!hasIntegers || spec.bytes() == 0)
    return "";
  // -1 is the index that names no place.
  const int64_t least = init.kind == IntegerData::Values    ? INT64_MIN
                        : init.kind == IntegerData::Indices ? -1
                                                            : 0;
  if (init.least < least || init.most < init.least ||
      std::max(init.most, init.total) > kGreatest)
    return fmt::format("integers from {} to {}", init.least, init.most);
  const int64_t lengths = layoutOf(spec).rowCount() * spec.cols - 1;
  if (init.kind == IntegerData::Offsets && init.least * lengths > init.total)
    return fmt::format("{} lengths of {} in {}", lengths, init.least,
                       init.total);
  return "";
}

/// The default, which a family has not set on purpose.
static bool isUnset(const Tolerance &tolerance) {
  const Tolerance unset;
  return tolerance.relative == unset.relative &&
         tolerance.scaled == unset.scaled &&
         tolerance.absolute == unset.absolute;
}

static bool isTolerance(const Tolerance &tolerance) {
  auto isBound = [](double value) {
    return std::isfinite(value) && value >= 0;
  };
  return !isUnset(tolerance) && isBound(tolerance.relative) &&
         isBound(tolerance.scaled) && isBound(tolerance.absolute);
}

/// Whether one operand may replace the other in place, element by element. A
/// call whose strides differ is refused, so the table need not say that.
static bool isAlike(const OperandSpec &a, const OperandSpec &b) {
  return a.rows == b.rows && a.cols == b.cols && a.planes == b.planes &&
         a.batch == b.batch && bytesOf(a.type) == bytesOf(b.type);
}

static std::string faultOfSpec(const OperandTable &table, size_t index) {
  const OperandSpec &spec = table.operands[index];
  if (spec.rows < 0 || spec.cols < 0 || spec.planes < 0 || spec.batch < 0)
    return "a size below 0";
  // A single row may serve all rows of the problem.
  bool isShared = spec.rows == 1 && spec.leadingDimension == 0;
  if (spec.leadingDimension < spec.cols && !isShared)
    return "rows longer than its leading dimension";
  // Rows of planes that are only read may be shared in ways that interleave.
  if ((spec.isWritten() || spec.planes <= 1) &&
      !gridOf(layoutOf(spec)).isApart())
    return "matrices that overlap";
  if (spec.misalignment < 0 || spec.misalignment >= 256 ||
      spec.misalignment % bytesOf(spec.type) != 0)
    return "a misalignment that is no multiple of its elements";
  for (TrialData data : {TrialData::Usual, TrialData::Outliers}) {
    if (!isRead(spec))
      continue;
    const OperandInit &init = spec.init(data);
    if (std::string fault = faultOfInit(spec, init); !fault.empty())
      return fault;
    if (std::string fault = faultOfIntegers(spec, init.integers);
        !fault.empty())
      return fault;
  }
  if (spec.isWritten() && !isTolerance(spec.tolerance))
    return "no tolerance";
  if (spec.mayBe < 0)
    return "";
  if (!spec.isWritten() || spec.mayBe >= int(table.operands.size()))
    return "mayBe where nothing may be";
  const OperandSpec &input = table.operands[spec.mayBe];
  if (!isRead(input) || input.isWritten() || !isAlike(spec, input))
    return "mayBe of an operand of another shape, or that is not read";
  return "";
}

/// Addresses of a launch by operand, including those of scalars.
static std::string faultOfSlots(const KernelFamily &family,
                                const OperandTable &table) {
  std::set<int> taken;
  for (const Field &field : family.problemSchema().fields())
    if (field.slot >= 0)
      taken.insert(field.slot);
  for (auto [i, spec] : llvm::enumerate(table.operands)) {
    int slot = spec.slot < 0 ? int(i) : spec.slot;
    if (spec.present && !taken.insert(slot).second)
      return fmt::format("{}: slot {} is taken", spec.name, slot);
  }
  return "";
}

std::string faultOfOperands(const KernelFamily &family,
                            const Problem &problem) {
  OperandTable table = family.operands(problem);
  if (table.operands.empty() ||
      table.operands.size() > size_t(Arguments::kMaxOperands))
    return fmt::format("{} operands, 1 to {} have room", table.operands.size(),
                       Arguments::kMaxOperands);
  // Inputs with one name are interchangeable: the matrices of two adding links.
  std::set<llvm::StringRef> written, read;
  for (auto [i, spec] : llvm::enumerate(table.operands)) {
    if (!spec.present)
      continue;
    if (spec.name.empty())
      return "an operand without a name";
    if (spec.isWritten()
            ? !written.insert(spec.name).second || read.contains(spec.name)
            : written.contains(spec.name))
      return fmt::format("{}: two operands of this name", spec.name);
    if (!spec.isWritten())
      read.insert(spec.name);
    if (std::string fault = faultOfSpec(table, i); !fault.empty())
      return fmt::format("{}: {}", spec.name, fault);
  }
  if (std::string fault = faultOfSlots(family, table); !fault.empty())
    return fault;
  auto hasBytes = [](const OperandSpec &spec) {
    return spec.isWritten() && spec.bytes() > 0;
  };
  if (!family.isEmpty(problem) && llvm::none_of(table.operands, hasBytes))
    return "nothing is written";
  if (!(family.flops(problem) >= 0) || !(family.compulsoryBytes(problem) >= 0))
    return "no count of operations and bytes";
  if (!family.isEmpty(problem) && family.compulsoryBytes(problem) == 0)
    return "no bytes that must move";
  return "";
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

std::string faultOfPlan(const Plan &plan, const DeviceModel &device) {
  if (plan.kernels.empty() || plan.sharedBytes.size() != plan.kernels.size())
    return fmt::format("{} kernels, shared memory of {}", plan.kernels.size(),
                       plan.sharedBytes.size());
  for (uint32_t bytes : plan.sharedBytes)
    if (bytes > device.sharedBytesPerBlock)
      return fmt::format("{} B of shared memory, {} there are", bytes,
                         device.sharedBytesPerBlock);
  // An engine's default is less, but callers may allow more.
  constexpr uint64_t kMostWorkspace = uint64_t(1) << 30;
  if (plan.workspace.bytes() > kMostWorkspace)
    return fmt::format("a workspace of {} B", plan.workspace.bytes());
  if (!plan.binder)
    return "nothing binds it";
  return "";
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

// Operands lie far apart, so that an address identifies its operand.
static DeviceAddress addressOf(size_t operand) {
  return 0x700000000000 + DeviceAddress(operand) * 0x10000000000;
}
static constexpr DeviceAddress kZeroed = 0x600000000000,
                               kScratch = 0x680000000000,
                               kValues = 0x500000000000,
                               kBounds = 0x580000000000;

static Arguments argumentsOf(const KernelFamily &family,
                             const Problem &problem) {
  Arguments arguments = family.defaultArguments(problem);
  for (auto [i, spec] : llvm::enumerate(family.operands(problem).operands))
    if (spec.present)
      arguments.operands[i].address =
          addressOf(i) + DeviceAddress(spec.misalignment);
  return arguments;
}

/// Whether \p address is a word of the parameters of \p spec, or of a tensor
/// map.
static bool hasAddress(const LaunchSpec &spec, DeviceAddress address) {
  for (uint32_t i = 0; i < spec.tensorMapCount; ++i)
    if (spec.tensorMaps[i].address == address)
      return true;
  for (size_t at = 0; at + sizeof(address) <= spec.paramBytes;
       at += sizeof(address)) {
    DeviceAddress word;
    std::memcpy(&word, spec.params + at, sizeof(word));
    if (word == address)
      return true;
  }
  return false;
}

static bool isWithin(const Dim3 &size, const Dim3 &most) {
  return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= most.x &&
         size.y <= most.y && size.z <= most.z;
}

static std::string faultOfKernel(const KernelStep &step, const LaunchSpec &spec,
                                 const DeviceModel &device) {
  constexpr Dim3 kMostBlocks{2147483647, 65535, 65535};
  constexpr Dim3 kMostThreads{1024, 1024, 64};
  auto text = [](const Dim3 &dim) {
    return fmt::format("{}x{}x{}", dim.x, dim.y, dim.z);
  };
  if (!isWithin(step.grid, kMostBlocks))
    return "a grid of " + text(step.grid);
  if (!isWithin(step.block, kMostThreads) ||
      uint64_t(step.block.x) * step.block.y * step.block.z >
          uint64_t(device.maxThreadsPerBlock))
    return "a block of " + text(step.block);
  if (!isWithin(step.cluster, step.grid) || step.grid.x % step.cluster.x != 0 ||
      step.grid.y % step.cluster.y != 0 || step.grid.z % step.cluster.z != 0)
    return "clusters of " + text(step.cluster) + " in a grid of " +
           text(step.grid);
  if (step.paramBytes == 0 ||
      step.paramOffset + step.paramBytes > spec.paramBytes)
    return "parameters outside of the launch's";
  return "";
}

/// The threads of a block for which \p unit is compiled; 0 if it does not say.
static uint64_t boundOf(const TranslationUnit &unit) {
  uint64_t threads = 0;
  llvm::StringRef bound =
      llvm::StringRef(unit.source()).split("__launch_bounds__(").second;
  bound.consumeInteger(10, threads);
  return threads;
}

/// The fault of \p step as a launch of the kernel of \p unit, which was planned
/// with \p sharedBytes.
static std::string faultOfBlock(const KernelStep &step,
                                const TranslationUnit &unit,
                                uint32_t sharedBytes) {
  if (step.sharedBytes != sharedBytes)
    return fmt::format("{} B of shared memory, {} planned", step.sharedBytes,
                       sharedBytes);
  const uint64_t threads = uint64_t(step.block.x) * step.block.y * step.block.z;
  if (threads != boundOf(unit))
    return fmt::format("blocks of {} threads, __launch_bounds__ has {}",
                       threads, boundOf(unit));
  return "";
}

/// The fault of the steps of \p spec, which launch \p units with \p sharedBytes
/// each.
static std::string faultOfSteps(const LaunchSpec &spec,
                                llvm::ArrayRef<TranslationUnit> units,
                                llvm::ArrayRef<uint32_t> sharedBytes,
                                uint64_t zeroedBytes,
                                const DeviceModel &device) {
  if (spec.stepCount < 1 || spec.stepCount > LaunchSpec::kMaxSteps)
    return fmt::format("{} steps", spec.stepCount);
  for (uint32_t i = 0; i < spec.stepCount; ++i) {
    const LaunchStep &step = spec.steps[i];
    if (step.kind == LaunchStep::Kind::Memset) {
      if (step.memset.address != kZeroed || step.memset.bytes > zeroedBytes ||
          step.memset.value != 0)
        return "a memset of what is not the zeroed region";
      continue;
    }
    const KernelStep &kernel = step.kernel;
    if (std::string fault = faultOfKernel(kernel, spec, device); !fault.empty())
      return fault;
    if (kernel.function >= sharedBytes.size())
      return fmt::format("function {} of {}", kernel.function,
                         sharedBytes.size());
    if (std::string fault = faultOfBlock(kernel, units[kernel.function],
                                         sharedBytes[kernel.function]);
        !fault.empty())
      return fault;
  }
  for (uint32_t i = 0; i < spec.tensorMapCount; ++i)
    if (uint32_t at = spec.tensorMaps[i].paramOffset;
        at % 64 != 0 || at + sizeof(EncodedTensorMap) > spec.paramBytes)
      return "a tensor map outside of the parameters";
  return "";
}

/// The operand whose address reaches no kernel; empty if all do.
static std::string forgottenOperand(const KernelFamily &family,
                                    const Problem &problem,
                                    const Arguments &arguments,
                                    const LaunchSpec &spec) {
  for (auto [i, operand] : llvm::enumerate(family.operands(problem).operands))
    if (operand.bytes() > 0 && !hasAddress(spec, arguments.operands[i].address))
      return fmt::format("the address of {} reaches no kernel", operand.name);
  return "";
}

std::string faultOfLaunch(const KernelFamily &family, const Problem &problem,
                          const Plan &plan, const DeviceModel &device) {
  Arguments arguments = argumentsOf(family, problem);
  std::vector<EncodedTensorMap> prototypes(plan.tensorMaps.size());
  LaunchContext context;
  context.smCount = static_cast<int32_t>(device.smCount);
  context.zeroed = kZeroed;
  context.scratch = kScratch;
  context.tensorMaps = prototypes.data();
  LaunchSpec spec;
  plan.binder->bind(arguments, context, spec);
  std::string fault = faultOfSteps(spec, plan.kernels, plan.sharedBytes,
                                   plan.workspace.zeroedBytes, device);
  if (!fault.empty())
    return fault;
  const int64_t rounds =
      plan.hasRounds ? plan.binder->rounds(arguments, context.smCount) : 1;
  // Some of the parts, and the last one: an absurd problem has millions.
  constexpr int64_t kChecked = 16;
  const int64_t step = std::max<int64_t>(1, rounds / kChecked);
  for (int64_t round = 1; round < rounds; round += step) {
    context.round = rounds - round;
    LaunchSpec later;
    plan.binder->bind(arguments, context, later);
    fault = faultOfSteps(later, plan.kernels, plan.sharedBytes,
                         plan.workspace.zeroedBytes, device);
    if (!fault.empty())
      return fmt::format("round {}: {}", context.round, fault);
  }
  context.round = 0;
  LaunchSpec zeroed;
  context.isZeroed = true;
  plan.binder->bind(arguments, context, zeroed);
  for (uint32_t i = 0; i < zeroed.stepCount; ++i)
    if (zeroed.steps[i].kind == LaunchStep::Kind::Memset)
      return "a memset of what is zero";
  const bool uses = plan.binder->usesWorkspace(arguments, context.smCount);
  const bool hasZeroed = hasAddress(zeroed, kZeroed);
  const bool hasScratch = hasAddress(zeroed, kScratch);
  if (!uses && (hasZeroed || hasScratch))
    return "a workspace that is not used reaches a kernel";
  if (uses && plan.workspace.zeroedBytes > 0 && !hasZeroed)
    return "the address of the zeroed region reaches no kernel";
  if (uses && plan.workspace.scratchBytes > 0 && !hasScratch)
    return "the address of scratch reaches no kernel";
  return forgottenOperand(family, problem, arguments, spec);
}

std::string faultOfReference(const KernelFamily &family, const Problem &problem,
                             const DeviceModel &device) {
  constexpr int64_t kSlab = 4096; // rows that trials may ask for at once
  auto reference = family.reference(problem, device);
  Arguments arguments = argumentsOf(family, problem);
  for (auto [i, operand] : llvm::enumerate(family.operands(problem).operands)) {
    if (!operand.isWritten() || operand.bytes() == 0)
      continue;
    LaunchSpec spec;
    reference->bind(arguments,
                    {static_cast<int>(i), 0,
                     std::min<int64_t>(layoutOf(operand).rowCount(), kSlab),
                     kValues, kBounds},
                    spec);
    if (spec.stepCount != 1 || spec.steps[0].kind != LaunchStep::Kind::Kernel ||
        spec.steps[0].kernel.function != 0)
      return "more than one kernel";
    const uint32_t shared = spec.steps[0].kernel.sharedBytes;
    if (shared > device.sharedBytesPerBlock)
      return fmt::format("{} B of shared memory, {} there are", shared,
                         device.sharedBytesPerBlock);
    if (std::string fault =
            faultOfSteps(spec, reference->translationUnit(), shared, 0, device);
        !fault.empty())
      return fault;
    if (!hasAddress(spec, kValues) || !hasAddress(spec, kBounds))
      return "the reference is told nowhere to put its values and bounds";
  }
  return "";
}

} // namespace kiln::conformance
