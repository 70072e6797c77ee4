// Attentions whose launches agree bit for bit, whatever is late: beside a
// kernel that takes the memory's bandwidth, and with delays where kernels wait.
// On a real GPU.
#include "Families/Families.h"
#include "Kernel/Sources.h"
#include "Trial/Campaign.h"

#include <llvm/ADT/StringExtras.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

using namespace kiln;
using namespace kiln::fake;

namespace {

//===----------------------------------------------------------------------===//
// Delays
//===----------------------------------------------------------------------===//

/// The place of a delay: \p text, which is once in its file, becomes \p
/// replacement.
struct Patch {
  llvm::StringLiteral file, text, replacement;
};
constexpr Patch kPatches[] = {
    {"common/Ptx.cuh", "inline void barSync(int id, int threads) {",
     "/// In one of 16 turns of a warp, up to 2 us.\n"
     "inline void delay() {\n"
     "  unsigned random;\n"
     "  asm volatile(\"mov.u32 %0, %%clock;\" : \"=r\"(random));\n"
     "  random = (random ^ (threadIdx.x / 32 * 64)) * 2654435761u;\n"
     "  if (random >> 28 == 0)\n"
     "    asm volatile(\"nanosleep.u32 %0;\" ::\"r\"(random >> 17 & 2047));\n"
     "}\n"
     "inline void barSync(int id, int threads) {\n"
     "  delay();"},
    {"common/Ptx.cuh", "template <int kPending> void cpAsyncWait() {",
     "template <int kPending> void cpAsyncWait() {\n"
     "  delay();"},
    {"common/PtxSm90.cuh", "inline void mbarrierArrive(unsigned barrier) {",
     "inline void mbarrierArrive(unsigned barrier) {\n"
     "  delay();"},
    {"common/PtxSm90.cuh",
     "inline void mbarrierWait(unsigned barrier, unsigned parity) {",
     "inline void mbarrierWait(unsigned barrier, unsigned parity) {\n"
     "  delay();"},
};

/// The kernel sources, with delays or as they are, as files.
void writeSources(const std::string &folder, bool withDelays) {
  for (const SourceFile &file : kernelSources()->files()) {
    std::string text = file.contents;
    if (withDelays)
      for (const Patch &patch : kPatches) {
        if (file.name != patch.file)
          continue;
        const size_t at = text.find(patch.text.str());
        REQUIRE(at != std::string::npos);
        REQUIRE(text.find(patch.text.str(), at + 1) == std::string::npos);
        text.replace(at, patch.text.size(), patch.replacement.str());
      }
    const std::filesystem::path path =
        std::filesystem::path(folder) / file.name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
}

/// While it lives, plans are made of sources with delays.
class Delays {
public:
  Delays() {
    writeSources(plain.path(), false);
    writeSources(delayed.path(), true);
    must(overrideKernelSources(delayed.path()));
  }
  ~Delays() { llvm::consumeError(overrideKernelSources(plain.path())); }
  Delays(const Delays &) = delete;

private:
  TemporaryFolder plain, delayed;
};

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

/// Some configs of each template, with and without parts that are merged.
std::vector<Triple> someOfEachKind(const KernelFamily &family,
                                   const DeviceModel &device) {
  constexpr int kEach = 2;
  std::vector<Triple> triples;
  std::set<std::pair<const Template *, uint64_t>> seen;
  std::map<const Template *, int> counts;
  for (llvm::StringRef text :
       {"batch=2 sq=300 sk=500 heads=8 kvheads=2 d=128 dtype=bf16 mask=causal",
        "batch=4 sq=1 sk=4000 heads=16 kvheads=2 d=128 dtype=bf16 kvlen=used",
        "batch=1 sq=16 sk=4000 heads=8 kvheads=1 d=64 dtype=fp16 "
        "mask=causal",
        "batch=3 sq=2 sk=1000 heads=64 kvheads=1 d=576 dv=512 dtype=bf16 "
        "mask=causal kvlen=used latent=1"}) {
    Problem problem = must(family.parseProblem(text));
    counts.clear();
    for (const Candidate &candidate :
         must(exploreSpace(family, problem, device)).ranked)
      if (!candidate.tmpl->isGeneric() && counts[candidate.tmpl] < kEach &&
          seen.insert({candidate.tmpl, candidate.candidateClass.key}).second) {
        ++counts[candidate.tmpl];
        triples.push_back({&family, problem, candidate.config.text()});
      }
  }
  return triples;
}

} // namespace

TEST_CASE("delays are where kernels wait") {
  Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = **registry.get("attention");
  const DeviceModel device = must(findDevice("h200-sxm"));
  const std::vector<Triple> triples = someOfEachKind(family, device);
  CHECK(triples.size() >= 10);
  auto unitOf = [&](const Triple &triple) {
    auto named = must(family.parseConfig(triple.config));
    return named.tmpl->plan(triple.problem, named.config, device)
        .kernels.front()
        .digest()
        .hex();
  };
  for (const Triple &triple : triples) {
    CAPTURE(triple.text());
    const std::string plain = unitOf(triple);
    std::string delayed;
    {
      Delays delays;
      delayed = unitOf(triple);
    }
    CHECK(delayed != plain);
    CHECK(unitOf(triple) == plain);
  }
}

TEST_SUITE("gpu") {

  TEST_CASE("ten thousand launches of each kind of attention agree") {
    GpuTrials gpu(makeBuiltinRegistry());
    constexpr int kAlone = 5000, kBeside = 4000, kDelayed = 1000;
    const std::vector<Triple> triples = compileAll(
        gpu, someOfEachKind(**gpu.registry.get("attention"), gpu.device));
    std::map<std::string, std::vector<uint8_t>> results;
    for (const Triple &triple : triples) {
      INFO(triple.text());
      results[triple.text()] = checkRepeats(gpu, triple, kAlone);
      CHECK(checkRepeats(gpu, triple, kBeside, Beside::Fills) ==
            results[triple.text()]);
    }
    Delays delays;
    const std::vector<Triple> delayed = compileAll(gpu, triples);
    // With delays, a kernel may take more registers than it has.
    CHECK(delayed.size() > triples.size() / 2);
    for (const Triple &triple : delayed) {
      INFO(triple.text());
      CHECK(checkRepeats(gpu, triple, kDelayed, Beside::Fills) ==
            results[triple.text()]);
    }
  }

} // TEST_SUITE
