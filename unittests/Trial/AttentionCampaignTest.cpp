// Attentions through the trials that a tuner runs: random problems, templates
// and configs, and grids of awkward sizes. All of them must be right, on a real
// GPU.
#include "Families/Families.h"
#include "Trial/Campaign.h"

#include <cstdlib>
#include <map>

using namespace kiln;
using namespace kiln::fake;

namespace {

//===----------------------------------------------------------------------===//
// Random problems
//===----------------------------------------------------------------------===//

/// Draws triples; the same seed draws the same ones on the same device.
class AttentionGenerator {
public:
  /// No problem has more than \p pairs of queries and keys, over all heads.
  AttentionGenerator(const KernelFamily &family, const DeviceModel &device,
                     unsigned seed, int64_t pairs)
      : family(family), device(device), draws(seed), pairs(pairs) {}

  /// A problem that the template called \p tmpl takes, and one of its configs;
  /// nullopt if it is not for this device.
  std::optional<Triple> draw(llvm::StringRef tmpl, Evenly evenly) {
    const bool decodes = tmpl == "decode" || tmpl == "sm90mla";
    std::optional<Triple> triple;
    do
      triple = draws.tripleIfAny(family, tmpl, device, evenly, [&] {
        latent = tmpl == "sm90mla";
        return problemText(decodes || draws.chance(20));
      });
    while (triple && !hasRoom(triple->problem));
    if (triple && draws.chance(50))
      triple->data = TrialData::Outliers;
    return triple;
  }

private:
  /// Strides may lie far apart.
  bool hasRoom(const Problem &problem) const {
    constexpr int64_t kMostBytes = int64_t(1) << 29;
    int64_t bytes = 0;
    for (const OperandSpec &operand : family.operands(problem).operands)
      bytes += operand.bytes();
    return bytes <= kMostBytes;
  }

  /// Often beside a multiple of what tiles are multiples of.
  int64_t tokens(int64_t most) {
    if (draws.chance(40)) {
      const int64_t count =
          draws.pick({int64_t(1), int64_t(7), int64_t(63), int64_t(64),
                      int64_t(65), int64_t(127), int64_t(128), int64_t(129),
                      int64_t(191), int64_t(193)});
      return std::min(count, most);
    }
    return 1 + draws.below(most);
  }

  std::string problemText(bool decodes) {
    dtype = draws.pick({"bf16", "bf16", "bf16", "fp16", "fp16", "e4m3"});
    drawHeads();
    batch = 1 + draws.below(decodes ? 8 : 4);
    sq = decodes ? 1 + draws.below(draws.chance(50) ? 1 : 16) : tokens(1500);
    sk = tokens(decodes ? 5000 : 1500);
    while (batch * heads * sq * sk > pairs)
      (sk > sq ? sk : sq) /= 2;
    std::string text = fmt::format("batch={} sq={} sk={} heads={} kvheads={} "
                                   "d={} dv={} dtype={}",
                                   batch, sq, sk, heads, kvHeads, d, dv, dtype);
    if (latent)
      text += " latent=1";
    return text + types() + mask() + extras() + lengths() + strides() +
           draws.alignment(dtype == "e4m3" ? 1 : 2);
  }

  void drawHeads() {
    if (latent || draws.chance(4)) {
      latent = true;
      dv = draws.pick({256, 512, 512, 512});
      d = dv + draws.pick({16, 32, 64, 64, 64});
      kvHeads = draws.pick({1, 1, 1, 2});
      heads = kvHeads * draws.pick({1, 5, 16, 24, 64, 128});
      return;
    }
    d = dv = draws.pick({32, 64, 64, 64, 96, 128, 128, 128, 128, 256});
    if (draws.chance(35))
      d = dv = draws.pick({8 * (1 + draws.below(32)), 4 * (2 + draws.below(63)),
                           1 + draws.below(256), 16 * (17 + draws.below(20))});
    kvHeads = 1 + draws.below(3);
    heads = kvHeads * draws.pick({1, 1, 2, 3, 4, 7, 8, 16});
    if (draws.chance(8)) // more than a tile has rows
      heads = kvHeads * draws.pick({65, 71, 96, 127, 200});
    if (draws.chance(8)) {
      d = 192;
      dv = 128;
    } else if (draws.chance(8)) {
      d = 576;
      dv = 512;
      kvHeads = 1;
      heads = draws.pick({1, 16, 32});
    }
  }

