//===- ClassicRanking.h - a space as the classic model sees it ------------===//
//
// The classic model wraps a finished space from outside: it knows matrix
// products and tiles, and families and their templates do not depend on it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/MatrixProduct.h"
#include "Kernel/Space.h"
#include "kiln-bench/ClassicModel.h"

#include <optional>
#include <vector>

namespace kiln::cli {

/// The product that \p problem is; nullopt where the model knows no such
/// problem: it is something else, or there is nothing to multiply.
std::optional<MatrixProduct> classicProblemOf(const KernelFamily &family,
                                              const Problem &problem);

/// The config in the model's terms; nullopt: not a tile template.
std::optional<ClassicConfig> classicConfigOf(const Template &tmpl,
                                             const Values &config);

/// The classic model's time: the larger of compute and load, and store.
double classicNs(const MatrixProduct &problem, const ClassicConfig &config,
                 const DeviceModel &device);

/// The classic model prunes and ranks again what the hard limits left over:
/// \p ranked, in any order. Templates without tiles, which it cannot model,
/// come last, in the order of the space.
std::vector<Candidate> rankClassic(const MatrixProduct &problem,
                                   const DeviceModel &device,
                                   std::vector<Candidate> ranked);

} // namespace kiln::cli
