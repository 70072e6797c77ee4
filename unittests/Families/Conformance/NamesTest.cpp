// Names of the kernels of every family of Families.def, as profilers show them,
// and their parsed form.
#include "Families/Conformance/Draw.h"

#include "Kernel/KernelName.h"
#include "Kernel/Space.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

using namespace kiln;
using namespace kiln::conformance;

namespace {

bool isSpelledWell(llvm::StringRef name) {
  return name.size() <= kMaxKernelName && llvm::all_of(name, [](char c) {
           return llvm::isAlnum(c) || c == '_';
         });
}

KernelName parsed(llvm::StringRef name) {
  auto kernel = parseKernelName(registry(), name);
  if (!kernel)
    FAIL(summarize(kernel.takeError()).message);
  return *kernel;
}

std::string refusal(llvm::StringRef name) {
  auto kernel = parseKernelName(registry(), name);
  REQUIRE(!kernel);
  ErrorSummary error = summarize(kernel.takeError());
  CHECK(error.code == ErrorCode::InvalidArgument);
  return error.message;
}

/// The fault of the name of a kernel of \p config; empty for no fault.
std::string faultOfConfig(const KernelFamily &family, const Template &tmpl,
                          const Values &config) {
  const std::string name =
      tagged(kernelName(family.problemSchema(), config), "{}");
  if (!isSpelledWell(name))
    return name + " is spelled badly";
  KernelName kernel = parsed(name);
  if (kernel.family != &family || kernel.tmpl != &tmpl ||
      kernel.config.compiledText() != config.compiledText() ||
      kernel.text() != family.name().str() + " " + config.compiledText())
    return name + " is read as " + kernel.text();
  return "";
}

/// Units have their entries' names, and the first name is \p candidate's.
void checkPlan(const KernelFamily &family, const Problem &problem,
               const Candidate &candidate) {
  Plan plan = candidate.tmpl->plan(problem, candidate.config, h200());
  for (const TranslationUnit &unit : plan.kernels) {
    CAPTURE(unit.name());
    CHECK(unit.name() == unit.entry());
    CHECK(isSpelledWell(unit.entry()));
    KernelName kernel = parsed(unit.entry());
    CHECK(kernel.family == &family);
    const bool isFirst = &unit == &plan.kernels.front();
    CHECK((kernel.tmpl != nullptr) == isFirst);
    if (isFirst)
      CHECK(kernel.config.compiledText() == candidate.config.compiledText());
    else
      CHECK(llvm::StringRef(kernel.role).starts_with("step "));
  }
}

} // namespace

TEST_CASE("conformance: kernels have names that are read back") {
  for (const auto &family : registry().families()) {
    CAPTURE(family->name().str());
    CHECK(family->problemSchema().name() == family->name());
    for (const Problem &problem : drawWork(*family, Sizes::Usual, 12)) {
      CAPTURE(problem.text());
      Space space = llvm::cantFail(exploreSpace(*family, problem, h200()));
      for (const Candidate &candidate : space.ranked) {
        CHECK(faultOfConfig(*family, *candidate.tmpl, candidate.config) == "");
      }
      if (!space.ranked.empty())
        checkPlan(*family, problem, space.ranked.front());
      const std::string reference =
          family->reference(problem, h200())->translationUnit().entry();
      CAPTURE(reference);
      CHECK(isSpelledWell(reference));
      CHECK(llvm::StringRef(parsed(reference).role).starts_with("reference"));
    }
  }
}

TEST_CASE("conformance: no knobs make a name too long, no word is taken") {
  for (const auto &family : registry().families())
    for (const auto &tmpl : family->templates()) {
      CAPTURE(family->name().str());
      CAPTURE(tmpl->name().str());
      CHECK(tmpl->name() != "reference");
      CHECK(tmpl->name() != "step");
      Values config(tmpl->configSchema());
      for (auto [i, field] : llvm::enumerate(config.schema().fields())) {
        CHECK(field.key != "sig");
        CHECK_FALSE(field.meaning.empty());
        config.set(static_cast<int>(i), field.maximum);
      }
      CHECK(faultOfConfig(*family, *tmpl, config) == "");
    }
}

TEST_CASE("signatures of one config have names apart") {
  const KernelFamily &gemm = *registry().find("gemm");
  const Template &mma = *gemm.findTemplate("mma");
  auto problemOf = [&](llvm::StringRef types) {
    return testing::parse(gemm, ("m=512 n=512 k=512 layout=NT " + types).str());
  };
  const Problem bf16 = problemOf("dtype=bf16");
  const Space space = llvm::cantFail(exploreSpace(gemm, bf16, h200()));
  auto first = llvm::find_if(space.ranked, [&](const Candidate &candidate) {
    return candidate.tmpl == &mma;
  });
  REQUIRE(first != space.ranked.end());
  auto nameOf = [&](const Problem &problem) {
    return mma.plan(problem, first->config, h200()).kernels[0].name();
  };
  const Problem fp16 = problemOf("dtype=fp16");
  CHECK(nameOf(bf16) != nameOf(fp16));
  CHECK(parsed(nameOf(bf16)).config == parsed(nameOf(fp16)).config);
  CHECK(nameOf(bf16) == nameOf(problemOf("dtype=bf16 batch=3")));
}

TEST_CASE("what is no kernel's name is refused with a reason") {
  CHECK(parsed("kiln_gemm_step_gather_sig01ef").text() == "gemm step gather");
  CHECK(parsed("kiln_softmax_reference_sig01ef").text() == "softmax reference");
  CHECK(parsed("kiln_gemm_reference_quantized_sig01ef").role ==
        "reference quantized");
  // One family's name begins with another's.
  CHECK(parsed("kiln_attention_merge_reference_sig01ef").family->name() ==
        "attention_merge");
  CHECK(parsed("kiln_attention_reference_sig01ef").tag == "01ef");
  const std::string begin = " is not the name of a kernel of Kiln: ";
  CHECK(refusal("") == "''" + begin + "it does not begin with kiln_");
  for (const char *name :
       {"kilnFlushL2", "cutlass_gemm_sig01ef", "KILN_gemm_reference_sig01ef"})
    CHECK(refusal(name).find("does not begin with") != std::string::npos);
  for (const char *name :
       {"kiln_", "kiln_sig01ef", "kiln_gemm", "kiln_gemm_reference",
        "kiln_gemm_reference_sig", "kiln_gemm_reference_sig01e",
        "kiln_gemm_reference_sig01eg", "kiln_gemm_reference_sig01EF",
        "kiln_gemm_reference_sig01ef "})
    CHECK(refusal(name).find("the tag of a signature") != std::string::npos);
  CHECK(refusal("kiln_conv_mma_bm64_sig01ef").find("no family") !=
        std::string::npos);
  CHECK(refusal("kiln_gemm_step_sig01ef").find("no template 'step'") !=
        std::string::npos);
  CHECK(refusal("kiln_gemm_mma_bm64_zz7_sig01ef").find("unknown key") !=
        std::string::npos);
  CHECK(refusal("kiln_gemm_mma_sig01ef").find("missing") != std::string::npos);
}
