// The problems on which each family's pools are judged.
#include "Kernel/PoolDraws.h"

#include "Families/Families.h"
#include "Support/Error.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <set>

using namespace kiln;

namespace {

const Registry &families() {
  static const Registry registry = makeBuiltinRegistry();
  return registry;
}

/// Text of a problem of each family, without the drawn fields.
constexpr const char *kSubjects[] = {
    "gemm dtype=bf16 layout=NT",
    "gemm dtype=bf16 layout=TN pointwise=bias,relu",
    "gemm dtype=e4m3 layout=NT scale_a=1x128 scale_b=128x128",
    "gemm dtype=bf16 layout=NT pointwise=swiglu",
    "gemm dtype=bf16 layout=NT out=e4m3 scale_d=1x128",
    "gemm dtype=bf16 layout=NT groups=ends gather=1",
    "gemm dtype=bf16 layout=NT groups=masked",
    "gemm dtype=bf16 layout=NT b=int4 order_b=k64r16 scale_b=1x128",
    "rmsnorm dtype=bf16 weight=1",
    "layernorm dtype=fp16 weight=1 bias=1",
    "softmax dtype=fp32 mask=1",
    "rowquant dtype=bf16",
    "reduce dtype=fp32 op=sum",
    "transpose2d dtype=bf16",
    "gather dtype=bf16",
    "gather dtype=fp8_e4m3 out=bf16 by=both index=int64",
    "elementwise op=silu,mul dtype=bf16",
    "elementwise op=cast_fp32_bf16",
    "attention dtype=bf16 d=128 mask=causal",
    "attention dtype=bf16 d=128 mask=causal kvlen=used pages=table",
    "attention dtype=bf16 d=576 dv=512 latent=1",
    "attention dtype=bf16 d=64 qlen=packed kvlen=packed",
    "attention_merge d=128 dtype=bf16",
    "prepack source=gptq group=128",
    "rope dtype=bf16 d=128 rotary=128 kcache=1 vcache=1 slots=array",
    "sample dtype=bf16",
    "sample dtype=fp32 temperature=1 topk=1 topp=1",
    "route topk=8 dtype=fp32 renorm=1",
    "combine topk=8 dtype=bf16 residual=1 norm=1 eps=1e-6",
    "allreduce ranks=2 dtype=bf16 residual=1 norm=1",
};

llvm::Expected<PoolSubject> parseSubject(llvm::StringRef text) {
  auto [name, fields] = text.split(' ');
  const KernelFamily *family = families().find(name);
  REQUIRE(family);
  return PoolSubject::parse(*family, fields);
}

PoolSubject subjectOf(llvm::StringRef text) {
  auto subject = parseSubject(text);
  if (!subject)
    FAIL(text.str() << ": " << summarize(subject.takeError()).message);
  return std::move(*subject);
}

std::string messageOf(llvm::StringRef text) {
  auto subject = parseSubject(text);
  REQUIRE_FALSE(subject);
  return summarize(subject.takeError()).message;
}

/// Texts of some problems of \p subject.
std::vector<std::string> drawnTexts(const PoolSubject &subject, uint64_t seed,
                                    size_t layers = 24) {
  std::vector<std::string> texts;
  PoolSubject::Random random(seed);
  for (size_t i = 0; i < layers; ++i) {
    auto layer = subject.drawLayer(random);
    REQUIRE(layer);
    for (size_t place : {size_t(0), size_t(i % 64), size_t(63)})
      if (auto problem = subject.drawAt(*layer, place, 64, random)) {
        CHECK(problem->signature == subject.signature());
        CHECK_FALSE(subject.family().isEmpty(*problem));
        texts.push_back(problem->text());
      }
  }
  return texts;
}

} // namespace

