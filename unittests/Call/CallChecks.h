// Checks of every call, good or bad: its two readings agree, and its key is the
// family's canonical problem.
#pragma once

#include "Call/CallReader.h"
#include "Call/CanonicalProblem.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <optional>

namespace kiln::testing {

/// The problem that a call launched would compute, with what it was read as;
/// nullopt: it is refused, with `message`.
struct CheckedCall {
  FamilyCall call;
  std::optional<Problem> problem;
  bool isRead = false;
  std::string message;

  CheckedCall(const KernelFamily &family, const void *args) {
    isRead = family.call()->read(args, call);
    FamilyCall again;
    auto explained = readProblem(family, args, CallAddresses::Used, again);
    const Schema &schema = family.problemSchema();
    if (!explained) {
      ErrorSummary refusal = summarize(explained.takeError());
      message = refusal.message;
      CAPTURE(message);
      // Every refusal has an error of its own.
      REQUIRE(refusal.code != ErrorCode::Internal);
      if (!isRead || call.isEmpty)
        return;
      // Only the table of plans, which has canonical problems, may refuse a
      // wrong struct before a launch.
      auto made = makeProblem(family, Values(schema, call.fields()));
      bool wouldHit = made && made->values.array() == call.fields();
      if (!made)
        llvm::consumeError(made.takeError());
      REQUIRE_FALSE(wouldHit);
      return;
    }
    problem = std::move(*explained);
    CAPTURE(problem->text());
    REQUIRE(isRead);
    REQUIRE(problem->values.array() == call.fields());
    REQUIRE(again.fields() == call.fields());
    REQUIRE(family.isEmpty(*problem) == call.isEmpty);
  }
};

} // namespace kiln::testing
