//===- RouteProblem.h - a choice of experts, typed ------------------------===//
//
// The typed form of the values "route tokens=.. experts=.. topk=.." and of
// their signature; include/kiln/moe.h has the terms.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Kernel/Values.h"
#include "kiln/moe.h"
#include "route/RouteParams.h"
#include "route/RouteSignature.h"

namespace kiln {

/// The most tokens: the ranks of their choices have at most 128 MiB of
/// workspace.
inline constexpr int64_t kMaxRouteTokens = int64_t(1) << 20;

/// The function from logits to scores. Values are those of kiln_router_score.
enum class RouterScore : int {
  Softmax = KILN_SCORE_SOFTMAX,
  Sigmoid = KILN_SCORE_SIGMOID
};

/// Derived defaults are resolved.
struct RouteProblem {
  int64_t tokens = 0, experts = 1, topK = 1;
  DType dtype = DType::FP32;
  RouterScore score = RouterScore::Softmax;
  bool renormalizes = false;
  bool logitBias = false, choiceBias = false;
  int64_t groups = 0, topGroups = 0; ///< 0: all groups stay
  bool groupMax = false;
  int64_t first = 0, local = 0; ///< experts that have rows
  int64_t groupAlign = 1;
  bool tokenCount = false, chosen = false, sizes = false;
  double scale = 1;
  int64_t ld = 0;
  int64_t align = 16; ///< of the logits

  bool isGrouped() const { return groups > 0; }
  /// Then nothing is chosen among groups, of whatever number.
  bool allGroupsStay() const { return groups == topGroups; }
  int64_t choices() const { return tokens * topK; }
  /// Choices of local experts, where all experts are chosen alike.
  double expectedRows() const {
    return double(choices()) * double(local) / double(experts);
  }
  /// Elements of the index.
  int64_t indexRoom() const { return choices() + local * (groupAlign - 1); }
};

/// Indices of the fields of routeProblemSchema(), in its order.
struct RouteField {
  enum : int {
    Tokens,
    Experts,
    TopK,
    DType,
    Score,
    Renorm,
    LogitBias,
    ChoiceBias,
    Groups,
    TopGroups,
    GroupMax,
    First,
    Local,
    GroupAlign,
    TokenCount,
    Chosen,
    Sizes,
    Scale,
    LdX,
    Align,
    Count
  };
};

/// Scalars in the order of Arguments::scalars.
struct RouteScalar {
  enum : int { Scale };
};

/// Schema of the family's problems. Made at the first use and kept;
/// thread-safe.
const Schema &routeProblemSchema();

/// Reads the values of a problem in schema order, and resolves derived
/// defaults. Nanoseconds: called on every launch.
RouteProblem readRouteProblem(const int64_t *values);

RouteSignature signatureOf(const RouteProblem &problem);

/// Converts a signature to values, and back.
Values toValues(const RouteSignature &signature);
RouteSignature readRouteSignature(const Values &values);

/// A designated initialiser: "{.in = kiln::DType::BF16, ...}".
std::string initializerText(const RouteSignature &signature);

} // namespace kiln
