//===- LawWorld.cpp -------------------------------------------------------===//
#include "Law/LawWorld.h"

#include "Families/Attention/DecodeGrid.h"
#include "Families/FamilyTesting.h"
#include "Kernel/ConfigSchema.h"
#include "Support/Format.h"
#include "attention/Sm90AttentionParams.h"
#include "attention/Sm90MlaParams.h"
#include "gemm/Sm90GemmParams.h"
#include "rows/RowParams.h"

#include <llvm/Support/xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>
#include <thread>
#include <utility>

namespace kiln::testing {

//===----------------------------------------------------------------------===//
// Chance
//===----------------------------------------------------------------------===//

/// Mixes \p value into \p hash (splitmix64).
static uint64_t mixed(uint64_t hash, uint64_t value) {
  hash += 0x9e3779b97f4a7c15u + value;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}
static uint64_t mixed(uint64_t hash, llvm::StringRef text) {
  return mixed(hash, llvm::xxh3_64bits(text));
}

/// A number in (0, 1), the same for the same \p hash.
static double uniform(uint64_t hash) {
  return (static_cast<double>(mixed(hash, 1) >> 11) + 0.5) * 0x1p-53;
}

/// A standard normal number (Box and Muller).
static double normal(uint64_t hash) {
  return std::sqrt(-2 * std::log(uniform(mixed(hash, 2)))) *
         std::cos(2 * std::numbers::pi * uniform(mixed(hash, 3)));
}

/// A smooth function of \p at, in octaves, of variance 1 and a correlation
/// length of one: a sum of waves of random lengths (Rahimi and Recht 2007).
static double smooth(uint64_t hash, llvm::ArrayRef<double> at) {
  constexpr int kWaves = 12;
  double sum = 0;
  for (int wave = 0; wave < kWaves; ++wave) {
    const uint64_t ofWave = mixed(hash, 10 + static_cast<uint64_t>(wave));
    double phase = 2 * std::numbers::pi * uniform(mixed(ofWave, 4));
    for (size_t i = 0; i < at.size(); ++i)
      phase += at[i] * normal(mixed(ofWave, 5 + i));
    sum += std::cos(phase);
  }
  return sum * std::sqrt(2.0 / kWaves);
}

//===----------------------------------------------------------------------===//
// Reading launches
//===----------------------------------------------------------------------===//

/// The facts that a launch shows: its problem and its run-time knobs. A knob
/// without a key follows from the value.
struct LawWorld::Told {
  struct Field {
    const char *key = nullptr;
    int64_t value = 0;
  };
  std::array<Field, 4> problem, knobs;

  using Key = std::array<int64_t, 8>;
  Key key() const {
    Key all;
    for (size_t i = 0; i < 4; ++i) {
      all[i] = problem[i].value;
      all[4 + i] = knobs[i].value;
    }
    return all;
  }

  // The functions that read launches of the families.
  static Told ofGemm(const GemmParams &gemm);
  static Told ofAttention(const AttentionParams &params);
  static Told readGemm(const KilnFakeLaunch &launch);
  static Told readSm90Gemm(const KilnFakeLaunch &launch);
  static Told readRows(const KilnFakeLaunch &launch);
  static Told readAttention(const KilnFakeLaunch &launch);
  static Told readSm90Attention(const KilnFakeLaunch &launch);
  static Told readSm90Mla(const KilnFakeLaunch &launch);