TEST_CASE("draws of every family are valid problems of one signature") {
  std::set<std::string> seen;
  for (const char *text : kSubjects) {
    CAPTURE(text);
    const PoolSubject subject = subjectOf(text);
    seen.insert(subject.family().name().str());
    const std::vector<std::string> texts = drawnTexts(subject, 7);
    CHECK(texts.size() > 30);
    for (const std::string &drawn : texts) {
      auto again = families().parseProblem(drawn);
      if (!again)
        FAIL(drawn << ": " << summarize(again.takeError()).message);
      CHECK(again->problem.signature == subject.signature());
    }
    CHECK(drawnTexts(subject, 7) == texts);
    CHECK(drawnTexts(subject, 8) != texts);
  }
  CHECK(seen.size() == families().families().size());
}

TEST_CASE("draws are the same in all processes and libraries") {
  // These texts are fixed: a change changes the pools of all users.
  const std::vector<std::string> texts =
      drawnTexts(subjectOf("gemm dtype=bf16 layout=NT"), 1, 2);
  REQUIRE(texts.size() == 5); // one is too large
  CHECK(texts[2] == "gemm m=65536 n=224 k=3016 dtype=bf16 layout=NT");
  CHECK(texts[4] == "gemm m=1 n=1000 k=720 dtype=bf16 layout=NT batch=108");
}

TEST_CASE("a grid has both ends and grows") {
  for (int64_t high : {INT64_C(1), INT64_C(7), INT64_C(65536)}) {
    CHECK(gridValue(1, high, 0, 64) == 1);
    CHECK(gridValue(1, high, 63, 64) == high);
    for (size_t place = 1; place < 64; ++place)
      CHECK(gridValue(1, high, place, 64) >= gridValue(1, high, place - 1, 64));
  }
  CHECK(gridValue(INT64_C(1) << 30, INT64_C(1) << 31, 1, 2) == INT64_C(1)
                                                                   << 31);
}

TEST_CASE("values of any alignment are drawn where the signature stays") {
  // Rows of any length have one signature; products have several.
  auto oddOf = [](llvm::StringRef text, llvm::StringRef key) {
    size_t odd = 0;
    const PoolSubject subject = subjectOf(text);
    PoolSubject::Random random(3);
    for (int i = 0; i < 200; ++i)
      odd += subject.drawLayer(random)->get(key) % 2;
    return odd;
  };
  CHECK(oddOf("rmsnorm dtype=bf16", "cols") > 5);
  CHECK(oddOf("gemm dtype=bf16 layout=NT", "k") == 0);
}

TEST_CASE("each alignment class has a pool of its own") {
  const PoolSubject aligned = subjectOf("gemm dtype=bf16 layout=NT");
  const std::vector<PoolSubject> all = aligned.allAlignments();
  CHECK(all.size() >= 16); // four of k by four of n
  CHECK(all.front().signature() == aligned.signature());
  std::set<std::string> signatures;
  for (const PoolSubject &subject : all)
    signatures.insert(subject.signature().text());
  CHECK(signatures.size() == all.size());
  drawnTexts(all.back(), 5, 4);
  CHECK(subjectOf("rmsnorm dtype=bf16").allAlignments().size() == 1);
}

TEST_CASE("what is drawn is not stated, and what is not has to be right") {
  CHECK(messageOf("gemm dtype=bf16 layout=NT k=4096")
            .find("leave out k, a pool serves all values of it") !=
        std::string::npos);
  CHECK(messageOf("gemm layout=NT").find("dtype") != std::string::npos);
  CHECK(messageOf("gemm dtype=bf16 layout=XX").find("XX") != std::string::npos);
  CHECK(messageOf("gemm dtype=bf16 b=fp16").find("b=fp16") !=
        std::string::npos);
}

TEST_CASE("sizes of a described problem are ignored") {
  const KernelFamily *family = families().find("gemm");
  auto problem =
      family->parseProblem("m=3 n=1001 k=77 dtype=bf16 layout=NT lda=80");
  REQUIRE(static_cast<bool>(problem));
  auto subject = PoolSubject::of(*family, problem->values);
  REQUIRE(static_cast<bool>(subject));
  CHECK(subject->signature() ==
        subjectOf("gemm dtype=bf16 layout=NT").signature());
  CHECK(subject->text() == "gemm dtype=bf16 layout=NT");
}
