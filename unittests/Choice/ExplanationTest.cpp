// The parts of an explanation around its derivation: the roofline, neighbours,
// other sizes.
#include "Choice/Explanation.h"

#include "Families/FamilyTesting.h"

#include <llvm/ADT/STLExtras.h>

#include <cmath>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// An explanation with all that it refers to.
struct Explained {
  DeviceModel device;
  const KernelFamily *family;
  Problem problem;
  Explanation explanation;

  Explained(llvm::StringRef text, llvm::StringRef name,
            std::optional<std::string> config = {})
      : device(testing::device(name)),
        family(registry().find(text.split(' ').first)),
        problem(parse(*family, text)),
        explanation(llvm::cantFail(
            explain({*family, problem, device, {}, std::move(config)}))) {}

  double value(llvm::StringRef step) const {
    const DerivationStep *found = explanation.derivation.find(step);
    CAPTURE(step.str());
    REQUIRE(found);
    return found->value();
  }
};

constexpr llvm::StringLiteral kSquare =
    "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT";

} // namespace

TEST_CASE("C2, C9: a problem's intensity has the bytes and flop that it has") {
  const Explained square(kSquare, "h200-sxm");
  const Explained added(kSquare.str() + " beta=1", "h200-sxm");
  // C is read: a third as many bytes again.
  CHECK(added.value("bytes of the problem") ==
        doctest::Approx(4. / 3 * square.value("bytes of the problem")));
  CHECK(added.value("intensity of the problem") ==
        doctest::Approx(3. / 4 * square.value("intensity of the problem")));
  // Groups have the rows that there are.
  const Explained groups("gemm m=1024 n=1024 k=7168 batch=8 groups=ends "
                         "dtype=fp16 layout=NT",
                         "l40s");
  CHECK(groups.value("intensity of the problem") *
            groups.value("bytes of the problem") ==
        doctest::Approx(2. * 1024 * 1024 * 7168));
}

TEST_CASE("C8: nothing is faster than its limits") {
  for (llvm::StringRef name :
       {"h200-sxm", "h100-pcie", "a100-sxm4-40gb", "l40s", "t4", "v100-sxm2"})
    for (llvm::StringRef text :
         {"gemm m=4096 n=4096 k=4096 dtype=fp16 layout=NT",
          "gemm m=4096 n=4096 k=4096 dtype=fp32 layout=NN",
          "gemm m=1 n=28672 k=8192 dtype=fp16 layout=NT",
          "gemm m=16 n=14336 k=14464 dtype=fp16 layout=NT b=int4 "
          "order_b=k64r16 scale_b=1x128",
          "gemm m=16512 n=512 k=7424 batch=8 groups=ends dtype=fp16 layout=NT",
          "attention batch=16 sq=1 sk=8192 heads=32 kvheads=8 d=128 dtype=fp16",
          "attention batch=4 sq=4096 sk=4096 heads=16 d=128 dtype=fp16 "
          "mask=causal",
          "softmax rows=1 cols=262144 dtype=fp16",
          "rmsnorm rows=65536 cols=8192 dtype=fp16",
          "elementwise op=silu rows=65536 cols=8192 dtype=fp16",
          "reduce op=sum rows=65536 cols=8192 dtype=fp16",
          "transpose2d rows=16384 cols=16384 dtype=fp16"}) {
      CAPTURE(name.str());
      CAPTURE(text.str());
      const Explained explained(text, name);
      size_t shares = 0;
      for (const DerivationStep &step : explained.explanation.derivation) {
        CHECK(std::isfinite(step.value()));
        if (step.section == "roofline" && step.name().starts_with("share")) {
          CAPTURE(step.name().str());
          CHECK(step.value() <= 1);
          ++shares;
        }
      }
      CHECK(shares >= 1);
    }
}

TEST_CASE("neighbours break a limit or have a cost, and name it") {
  const Explained square(kSquare, "h200-sxm");
  const auto &neighbours = square.explanation.neighbours;
  const auto find = [&](llvm::StringRef knob, int64_t to) {
    auto found = llvm::find_if(neighbours, [&](const Neighbour &neighbour) {
      return neighbour.knob == knob && neighbour.to == to;
    });
    REQUIRE(found != neighbours.end());
    return *found;
  };
  // Values between that are no tile of this kernel are passed over.
  const Neighbour taller = find("blockM", 256);
  REQUIRE(taller.rejection);
  CHECK(taller.rejection->text() ==
        "register wall: 256 accumulators a thread, 192 allowed");
  const Neighbour deeper = find("stages", 5);
  REQUIRE(deeper.rejection);
  CHECK(deeper.rejection->reason == PruneReason::SharedMemory);
  const Neighbour shallower = find("stages", 3);
  REQUIRE(!shallower.rejection);
  // Largest first: the loop, and what power gives back of it.
  REQUIRE(shallower.changes.size() >= 2);
  CHECK(shallower.changes[0].name == "loop");
  CHECK(shallower.changes[1].name == "beyond the path");
  CHECK(shallower.changes[1].ns < 0);
  CHECK(shallower.estimate.totalNs >
        square.explanation.subject.estimate.totalNs);
  // Each is the estimate of its config.
  for (const Neighbour &neighbour : neighbours)
    if (!neighbour.rejection)
      CHECK(neighbour.estimate.totalNs ==
            square.explanation.subject.tmpl
                ->estimate(square.problem, neighbour.config, square.device)
                .totalNs);
}

TEST_CASE("other sizes and devices are planned") {
  const Explained square(kSquare, "h200-sxm");
  const auto &changed = square.explanation.changed;
  const auto find = [&](llvm::StringRef change) {
    auto found = llvm::find_if(changed, [&](const ChangedChoice &choice) {
      return choice.change == change;
    });
    CAPTURE(change.str());
    REQUIRE(found != changed.end());
    return *found;
  };
  const Explained few("gemm m=16 n=4096 k=4096 dtype=bf16 layout=NT",
                      "h200-sxm");
  CHECK(find("m = 16").first.config == few.explanation.subject.config);
  const Explained deep("gemm m=4096 n=4096 k=8192 dtype=bf16 layout=NT",
                       "h200-sxm");
  CHECK(find("m doubled").first.estimate.totalNs >
        square.explanation.subject.estimate.totalNs);
  CHECK(find("k doubled").first.estimate.totalNs ==
        deep.explanation.subject.estimate.totalNs);
  CHECK(find("shared memory halved").rejection);
  CHECK(find("bandwidth of L2 halved").subject.totalNs >
        square.explanation.subject.estimate.totalNs);
  // Fields that the problem does not name are no sizes of it.
  for (const ChangedChoice &choice : changed)
    CHECK(!llvm::StringRef(choice.change).starts_with("divisor"));
}

TEST_CASE("an explanation of every kind of family has its tables") {
  for (llvm::StringRef text :
       {"attention batch=2 sq=1 sk=4096 heads=8 d=128 dtype=bf16",
        "rmsnorm rows=4096 cols=4096 dtype=bf16 weight=1",
        "transpose2d rows=4096 cols=4096 dtype=bf16"}) {
    CAPTURE(text.str());
    const Explained explained(text, "h200-sxm");
    CHECK(!explained.explanation.neighbours.empty());
    CHECK(explained.explanation.changed.size() >= 3);
    CHECK(explained.explanation.rival);
  }
}