  /// The problem \p expected, changed to the facts of the launch.
  Problem problemLike(const KernelFamily &family,
                      const Problem &expected) const;
  /// Sets the run-time knobs of \p config.
  void setKnobs(const Problem &problem, Values &config) const;
};

template <class Params> static Params paramsOf(const KilnFakeLaunch &launch) {
  Params params;
  std::memcpy(static_cast<void *>(&params), launch.params, sizeof(params));
  return params;
}

LawWorld::Told LawWorld::Told::ofGemm(const GemmParams &gemm) {
  return {{{{"m", gemm.m}, {"n", gemm.n}, {"k", gemm.k}}},
          {{{"rg", gemm.rasterGroup}, {"sk", gemm.splitK}}}};
}
LawWorld::Told LawWorld::Told::readGemm(const KilnFakeLaunch &launch) {
  return ofGemm(paramsOf<GemmParams>(launch));
}
LawWorld::Told LawWorld::Told::readSm90Gemm(const KilnFakeLaunch &launch) {
  const auto params = paramsOf<Sm90GemmParams>(launch);
  Told told = ofGemm(params.gemm);
  told.knobs = {{{"rg", params.gemm.rasterGroup},
                 {"rn", params.rasterAlongN},
                 {"hi", params.hints},
                 {"tf", params.tilesFirst}}};
  return told;
}

LawWorld::Told LawWorld::Told::readRows(const KilnFakeLaunch &launch) {
  const auto params = paramsOf<RowParams>(launch);
  return {{{{"rows", params.rows}, {"cols", params.cols}}},
          {{{"k", params.ranges}, {"", launch.grid[0]}}}};
}

LawWorld::Told LawWorld::Told::ofAttention(const AttentionParams &params) {
  return {
      {{{"batch", params.batch}, {"sq", params.queries}, {"sk", params.keys}}},
      {{{"sp", params.splits}, {"", params.splits}}}};
}
LawWorld::Told LawWorld::Told::readAttention(const KilnFakeLaunch &launch) {
  return ofAttention(paramsOf<AttentionParams>(launch));
}
LawWorld::Told LawWorld::Told::readSm90Attention(const KilnFakeLaunch &launch) {
  return ofAttention(paramsOf<Sm90AttentionParams>(launch).attention);
}
LawWorld::Told LawWorld::Told::readSm90Mla(const KilnFakeLaunch &launch) {
  return ofAttention(paramsOf<Sm90MlaParams>(launch).attention);
}

/// The reference, in double precision, takes a picosecond for an operation.
static double referenceNs(const KilnFakeLaunch &launch) {
  constexpr double kNsPerFlop = 1e-3;
  const auto params = paramsOf<ReferenceGemmParams>(launch);
  return 2.0 * static_cast<double>(params.rowEnd - params.rowBegin) *
         static_cast<double>(params.gemm.n) *
         static_cast<double>(params.gemm.k) * kNsPerFlop;
}

/// The ways in which launches of some kernels are read. If several match a
/// name, the last one counts. Kernels without `read` are not candidates: they
/// take the time of `otherNs`, or none.
struct LawWorld::Reader {
  const char *pattern = nullptr;
  size_t paramBytes = 0;
  Told (*read)(const KilnFakeLaunch &) = nullptr;
  double (*otherNs)(const KilnFakeLaunch &) = nullptr;
};

const LawWorld::Reader LawWorld::kReaders[] = {
    {"kiln_gemm_*", sizeof(GemmParams), Told::readGemm},
    {"kiln_gemm_sm90_*", sizeof(Sm90GemmParams), Told::readSm90Gemm},
    {"kiln_gemm_reference_*", sizeof(ReferenceGemmParams), nullptr,
     referenceNs},
    {"kiln_gemm_step_*"},
    {"kiln_rmsnorm_*", sizeof(RowParams), Told::readRows},
    {"kiln_rmsnorm_reference_*"},
    {"kiln_softmax_*", sizeof(RowParams), Told::readRows},
    {"kiln_softmax_reference_*"},
    {"kiln_attention_*", sizeof(AttentionParams), Told::readAttention},
    {"kiln_attention_sm90_*", sizeof(Sm90AttentionParams),
     Told::readSm90Attention},
    {"kiln_attention_sm90mla_*", sizeof(Sm90MlaParams), Told::readSm90Mla},
    {"kiln_attention_reference_*"},
    {"kiln_attention_step_*"},
};

/// The callback of the stand-in for each launch.
struct LawWorld::Hook {
  LawWorld *world = nullptr;
  const Reader *reader = nullptr;
};

/// A launched kernel, and its place.
struct LawWorld::Kernel {
  KernelName name;
  std::set<const LawPlace *> timed;
  std::map<Told::Key, LawPlace> places;
};

//===----------------------------------------------------------------------===//
// Knobs that launches do not show directly
//===----------------------------------------------------------------------===//

/// Quarters of a block for each SM: the number that gives as many splits.
static void findFill(const Problem &problem, int64_t splits, Values &config) {
  const auto attention = readAttentionProblem(problem.values.array().data());
  for (int fill : {4, 8, 16, 32}) {
    config.set("f", fill);
    const DecodeGrid grid(attention, fromValues<DecodeAttentionConfig>(config),
                          h200().smCount);
    if (grid.splits == splits)
      return;
  }
  config.set("f", 4);
}

/// Blocks for each SM of a resident grid: one that is smaller than a grid with
/// a block for each row.
static void findGridPerSm(const Problem &problem, int64_t blocks,
                          Values &config) {
  if (config.get("rt") == config.get("t") && config.get("c") == 1 &&
      blocks < problem.values.get("rows"))
    config.set("ps", std::max<int64_t>(1, blocks / h200().smCount));
}

/// The knob from which \p value, of a field without a key, follows.
static void findKnob(const Problem &problem, int64_t value, Values &config) {
  const llvm::StringRef name = config.schema().name();
  if (name == "decode")
    findFill(problem, value, config);
  else if (name == "reload")
    findGridPerSm(problem, value, config);
}

Problem LawWorld::Told::problemLike(const KernelFamily &family,
                                    const Problem &expected) const {
  Values values = expected.values;
  for (const Field &field : problem)
    if (field.key)
      values.set(field.key, field.value);
  return llvm::cantFail(family.canonicalise(std::move(values)));
}

void LawWorld::Told::setKnobs(const Problem &at, Values &config) const {
  for (const Field &knob : knobs) {
    if (!knob.key)
      continue;
    if (!*knob.key)
      findKnob(at, knob.value, config);
    else if (knob.value > 0 && config.schema().find(knob.key) >= 0)
      config.set(knob.key, knob.value);
  }
}

//===----------------------------------------------------------------------===//
// The world
//===----------------------------------------------------------------------===//

static Registry::NamedProblem parsed(const std::string &text) {
  return llvm::cantFail(registry().parseProblem(text));
}

std::string LawPlace::kernel() const {
  return fmt::format("{} {}", family->name(), config.compiledText());
}

LawWorld::LawWorld(uint64_t seed, const LawFactors &factors)
    : seed(seed), factors(factors) {
  for (const Reader &reader : kReaders)
    hooks.push_back(std::make_unique<Hook>(Hook{this, &reader}));
}

LawWorld::~LawWorld() { kilnFakeReset(); }

void LawWorld::attach() {
  for (const auto &hook : hooks)
    kilnFakeOnLaunch(hook->reader->pattern, &LawWorld::run, hook.get(),
                     hook->reader->paramBytes);
}

void LawWorld::expect(const std::string &text) {
  const auto [family, problem] = parsed(text);
  std::lock_guard lock(mutex);
  expected[family] = problem;
}

void LawWorld::beginProcess() {
  std::lock_guard lock(mutex);
  ++process;
  scale = 1 + factors.ofSession * (2 * uniform(mixed(seed, process)) - 1);
}

bool LawWorld::isTimed(const LawPlace &place) {
  std::lock_guard lock(mutex);
  return timed.count(place.kernel()) != 0;
}

/// Whether each dynamic extent of \p a is within an octave of \p b's.
static bool isNear(const LawPlace &a, const LawPlace &b) {
  return llvm::all_of(a.family->dynamicExtents(), [&](int field) {
    const int64_t x = a.problem.values[field], y = b.problem.values[field];
    return x <= 2 * y && y <= 2 * x;
  });
}

bool LawWorld::foundNoSlower(const LawPlace &one, const LawPlace &other) {
  constexpr double kNoise = 1.01;
  auto error = [](const LawPlace &at) { return at.trueNs / at.estimateNs; };
  std::lock_guard lock(mutex);
  const auto ones = timed.find(one.kernel()),
             others = timed.find(other.kernel());
  if (ones == timed.end() || others == timed.end())
    return false;
  for (const LawPlace *a : ones->second)
    for (const LawPlace *b : others->second)
      if (a->problem.values == b->problem.values && isNear(*a, one) &&
          error(*a) * one.estimateNs <= kNoise * error(*b) * other.estimateNs)
        return true;
  return false;
}

/// The last launch of this thread.
static thread_local const LawPlace *lastOfThread = nullptr;

LawPlace LawWorld::takeLaunched() {
  const LawPlace *last = std::exchange(lastOfThread, nullptr);
  return last ? *last : LawPlace();
}

void LawWorld::run(KilnFakeLaunch *launch, void *user) {
  const Hook &hook = *static_cast<const Hook *>(user);
  launch->durationNs = hook.world->durationOf(*hook.reader, *launch);
  if (launch->stream)
    hook.world->passTime(launch->durationNs);
}

double LawWorld::durationOf(const Reader &reader,
                            const KilnFakeLaunch &launch) {
  if (!reader.read)
    return reader.otherNs ? reader.otherNs(launch) : 0;
  std::lock_guard lock(mutex);
  Kernel &kernel = kernelOf(launch.function);
  const LawPlace &place = placeOf(kernel, reader.read(launch));
  if (launch.stream && kernel.timed.insert(&place).second)
    timed[place.kernel()].push_back(&place);
  lastOfThread = &place;
  return place.trueNs * reading(place);
}

/// Lets the calling thread wait for a part of \p ns, some milliseconds at a
/// time.
void LawWorld::passTime(double ns) {
  constexpr double kLeastNs = 2e6;
  {
    std::lock_guard lock(mutex);
    owedNs += ns * factors.wallShare;
    if (owedNs < kLeastNs)
      return;
    ns = std::exchange(owedNs, 0);
  }
  std::this_thread::sleep_for(std::chrono::duration<double, std::nano>(ns));
}

LawWorld::Kernel &LawWorld::kernelOf(const char *function) {
  std::unique_ptr<Kernel> &kernel = kernels[function];
  if (!kernel) {
    kernel = std::make_unique<Kernel>();
    kernel->name = llvm::cantFail(parseKernelName(registry(), function));
  }
  return *kernel;
}

const LawPlace &LawWorld::placeOf(Kernel &kernel, const Told &told) {
  auto [found, isNew] = kernel.places.try_emplace(told.key());
  LawPlace &place = found->second;
  if (!isNew)
    return place;
  place.family = kernel.name.family;
  place.tmpl = kernel.name.tmpl;
  place.config = kernel.name.config;
  place.problem = told.problemLike(*place.family, expected.at(place.family));
  told.setKnobs(place.problem, place.config);
  place.estimateNs =
      place.tmpl->estimate(place.problem, place.config, h200()).totalNs;
  place.trueNs = trueNs(place);
  return place;
}

/// Workspace for a plan if options do not limit it.
static constexpr uint64_t kWorkspaceLimit = uint64_t(256) << 20;

const LawPlace &LawWorld::predicted(const std::string &text) {
  std::lock_guard lock(mutex);
  std::unique_ptr<LawPlace> &place = predictions[text];
  if (place)
    return *place;
  const auto [family, problem] = parsed(text);
  place = std::make_unique<LawPlace>();
  place->family = family;
  place->problem = problem;
  const Space space = llvm::cantFail(
      exploreSpace(*family, problem, h200(), {.allowance = {kWorkspaceLimit}}));
  const Candidate &first = space.ranked.front();
  place->tmpl = first.tmpl;
  place->config = first.config;
  place->estimateNs = first.estimate.totalNs;
  place->trueNs = trueNs(*place);
  return *place;
}

double LawWorld::trueNs(const LawPlace &place) const {
  const llvm::StringRef name = place.tmpl->name();
  const std::string compiled = place.config.compiledText();
  llvm::SmallVector<double, 3> octaves;
  std::string value;
  for (int field : place.family->dynamicExtents()) {
    const int64_t extent = place.problem.values[field];
    octaves.push_back(
        std::log2(static_cast<double>(std::max<int64_t>(extent, 1))));
    value += std::to_string(extent) + " ";
  }
  const uint64_t ofFamily = mixed(seed, place.family->name());
  const uint64_t ofKernel = mixed(ofFamily, compiled);
  const double log =
      factors.ofTemplate * normal(mixed(mixed(ofFamily, name), 21)) +
      factors.ofKernel * normal(mixed(ofKernel, 22)) +
      factors.ofExtent * smooth(mixed(ofKernel, 23), octaves) +
      factors.ofValue * normal(mixed(ofKernel, value));
  return place.estimateNs * std::exp(log);
}

/// A clock's reading of a true time: one scale for a whole process, and noise
/// of a place that stays for a while, so that samples of one trial share it and
/// those of a later trial do not.
double LawWorld::reading(const LawPlace &place) const {
  constexpr double kWindowNs = 50e6;
  const auto window = static_cast<uint64_t>(kilnFakeClockNs() / kWindowNs);
  const uint64_t hash = mixed(mixed(mixed(seed, process), window),
                              std::bit_cast<uint64_t>(place.trueNs));
  return scale * (1 + factors.ofReading * normal(hash));
}

} // namespace kiln::testing
