//===- ClassicRanking.h - a space as the classic model sees it ------------===//
//
// The classic model wraps a finished space from outside: it knows matrix
// products, templates that it knows implement an interface beside their own,
// and what explores a space knows nothing of it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Space.h"
#include "Model/ClassicModel.h"

namespace kiln {

/// What Template::classic() answers where configs have tiles.
class ClassicTemplate {
public:
  virtual ClassicConfig classicConfig(const Values &config) const = 0;

protected:
  ~ClassicTemplate() = default;
};

/// The product that \p problem is; nullopt where the model knows no such
/// problem: it is something else, or there is nothing to multiply.
std::optional<MatrixProduct> classicProblemOf(const KernelFamily &family,
                                              const Problem &problem);

/// The config in the model's terms; nullopt: not a tile template.
std::optional<ClassicConfig> classicConfigOf(const Template &tmpl,
                                             const Values &config);

/// A problem and a config in the classic model's terms.
struct ClassicCase {
  MatrixProduct problem;
  ClassicConfig config;
};

/// The classic model's time with its terms: the larger of compute and load, and
/// store, add up.
Estimate estimateOf(const ClassicCase &classic, const DeviceModel &device);

/// The same, step by step: active share, compute, the ramp of DRAM, what L2 and
/// DRAM load, max(compute, load) + store.
Derivation explainClassic(const ClassicCase &classic,
                          const DeviceModel &device);

/// The classic model prunes and ranks again what the hard limits left over in
/// \p space. Templates without tiles, which it cannot model, come last, in the
/// order of the space.
void rankClassic(const MatrixProduct &problem, const DeviceModel &device,
                 bool keepRejected, Space &space);

} // namespace kiln
