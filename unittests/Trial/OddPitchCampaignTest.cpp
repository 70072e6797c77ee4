// Rows that begin anywhere: odd columns and odd pitches of every family, with
// every class of configs. A kernel that reads or writes whole vectors has to
// treat the ends of each row separately. The canaries of trials find writes
// between rows, in front of an operand or behind it, and reads there give NaN.
// On a real GPU.
#include "Families/Families.h"
#include "Trial/Campaign.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

/// Rows and transpositions try nearly all classes of configs; products the best
/// of each template and a few more.
constexpr size_t kMostClasses = 12, kProductConfigs = 6;

/// Odd numbers around a vector, a warp's worth of vectors, a block's worth, and
/// more than registers hold.
constexpr int64_t kColumns[] = {1,    3,    7,    33,    63,   65,
                                127,  257,  777,  1023,  1025, 2049,
                                4097, 8191, 9001, 16385, 50257};

/// The elements added to a packed row, and the place where operands begin.
struct Pitch {
  int64_t added;
  const char *align; ///< of the operands' addresses; 16 where it is empty
};
constexpr Pitch kPitches[] = {
    {0, ""}, {1, ""}, {7, " align=2"}, {0, " align=4"}};

/// One in kShare combinations is tried first. The number is odd, so that each
/// size meets each pitch.
constexpr size_t kShare = 7;

/// Texts of one family with a place for its pitches.
struct OddFamily {
  const char *name;
  std::vector<std::string> options;
  /// Keys of leading dimensions of matrices with as many columns.
  std::vector<const char *> pitches;
};

std::vector<OddFamily> oddFamilies() {
  return {
      {"softmax",
       {" dtype=bf16", " dtype=fp32 mask=2", " dtype=fp16 scale=0.5 out=fp32"},
       {"ldx", "ldy"}},
      {"softmax", {" dtype=bf16 mask=1"}, {"ldx", "ldy", "ldmask"}},
      {"rmsnorm",
       {" dtype=bf16 weight=1", " dtype=fp32 weight=1 out=bf16",
        " dtype=fp16 out=int8"},
       {"ldx", "ldy"}},
      {"rmsnorm",
       {" dtype=bf16 weight=1 residual=1"},
       {"ldx", "ldy", "ldr", "ldh"}},
      {"layernorm",
       {" dtype=bf16 weight=1 bias=1", " dtype=fp32 weight=1",
        " dtype=fp16 bias=1 out=fp8_e4m3"},
       {"ldx", "ldy"}},
      {"layernorm",
       {" dtype=fp16 weight=1 bias=1 residual=1"},
       {"ldx", "ldy", "ldr", "ldh"}},
      {"rowquant",
       {" dtype=bf16", " dtype=fp32 op=quant_int8_per_row"},
       {"ldx", "ldy"}},
      {"reduce",
       {" dtype=bf16 op=sum", " dtype=fp32 op=max",
        " dtype=fp16 op=sumsq axis=all out=fp32"},
       {"ldx"}},
      {"elementwise",
       {" dtype=bf16 op=bias,gelu_tanh", " dtype=fp32 out=bf16",
        " dtype=fp16 op=row_bias,col_scale", " dtype=bf16 out=fp8_e4m3"},
       {"ldx", "ldy"}},
      {"elementwise",
       {" dtype=bf16 op=silu,mul", " dtype=fp32 op=bias,add"},
       {"ldx", "ldy", "ldo"}},
  };
}

void addClasses(std::vector<Triple> &triples, const KernelFamily &family,
                const std::string &text, const DeviceModel &device,
                size_t most = kMostClasses) {
  auto problem = family.parseProblem(text);
  // An alignment below the type's own is invalid.
  if (!problem) {
    llvm::consumeError(problem.takeError());
    return;
  }
  for (std::string &config : bestConfigs(family, *problem, device, most))
    triples.push_back(
        {&family, *problem, std::move(config),
         triples.size() % 2 ? TrialData::Outliers : TrialData::Usual});
}

/// Every \p share-th of all combinations, from \p first on.
std::vector<Triple> oddRows(const Registry &registry, const DeviceModel &device,
                            size_t first, size_t share) {
  constexpr int64_t kRows[] = {1, 5, 130};
  std::vector<Triple> triples;
  size_t next = 0;
  for (const OddFamily &odd : oddFamilies())
    for (const std::string &options : odd.options)
      for (int64_t cols : kColumns)
        for (const Pitch &pitch : kPitches) {
          if (++next % share != first)
            continue;
          std::string text = fmt::format("rows={} cols={}{}{}", kRows[next % 3],
                                         cols, options, pitch.align);
          for (const char *key : odd.pitches)
            if (pitch.added)
              text += fmt::format(" {}={}", key, cols + pitch.added);
          addClasses(triples, **registry.get(odd.name), text, device);
        }
  return triples;
}

