// Ranked kernels of attention compile without spills and without making ptxas
// serialise wgmma. A few exceptions, for which an engine falls back to the next
// config, are printed, so that the pruner can list them. The test compiles a
// sample of the kernels; with KILN_TEST_WHOLE=1 all of them, which takes an
// hour of a processor's cores.
#include "KernelSrc/RealCompiler.h"

#include "Kernel/Space.h"
#include "Support/Format.h"

#include <doctest/doctest.h>

#include <llvm/ADT/STLExtras.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// The variations that are compiled for each: another signature, or another
/// knob.
constexpr const char *kPrefill[] = {
    "",
    "mask=causal",
    "mask=causal lse=1",
    "mask=window left=100 right=0",
    "kvlen=used",
    "kvlen=used mask=causal lse=1",
    "qlen=packed kvlen=packed mask=causal",
    "kvlen=used pages=table page=16",
    "kvlen=used pages=table page=128 mask=causal",
    "kvlen=used pages=list page=16 mask=window left=100 right=0",
    "softcap=30 mask=causal",
    "sinks=1 mask=causal",
    "alibi=1 mask=causal",
    "qlen=packed kvlen=used pages=table page=16 mask=window left=100 right=0 "
    "sinks=1 softcap=30 alibi=1 lse=1",
    "qlen=packed kvlen=packed",
    "alibi=1 lse=1",
};
constexpr const char *kTypes[] = {"d=128 dtype=bf16",
                                  "d=64 dtype=bf16",
                                  "d=128 dtype=fp16",
                                  "d=96 dtype=bf16",
                                  "d=192 dv=128 dtype=bf16",
                                  "d=256 dtype=bf16",
                                  "d=40 dtype=fp16",
                                  "d=80 dtype=bf16",
                                  "d=128 dtype=e4m3",
                                  "d=80 dtype=e4m3",
                                  "d=128 dtype=bf16 kv=e4m3 scales=head"};
constexpr const char *kSizes[] = {
    "sq=4096 sk=4096 heads=32 kvheads=8",
    "sq=64 sk=8192 heads=8 kvheads=8",
};
constexpr const char *kDecode[] = {
    "batch=8 sq=1 sk=8192 heads=32 kvheads=8",
    "batch=2 sq=8 sk=8192 heads=32 kvheads=8 mask=causal",
    "batch=8 sq=1 sk=8192 heads=32 kvheads=8 kvlen=used pages=table page=16 "
    "sinks=1 softcap=30 lse=1",
    "batch=8 sq=1 sk=8192 heads=71 kvheads=1",
};
constexpr const char *kDecodeTypes[] = {"d=128 dtype=bf16",
                                        "d=64 dtype=fp16",
                                        "d=128 dtype=bf16 kv=e4m3",
                                        "d=256 dtype=bf16",
                                        "d=576 dv=512 dtype=bf16",
                                        "d=100 dtype=bf16",
                                        "d=104 dtype=bf16 kv=e4m3",
                                        "d=96 dtype=bf16 kv=e4m3 scales=head",
                                        "d=576 dv=512 dtype=bf16 latent=1"};

std::vector<std::string> problemTexts() {
  std::vector<std::string> texts;
  // A part of most types, and of few queries.
  constexpr size_t kWholeTypes = 2, kPart = 5;
  size_t number = 0;
  for (auto [i, type] : llvm::enumerate(kTypes))
    for (const char *size : kSizes)
      for (const char *rest : kPrefill)
        if ((i < kWholeTypes && size == kSizes[0]) || number++ % kPart == 0)
          texts.push_back(fmt::format("{} {} {}", size, type, rest));
  for (const char *type : kDecodeTypes)
    for (const char *size : kDecode)
      texts.push_back(fmt::format("{} {}", size, type));
  return texts;
}

/// One distinct kernel.
struct Unit {
  std::string what, tmpl;
  TranslationUnit unit;
  std::string fault;
};

/// The kernels of all configs that are ranked for \p device, each once, except
/// those of generic templates.
std::vector<Unit> unitsOf(const DeviceModel &device,
                          std::set<std::string> &seen) {
  const KernelFamily &family = *registry().find("attention");
  std::vector<Unit> units;
  for (const std::string &text : problemTexts()) {
    const Problem problem = parse(family, text);
    for (const Candidate &candidate :
         llvm::cantFail(exploreSpace(family, problem, device)).ranked) {
      if (candidate.tmpl->isGeneric())
        continue;
      Plan plan = candidate.tmpl->plan(problem, candidate.config, device);
      for (TranslationUnit &unit : plan.kernels)
        if (seen.insert(unit.digest().hex()).second)
          units.push_back({fmt::format("{} | {} | {}", device.name, text,
                                       candidate.config.text()),
                           candidate.tmpl->name().str(), std::move(unit), ""});
    }
  }
  return units;
}

void compileAll(std::vector<Unit> &units) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < units.size();) {
      auto artifact = compiler().compile(units[i].unit);
      units[i].fault = artifact ? artifact->rejection(/*maySpill=*/false)
                                : llvm::toString(artifact.takeError());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < std::max(2u, std::thread::hardware_concurrency());
       ++t)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace

TEST_CASE("spaces of attention have few configs that ptxas spills") {
  if (!hasNvrtc())
    return;
  const char *given = std::getenv("KILN_TEST_WHOLE");
  const bool isWhole = given && *given == '1';
  constexpr size_t kPeriod = 900;
  std::set<std::string> seen;
  std::vector<Unit> units;
  for (llvm::StringRef name : {"h200-sxm", "a100-sxm4-80gb", "b200-sxm"}) {
    const DeviceModel model = device(name);
    if (llvm::Error error =
            llvm::cantFail(compiler().nvrtc())->checkSupports(model.archName()))
      MESSAGE("left out: ", summarize(std::move(error)).message);
    else
      llvm::append_range(units, unitsOf(model, seen));
  }
  const size_t all = units.size();
  std::printf("%zu kernels in all\n", all);
  std::fflush(stdout);
  if (!isWhole) {
    std::vector<Unit> sample;
    for (size_t i = kPeriod / 2; i < all; i += kPeriod)
      sample.push_back(std::move(units[i]));
    units = std::move(sample);
  }
  const auto start = std::chrono::steady_clock::now();
  compileAll(units);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  std::map<std::string, int> counts, faults;
  for (const Unit &unit : units) {
    if (!unit.fault.empty())
      std::printf("%s: %s\n", unit.what.c_str(), unit.fault.c_str());
    ++counts[unit.tmpl];
    faults[unit.tmpl] += !unit.fault.empty();
  }
  constexpr int kOneIn = 20;
  for (const auto &[tmpl, count] : counts) {
    CAPTURE(tmpl);
    std::printf("%s: %d kernels, %d refused\n", tmpl.c_str(), count,
                faults[tmpl]);
    CHECK(faults[tmpl] * kOneIn <= count + kOneIn);
  }
  std::printf("%zu kernels compiled in %.1f s\n", units.size(), took.count());
}
