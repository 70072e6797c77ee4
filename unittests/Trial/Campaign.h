//===- Campaign.h - many kernels tried on a real GPU ----------------------===//
//
// The common part of the campaigns of all families: problems are paired with
// configs, compiled together, compared with their references one by one, and
// run where a sanitizer sees reads beyond operands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"
#include "Trial/GpuTrials.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kiln::fake {

/// A problem and config to try. Its text suffices to try it again.
struct Triple {
  const KernelFamily *family = nullptr;
  Problem problem;
  std::string config;
  TrialData data = TrialData::Usual;
  PlantedValue planted = {};

  std::string text() const;
};

/// The parts of a template's space that are drawn equally often.
enum class Evenly { Configs, Classes };

/// Random numbers, and draws with them. The same seed draws the same.
class Draws {
public:
  explicit Draws(unsigned seed) : random(seed) {}

  /// At least 0 and less than \p end.
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T> T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  /// " lda=1030": a leading dimension beyond a row of \p columns, often one
  /// that breaks vectors; mostly nothing.
  std::string padded(const char *key, int64_t columns);
  /// " align=4", at least \p least; mostly nothing, which is 16.
  std::string alignment(int64_t least);

  /// A problem of \p family, one of the texts that \p text draws, which the
  /// template called \p tmpl takes, and one of its configs.
  Triple triple(const KernelFamily &family, llvm::StringRef tmpl,
                const DeviceModel &device, Evenly evenly,
                llvm::function_ref<std::string()> text);
  /// Like triple(), for a template that may take no such problem on \p device.
  std::optional<Triple> tripleIfAny(const KernelFamily &family,
                                    llvm::StringRef tmpl,
                                    const DeviceModel &device, Evenly evenly,
                                    llvm::function_ref<std::string()> text);

private:
  std::mt19937_64 random;
};

/// The first choice for \p problem, the best config of each other template and,
/// while that makes fewer than \p least, the best of the following classes.
std::vector<std::string> bestConfigs(const KernelFamily &family,
                                     const Problem &problem,
                                     const DeviceModel &device, size_t least);

/// Compiles the kernels and references of all \p triples in parallel. Returns
/// the triples that may run: not the ones that are refused because ptxas
/// spilled or serialised them.
std::vector<Triple> compileAll(GpuTrials &gpu,
                               const std::vector<Triple> &triples);

/// Compiles all \p triples, compares the ones that may run with their
/// references, and returns these; the message of a failure repeats it. Cheaper
/// if triples of one problem and data follow each other.
std::vector<Triple> checkAll(GpuTrials &gpu,
                             const std::vector<Triple> &triples);

/// The work that runs beside repeated launches.
enum class Beside {
  Nothing,
  Fills, ///< of memory that no cache holds, on another stream
};

/// Launches a triple \p launches times on one workspace and compares each
/// result with the first, bit for bit, on the device. Returns the first.
std::vector<uint8_t> checkRepeats(GpuTrials &gpu, const Triple &triple,
                                  int launches,
                                  Beside beside = Beside::Nothing);

/// Runs a triple over memory that ends where its operands end, so that a
/// sanitizer sees a read beyond them. Its results are not checked.
void runWithoutRedZones(GpuTrials &gpu, const Triple &triple);

} // namespace kiln::fake
