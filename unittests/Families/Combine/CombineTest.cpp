#include "Families/Combine/CombineFamily.h"
#include "Families/FamilyTesting.h"
#include "Kernel/Space.h"
#include "combine/RowCombineConfig.h"

#include <doctest/doctest.h>

using namespace kiln;
using namespace kiln::testing;

namespace {

const KernelFamily &combine() { return *registry().find("combine"); }

Problem parse(llvm::StringRef text) { return testing::parse(combine(), text); }
std::string failure(llvm::StringRef text) {
  return testing::failure(combine(), text);
}

CombineSignature signature(llvm::StringRef text) {
  const Problem problem = parse(text);
  const CombineSignature result = readCombineSignature(problem.signature);
  CHECK(toValues(result) == problem.signature);
  return result;
}

struct Bound {
  CombineParams params;
  KernelStep step;
};
Bound launchOf(llvm::StringRef text, llvm::StringRef config) {
  static Problem problem;
  problem = parse(text);
  auto named = llvm::cantFail(combine().parseConfig(config));
  const Plan plan = named.tmpl->plan(problem, named.config, h200());
  Arguments arguments = combine().defaultArguments(problem);
  for (int i = 0; i < CombineOperand::Count; ++i)
    arguments.operands[i].address = 0x1000 * (i + 1);
  LaunchSpec spec;
  plan.binder->bind(arguments, {}, spec);
  REQUIRE(spec.stepCount == 1);
  return {spec.paramsOf<CombineParams>(spec.steps[0].kernel),
          spec.steps[0].kernel};
}

const std::string kPlain = "tokens=64 cols=2048 topk=8 dtype=bf16";

} // namespace

TEST_CASE("combine: equal problems have equal text") {
  CHECK(parse(kPlain + " eps=1e-6 ldx=2048 ldy=2048 ldresidual=9000 "
                       "ldresidualout=9000 align=16")
            .text() == "combine " + kPlain);
  CHECK(parse(kPlain + " residual=1 ldresidualout=4096").text() ==
        "combine " + kPlain + " residual=1");
  CHECK(parse(kPlain + " residual=1 norm=1 ldresidualout=4096").text() ==
        "combine " + kPlain + " residual=1 norm=1 ldresidualout=4096");
}

TEST_CASE("combine: what is not a problem is named") {
  CHECK(failure(kPlain + " norm=1 eps=-1") == "combine: eps=-1 is negative");
  CHECK(failure("tokens=1073741824 cols=1 topk=2 dtype=bf16") ==
        "combine: tokens=1073741824 topk=2: x has at most 2^31 - 1 rows");
  CHECK(failure(kPlain + " ldx=2047") != "");
}

TEST_CASE("combine: a signature has the alignment of all rows") {
  CHECK(signature(kPlain + " weights=applied") ==
        CombineSignature{.in = DType::BF16, .weighted = true});
  CHECK(signature(kPlain + " weights=present shared=1 residual=1 norm=1") ==
        CombineSignature{.in = DType::BF16,
                         .weighted = true,
                         .shared = true,
                         .residual = true,
                         .norm = true});
  CHECK(signature(kPlain + " align=4").align == 4);
  CHECK(signature(kPlain + " ldx=2050").align == 4);
  CHECK(signature("tokens=1 cols=2047 topk=1 dtype=bf16").align == 2);
  // The leading dimension of an operand that is not there does not count.
  CHECK(signature(kPlain + " ldshared=2051").align == 16);
}

TEST_CASE("combine: a norm keeps a token in a block") {
  const Bound sum = launchOf(kPlain, "rows.l64.r1.i1.a8");
  CHECK(sum.params.pieces == 4);
  CHECK(sum.step.grid.x == 256);
  CHECK(sum.step.block.x == 64);
  const Bound norm =
      launchOf(kPlain + " residual=1 norm=1 eps=1e-6", "rows.l64.r1.i1.a8");
  CHECK(norm.params.pieces == 1);
  CHECK(norm.step.grid.x == 64);
  CHECK(norm.params.residualOut != nullptr);
  CHECK(norm.params.epsilon == 1e-6f);
  const Bound warps = launchOf(kPlain + " norm=1", "rows.l32.r8.i4.a2");
  CHECK(warps.step.grid.x == 8);
  CHECK(warps.step.block.x == 256);
}