  std::string types() {
    const bool isE4m3 = dtype == "e4m3";
    std::string text;
    if (isE4m3 && draws.chance(30))
      text += " out=fp16";
    if (!isE4m3 && !draws.chance(15))
      return text;
    text += isE4m3 ? "" : " kv=e4m3";
    return text + draws.pick({"", " scales=tensor", " scales=head"});
  }

  std::string mask() {
    if (draws.chance(35))
      return "";
    if (draws.chance(60))
      return " mask=causal";
    std::string text = " mask=window";
    if (draws.chance(80))
      text += fmt::format(" left={}", draws.pick({0, 1, 64, 127, 300}));
    if (draws.chance(70))
      text += fmt::format(" right={}", draws.pick({0, 0, 1, 64}));
    return text;
  }

  std::string extras() {
    std::string text;
    for (const char *flag : {" sinks=1", " alibi=1"})
      if (draws.chance(12))
        text += flag;
    if (draws.chance(12))
      text += draws.pick({" softcap=20", " softcap=50"});
    if (draws.chance(12))
      text += draws.pick({" split=128", " split=16"});
    text +=
        draws.pick({"", "", "", "", " scale=0.01", " scale=0.05", " scale=1"});
    return text + (draws.chance(40) ? " lse=1" : "");
  }

  /// Draws fields of tokens, in the device's memory or not, and of pages.
  std::string lengths() {
    std::string text;
    isPlain = false;
    if (draws.chance(25))
      text += " qlen=packed" + capacity("totalq", batch * sq);
    if (draws.chance(20))
      return text + " kvlen=packed" + capacity("totalk", batch * sk);
    if (draws.chance(35))
      text += " kvlen=used";
    if (!draws.chance(30)) {
      isPlain = !llvm::StringRef(text).contains("packed");
      return text;
    }
    const int64_t page = draws.pick({1, 3, 16, 16, 64, 128, 256});
    const int64_t pages = batch * ((sk + page - 1) / page);
    text +=
        fmt::format(" pages={} page={}", draws.pick({"table", "list"}), page);
    // Sequences share pages where there are fewer.
    return text + (draws.chance(30) ? capacity("poolpages", pages) : "");
  }

  /// Less than \p usual, or more.
  std::string capacity(const char *key, int64_t usual) {
    if (draws.chance(50))
      return "";
    return fmt::format(" {}={}", key, 1 + draws.below(usual + usual / 2 + 1));
  }

  /// Views of a tensor of Q, K and V, gaps, and heads before tokens.
  std::string strides() {
    if (draws.chance(60))
      return "";
    if (isPlain && draws.chance(20))
      return draws.pick({" bsk=-1 bsv=-1", " bsk=-1", " bsq=-1"});
    const int64_t together = heads * d + kvHeads * (d + dv);
    if (draws.chance(40))
      return fmt::format(" ldq={0} ldk={0} ldv={0}", together);
    const int64_t gap = draws.chance(70) ? 8 : draws.below(5);
    if (!isPlain || draws.chance(50))
      return fmt::format(" ldq={} ldk={} ldv={} ldo={}", heads * d + gap,
                         kvHeads * d + gap, kvHeads * dv + gap,
                         heads * dv + gap);
    // Nothing is packed, and there are no pages.
    return fmt::format(" ldq={0} hsq={1} ldk={0} hsk={2} ldv={3} hsv={4} "
                       "ldo={3} hso={5}",
                       d, sq * d + gap, sk * d + gap, dv, sk * dv + gap,
                       sq * dv + gap);
  }