/// Transposition has two pitches, each of which may be odd.
std::vector<Triple> oddTranspositions(const Registry &registry,
                                      const DeviceModel &device) {
  const KernelFamily &family = **registry.get("transpose2d");
  std::vector<Triple> triples;
  for (const char *type : {"bf16", "fp32", "int8"})
    for (auto [rows, cols] : {std::pair<int64_t, int64_t>(1, 4097),
                              {4097, 1},
                              {63, 65},
                              {130, 257},
                              {1023, 513},
                              {64, 1001},
                              {1001, 64},
                              {300, 50257}})
      for (auto [addX, addY] :
           {std::pair<int64_t, int64_t>(0, 0), {1, 0}, {0, 3}, {7, 1}}) {
        std::string text =
            fmt::format("rows={} cols={} dtype={}", rows, cols, type);
        if (addX)
          text += fmt::format(" ldx={}", cols + addX);
        if (addY)
          text += fmt::format(" ldy={} align={}", rows + addY,
                              llvm::StringRef(type) == "fp32" ? 4 : 2);
        addClasses(triples, family, text, device);
      }
  return triples;
}

/// Products whose pitches are odd, or multiples of 4, 8 and 16 bytes alone.
std::vector<Triple> oddProducts(const Registry &registry,
                                const DeviceModel &device) {
  constexpr const char *kTypes[] = {" dtype=fp32", " dtype=fp32 compute=tf32",
                                    " dtype=fp16", " dtype=bf16"};
  const KernelFamily &family = **registry.get("gemm");
  std::vector<Triple> triples;
  size_t next = 0;
  for (const char *type : kTypes)
    for (const char *layout : {"NN", "NT", "TN", "TT"})
      for (auto [m, n, k] :
           {std::tuple<int64_t, int64_t, int64_t>(1, 777, 1001),
            {17, 1001, 333},
            {130, 258, 516},
            {333, 129, 777},
            {260, 1032, 264}}) {
        const bool isTA = layout[0] == 'T', isTB = layout[1] == 'T';
        const int64_t added[] = {0, 1, 3, 4};
        std::string text =
            fmt::format("m={} n={} k={} layout={}{}", m, n, k, layout, type);
        if (const int64_t more = added[++next % std::size(added)])
          text += fmt::format(" lda={} ldb={} ldd={}", (isTA ? m : k) + more,
                              (isTB ? k : n) + more, n + more);
        addClasses(triples, family, text, device, kProductConfigs);
      }
  return triples;
}

/// More elements than an int counts, in odd rows or in odd pitches: in each of
/// them a row begins behind the 2^31st element.
std::vector<Triple> oddGiants(const Registry &registry,
                              const DeviceModel &device) {
  constexpr size_t kConfigs = 2;
  std::vector<Triple> triples;
  for (llvm::StringRef text : {
           "softmax rows=65599 cols=32771 dtype=bf16",
           "layernorm rows=3 cols=1001 ldx=1073741831 ldy=1003 dtype=fp16 "
           "weight=1 bias=1",
           "rmsnorm rows=65543 cols=32771 dtype=bf16 weight=1 out=fp8_e4m3",
           "rowquant rows=1050001 cols=2047 dtype=bf16",
           "reduce op=sum rows=65543 cols=32771 dtype=bf16 out=fp32",
           "reduce op=max axis=all rows=65543 cols=32771 dtype=bf16",
           "elementwise op=bias,relu rows=65543 cols=32771 dtype=bf16 "
           "out=fp8_e4m3",
           "elementwise op=add rows=3 cols=1001 ldx=1003 ldy=1073741831 "
           "ldo=1005 dtype=bf16",
           "transpose2d rows=46349 cols=46351 dtype=int8",
           "transpose2d rows=3 cols=1001 ldx=1073741831 ldy=5 dtype=bf16",
       })
    addClasses(triples, **registry.get(text.split(' ').first), text.str(),
               device, kConfigs);
  return triples;
}

} // namespace

TEST_CASE("campaigns of odd pitches find configs for every family") {
  Registry registry = makeBuiltinRegistry();
  for (const char *name : {"h200-sxm", "rtx-4090"}) {
    DeviceModel device = must(findDevice(name));
    std::vector<Triple> rows = oddRows(registry, device, 0, kShare);
    CHECK(rows.size() >= 500);
    for (const char *family : {"softmax", "rmsnorm", "layernorm", "rowquant",
                               "reduce", "elementwise"})
      CHECK(std::any_of(rows.begin(), rows.end(), [&](const Triple &triple) {
        return triple.family->name() == family;
      }));
    CHECK(oddTranspositions(registry, device).size() >= 3 * 8 * 4);
    CHECK(oddProducts(registry, device).size() >= 4 * 4 * 5);
    CHECK(oddGiants(registry, device).size() >= 10);
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("campaign: rows of odd columns and pitches are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, oddRows(gpu.registry, gpu.device, 0, kShare));
  }

  TEST_CASE("campaign: more rows of odd columns and pitches are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    for (size_t first = 1; first < kShare; ++first)
      checkAll(gpu, oddRows(gpu.registry, gpu.device, first, kShare));
  }

  TEST_CASE("campaign: transpositions of odd pitches are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, oddTranspositions(gpu.registry, gpu.device));
  }

  TEST_CASE("campaign: products of odd pitches are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    checkAll(gpu, oddProducts(gpu.registry, gpu.device));
  }

  TEST_CASE("campaign: odd rows beyond 2^31 elements are right") {
    GpuTrials gpu(makeBuiltinRegistry());
    // Operands of 4 GB, saved outputs and the reference.
    constexpr uint64_t kRoom = uint64_t(30) << 30;
    gpu.runner = must(InProcessTrials::create(
        *gpu.driver, gpu.device, *gpu.artifacts, {.scratchBytes = kRoom}));
    checkAll(gpu, oddGiants(gpu.registry, gpu.device));
  }

} // TEST_SUITE
