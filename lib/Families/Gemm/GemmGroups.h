//===- GemmGroups.h - groups of rows of a GEMM ----------------------------===//
//
// The part of a GEMM problem that makes it a grouped GEMM (gemm/Groups.cuh): as
// many groups as the batch says, each with its own B.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Families/Gemm/GemmFields.h"
#include "Kernel/Operand.h"
#include "Kernel/Values.h"
#include "common/Types.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>

namespace kiln {

struct GemmProblem;

struct GemmGroups {
  GroupKind groups = GroupKind::None;
  int64_t groupAlign = 1; ///< a group begins at a multiple of it
  int64_t room = 0;       ///< masked: rows of each matrix of A and D; else m
  int64_t batchA = 1;     ///< matrices of A and D: groups with ends share one
  int64_t batchB = 1;     ///< matrices of B, also for groups without rows
  /// For a part of the rows of groups with ends (GemmRounds.h): its first row,
  /// and how many rows there are in all.
  int64_t firstRow = 0, allRows = 0;
  int64_t divisor = 1; ///< of the index where A's rows are
  bool gathers = false, scatters = false, hasRowWeights = false;
  /// In a typicalProduct() the mean rows of several groups with ends; else 0.
  double meanRows = 0;

  bool hasGroups() const { return groups != GroupKind::None; }

  static void addFields(llvm::MutableArrayRef<Field> fields);
  template <class P> static void read(const int64_t *values, P &p);
  static llvm::Error check(const GemmProblem &p);
  static void reset(const GemmProblem &p, Values &values);
  static void describe(const GemmProblem &p, OperandTable &table);
};

/// Greatest alignment of a group.
inline constexpr int64_t kMaxGroupAlign = 4096;

/// The batch that is expected to take as long as the groups of \p problem,
/// whose sizes are not known: the groups that have rows if these are drawn at
/// random, each with somewhat more than their mean. Spaces and estimates take
/// its m and batch; without groups it is the problem.
GemmProblem typicalProduct(const GemmProblem &problem);

/// Tiles of \p tile rows that a matrix of \p problem has, or that groups with
/// ends have on average.
double tilesAlongM(const GemmProblem &problem, int64_t tile);

/// tilesAlongM() for derivations.
std::string tilesAlongMText(const GemmProblem &problem, int64_t tile);

// Names of values in texts.
inline constexpr FieldName kGemmGroupNames[] = {
    {int64_t(GroupKind::None), "none"},
    {int64_t(GroupKind::Ends), "ends"},
    {int64_t(GroupKind::Masked), "masked"}};

template <class P> void GemmGroups::read(const int64_t *values, P &p) {
  using F = GemmField;
  p.groups = static_cast<GroupKind>(values[F::Groups]);
  p.batchA = p.groups == GroupKind::Ends ? 1 : p.batch;
  p.batchB = p.batch;
  p.room = p.groups == GroupKind::Masked ? valueOr(values, F::Room, p.m) : p.m;
  p.allRows = p.m;
  if (p.groups == GroupKind::Ends) {
    p.groupAlign = values[F::GroupAlign];
    p.firstRow = values[F::FirstRow];
    p.allRows = valueOr(values, F::AllRows, p.m);
  }
  p.gathers = values[F::Gather] != 0;
  if (p.gathers)
    p.divisor = values[F::Divisor];
  p.scatters = values[F::Scatter] != 0;
  p.hasRowWeights = values[F::RowWeights] != 0;
}

} // namespace kiln