  const KernelFamily &family;
  const DeviceModel &device;
  Draws draws;
  int64_t pairs;
  // Properties of the problem being drawn.
  bool latent = false;
  std::string dtype;
  bool isPlain = true; ///< all sequences have strides of their own
  int64_t batch = 1, sq = 1, sk = 1, heads = 1, kvHeads = 1, d = 1, dv = 1;
};

/// The names of the family's templates, generic or not, that take problems of
/// the generator.
std::vector<llvm::StringRef> usableTemplates(const KernelFamily &family,
                                             AttentionGenerator &generator,
                                             bool isGeneric) {
  std::vector<llvm::StringRef> names;
  for (const auto &tmpl : family.templates())
    if (tmpl->isGeneric() == isGeneric &&
        generator.draw(tmpl->name(), Evenly::Configs))
      names.push_back(tmpl->name());
  return names;
}

/// "decode 150, naive 30": the numbers of each template.
std::string countsOf(const std::vector<Triple> &triples) {
  std::map<std::string, size_t> counts;
  for (const Triple &triple : triples)
    ++counts[triple.config.substr(0, triple.config.find('.'))];
  std::string text;
  for (const auto &[tmpl, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", tmpl, count);
  return text;
}

void checkRandom(unsigned seed) {
  GpuTrials gpu(makeBuiltinRegistry());
  const KernelFamily &family = **gpu.registry.get("attention");
  constexpr size_t kTriples = 300, kLeast = 250;
  AttentionGenerator generator(family, gpu.device, seed, /*pairs=*/1 << 25);
  // The generic kernels have few configs and are the least likely to be wrong.
  const auto special = usableTemplates(family, generator, false),
             generic = usableTemplates(family, generator, true);
  std::vector<Triple> triples;
  for (size_t i = 0; i < kTriples; ++i) {
    const bool isGeneric = i % 10 == 0 || special.empty();
    const auto &names = isGeneric ? generic : special;
    triples.push_back(*generator.draw(
        names[(isGeneric ? i / 10 : i) % names.size()],
        i / names.size() % 2 ? Evenly::Classes : Evenly::Configs));
  }
  triples = checkAll(gpu, triples);
  MESSAGE("ran: ", countsOf(triples));
  CHECK(triples.size() >= kLeast);
}

//===----------------------------------------------------------------------===//
// Awkward sizes
//===----------------------------------------------------------------------===//

/// Whether tests should try all cases instead of a sample.
bool isWhole() {
  const char *given = std::getenv("KILN_TEST_WHOLE");
  return given && *given == '1';
}

/// The best configs of each pair of sizes, or of about one in \p period of
/// them, with every mask; the kernels are few.
std::vector<Triple> gridOf(const KernelFamily &family,
                           const DeviceModel &device,
                           std::initializer_list<int64_t> sizes, int period) {
  constexpr size_t kConfigs = 3;
  Draws draws(/*seed=*/period);
  constexpr const char *kMasks[] = {
      "",
      " mask=causal",
      " mask=window left=0 right=0",
      " mask=window left=1 right=0",
      " mask=window left=127 right=0",
      " mask=window left=1024 right=0",
      " mask=window left=64 right=64",
  };
  std::vector<Triple> triples;
  for (const char *mask : kMasks)
    for (int64_t sq : sizes)
      for (int64_t sk : sizes) {
        if (sq == 0 || (!isWhole() && draws.below(period) != 0))
          continue;
        Problem problem = must(family.parseProblem(
            fmt::format("sq={} sk={} heads=4 kvheads=2 d=64 dtype=bf16 lse=1{}",
                        sq, sk, mask)));
        for (std::string &config :
             bestConfigs(family, problem, device, kConfigs))
          triples.push_back({&family, problem, std::move(config)});
      }
  return triples;
}

/// Rows, heads, sequences and pages that lie further apart than 32 bits count
/// elements.
std::vector<Triple> farApart(const KernelFamily &family,
                             const DeviceModel &device) {
  constexpr size_t kConfigs = 8;
  std::vector<Triple> triples;
  for (const char *text :
       {"batch=2 sq=5 sk=300 heads=4 kvheads=2 bsk=2200000000",
        "batch=2 sq=1 sk=300 heads=4 kvheads=2 bsv=2200000000",
        "batch=1 sq=130 sk=300 heads=4 kvheads=2 hsk=2200000000",
        "batch=1 sq=5 sk=300 heads=4 kvheads=2 ldv=8000000",
        "batch=2 sq=1 sk=128 heads=4 kvheads=2 pages=table page=64 "
        "bsk=800000000"}) {
    Problem problem =
        must(family.parseProblem(fmt::format("{} d=64 dtype=fp16", text)));
    for (std::string &config : bestConfigs(family, problem, device, kConfigs))
      triples.push_back({&family, problem, std::move(config)});
  }
  return triples;
}

/// Cases that were wrong once.
std::vector<Triple> onceWrong(const KernelFamily &family,
                              const DeviceModel &device) {
  struct Kind {
    llvm::StringRef problem, config;
  };
  const Kind kKinds[] = {
      // Queries before the first key, in a window without a left end.
      {"batch=8 sq=16 sk=7 heads=14 kvheads=2 d=200 dtype=bf16 mask=window "
       "right=1 ldq=3600 ldk=3600 ldv=3600",
       "decode.r16.t16.st2.w4.sq1"},
      {"sq=665 sk=63 heads=6 kvheads=2 d=64 dtype=bf16 mask=window right=1",
       "sm90.wg1.bn64.st2.dy1.pk3"},
      // Roundings that are the same ten times: all keys are of one page.
      {"batch=2 sq=192 sk=1266 heads=7 kvheads=1 d=128 dtype=bf16 scale=0.05 "
       "lse=1 kvlen=used pages=list page=128 poolpages=1",
       "sm90.wg1.bn128.st2.pk7"},
      // A sink far above all scores.
      {"batch=4 sq=12 sk=1 heads=2 d=64 dtype=bf16 scale=1 sinks=1 alibi=1 "
       "lse=1",
       "sm90.wg2.bn128.st2.pk1"},
      // Greatest scores that grow by 126 to 128 powers of two from one block of
      // keys to the next.
      {"batch=2 sq=300 sk=1500 heads=4 kvheads=2 d=128 dtype=bf16 mask=causal "
       "scale=4 lse=1",
       "sm90.wg1.bn80.st3.pk1"},
      // O with room for more queries than exist, and splits of the keys.
      {"batch=3 sq=5 sk=3000 heads=8 kvheads=2 d=64 dtype=bf16 qlen=packed "
       "totalq=700 split=256 lse=1",
       "decode.r32.t16.st3.w4"},
      {"batch=3 sq=2 sk=3000 heads=8 kvheads=2 d=64 dtype=bf16 qlen=packed "
       "totalq=5 lse=1",
       "decode.r8.t16.st3.w4"},
      {"batch=2 sq=70 sk=3000 heads=4 kvheads=2 d=64 dtype=bf16 qlen=packed "
       "totalq=900 lse=1",
       "sm90.wg1.bn64.st2.dy1.pk1.sp4"},
      {"batch=2 sq=70 sk=3000 heads=4 kvheads=2 d=64 dtype=bf16 qlen=packed "
       "totalq=90 mask=causal lse=1",
       "sm90.wg1.bn64.st2.dy1.pk2.sp4"},
      // V within K, and no operand V.
      {"batch=4 sq=2 sk=1000 heads=64 kvheads=1 d=576 dv=512 dtype=bf16 "
       "latent=1 lse=1",
       "sm90mla.cl1.pc2.f2"},
      {"batch=4 sq=2 sk=1000 heads=64 kvheads=1 d=576 dv=512 dtype=bf16 "
       "latent=1 lse=1",
       "decode.r16.t16.st3.w8.p4.sq1"},
      {"batch=2 sq=300 sk=700 heads=4 d=128 dv=64 dtype=bf16 latent=1 "
       "mask=causal",
       "sm90.wg1.bn128.st2.pk1"},
      {"batch=2 sq=300 sk=700 heads=4 d=128 dv=64 dtype=bf16 latent=1 "
       "mask=causal",
       "mma.dt15.d128.br64.bc64.w4.ac1.el1.sw1.kt2.os1"},
      {"batch=2 sq=30 sk=70 heads=4 d=128 dv=64 dtype=bf16 latent=1",
       "naive.w4"},
  };
  std::vector<Triple> triples;
  for (const Kind &kind : kKinds) {
    Problem problem = must(family.parseProblem(kind.problem));
    auto named = must(family.parseConfig(kind.config));
    for (TrialData data : {TrialData::Usual, TrialData::Outliers})
      if (!named.tmpl->prune(problem, named.config, device))
        triples.push_back({&family, problem, kind.config.str(), data});
  }
  return triples;
}

/// MLA: rows of one block and of several, even and odd numbers of blocks of
/// keys, splits with and without keys, pages.
std::vector<Triple> latentGrid(const KernelFamily &family,
                               const DeviceModel &device) {
  std::vector<Triple> triples;
  for (const char *rows : {"sq=1 heads=1", "sq=1 heads=16", "sq=4 heads=16",
                           "sq=2 heads=128", "sq=3 heads=40"})
    for (int sk : {0, 1, 63, 64, 65, 128, 129, 200, 700, 4097})
      for (const char *kind :
           {"", "mask=causal lse=1", "kvlen=used pages=table page=16 lse=1",
            "kvlen=used mask=causal pages=list page=64",
            "mask=window left=100 right=0 kvlen=used sinks=1",
            "kvlen=packed softcap=20"}) {
        Problem problem = must(family.parseProblem(
            fmt::format("batch=3 {} sk={} kvheads=1 d=576 dv=512 dtype=bf16 "
                        "latent=1 {}",
                        rows, sk, kind)));
        for (const char *config : {"sm90mla.cl1.pc2", "sm90mla.cl2.pc4.f8"}) {
          auto named = must(family.parseConfig(config));
          if (!named.tmpl->prune(problem, named.config, device))
            triples.push_back({&family, problem, config});
        }
      }
  return triples;
}

} // namespace

TEST_CASE("the campaigns of attention find configs for their problems") {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = **registry.get("attention");
  DeviceModel device = must(findDevice("h200-sxm"));
  AttentionGenerator generator(family, device, /*seed=*/5, /*pairs=*/1 << 20);
  std::string all;
  constexpr int kEach = 12;
  for (const auto &tmpl : family.templates())
    for (int i = 0; i < kEach; ++i) {
      auto drawn = generator.draw(tmpl->name(), Evenly::Classes);
      REQUIRE(drawn.has_value());
      all += drawn->text() + "\n";
    }
  for (const char *part : {"kvlen=packed", "kvlen=used", "pages=", "lse=1",
                           "mask=causal", "sinks=1", "outliers"}) {
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: random attentions of every template are right") {
    checkRandom(/*seed=*/20251122);
  }

  TEST_CASE("campaign: more random attentions are right") {
    checkRandom(/*seed=*/20251123);
  }

  // All sizes take some minutes: KILN_TEST_WHOLE=1.
  TEST_CASE("campaign: attentions of awkward sizes are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    auto triples = checkAll(
        gpu,
        gridOf(**gpu.registry.get("attention"), gpu.device,
               {0, 1, 7, 63, 64, 65, 127, 128, 129, 191, 193, 512, 1000, 4097},
               /*period=*/6));
    MESSAGE("ran: ", countsOf(triples));
  }

  TEST_CASE("campaign: attentions with many keys are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    auto triples = checkAll(gpu, gridOf(**gpu.registry.get("attention"),
                                        gpu.device, {1, 191, 1000, 4097},
                                        /*period=*/1));
    MESSAGE("ran: ", countsOf(triples));
  }

  TEST_CASE("campaign: attentions beyond 2^31 elements are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    auto triples =
        checkAll(gpu, farApart(**gpu.registry.get("attention"), gpu.device));
    MESSAGE("ran: ", countsOf(triples));
  }

  TEST_CASE("campaign: latent attentions of awkward sizes are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    auto triples =
        checkAll(gpu, latentGrid(**gpu.registry.get("attention"), gpu.device));
    MESSAGE("ran: ", countsOf(triples));
  }

  TEST_CASE("campaign: attentions that were wrong once are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, onceWrong(**gpu.registry.get("attention"), gpu.device));
  }

  // Small enough to run under compute-sanitizer.
  TEST_CASE("sample of every template of attention") {
    GpuTrials gpu(makeBuiltinRegistry());
    const KernelFamily &family = **gpu.registry.get("attention");
    constexpr unsigned kSeed = 7;
    constexpr int kEach = 12;
    AttentionGenerator generator(family, gpu.device, kSeed, /*pairs=*/1 << 16);
    std::vector<Triple> triples;
    for (bool isGeneric : {false, true})
      for (llvm::StringRef name : usableTemplates(family, generator, isGeneric))
        for (int i = 0; i < kEach; ++i)
          triples.push_back(*generator.draw(name, Evenly::Configs));
    for (const Triple &triple : checkAll(gpu, triples))
      runWithoutRedZones(gpu, triple);
  }

} // TEST_SUITE
