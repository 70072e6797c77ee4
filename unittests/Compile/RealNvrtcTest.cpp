// Tests that need NVIDIA's own compiler; skipped with a message without one.
#include "Compile/CompilePool.h"
#include "Compile/TestUnits.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace kiln;
namespace fs = std::filesystem;

/// The real compiler, null with a message where it is not installed.
static std::shared_ptr<Compiler> realCompiler() {
  static std::shared_ptr<Compiler> compiler = [] {
    NvrtcSearch search = NvrtcSearch::fromEnvironment(
        Environment::fromProcess(), {KILN_SOURCE_DIR "/build/cuda"});
    return std::make_shared<Compiler>(std::move(search));
  }();
  auto nvrtc = compiler->nvrtc();
  if (nvrtc)
    return compiler;
  MESSAGE("SKIPPED: " << summarize(nvrtc.takeError()).message);
  return nullptr;
}

static std::string describe(llvm::Expected<Artifact> &artifact) {
  return artifact ? "" : summarize(artifact.takeError()).message;
}

TEST_CASE("NVRTC compiles for every supported generation") {
  auto compiler = realCompiler();
  if (!compiler)
    return;
  for (const char *arch : {"sm_80", "sm_90a", "sm_100a", "sm_120"}) {
    CAPTURE(arch);
    auto artifact = compiler->compile(makeUnit(arch));
    REQUIRE_MESSAGE(bool(artifact), describe(artifact));
    CHECK(artifact->cubin.substr(0, 4) == "\x7f"
                                          "ELF");
    CHECK(artifact->usage.registersPerThread >= 4);
    CHECK(artifact->usage.registersPerThread <= 32);
    CHECK_FALSE(artifact->hasSpills());
    CHECK(artifact->advisories.empty());
    CHECK(artifact->phases.frontEndMs > 0);
    CHECK(artifact->phases.totalMs >= artifact->phases.frontEndMs);
    // "nvrtc 13.0.88 65be..."
    CHECK(artifact->toolchain.find("unknown-build") == std::string::npos);
    llvm::StringRef version =
        llvm::StringRef(artifact->toolchain).split(' ').second.split(' ').first;
    CHECK_MESSAGE(version.count('.') == 2, artifact->toolchain);
    // ptxas notes its build in cubins of its own time.
    if (artifact->cubin.find(".note.nv.tkinfo") != std::string::npos)
      CHECK(artifact->cubin.find("V" + version.str() + '\0') !=
            std::string::npos);
  }
}

TEST_CASE("the same unit gives the same cubin") {
  auto compiler = realCompiler();
  if (!compiler)
    return;
  auto first = compiler->compile(makeUnit("sm_90a"));
  UnitParts renamed = makeParts("sm_90a");
  renamed.name = "another_name";
  auto second = compiler->compile(TranslationUnit(renamed));
  REQUIRE(bool(first));
  REQUIRE(bool(second));
  CHECK(first->cubin == second->cubin);
}

TEST_CASE("many threads compile the same code at once") {
  auto compiler = realCompiler();
  if (!compiler)
    return;
  auto expected = compiler->compile(makeUnit("sm_90a"));
  REQUIRE(bool(expected));
  std::atomic<int> same{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 4; ++j) {
        Artifact artifact =
            llvm::cantFail(compiler->compile(makeUnit("sm_90a")));
        same += artifact.cubin == expected->cubin &&
                artifact.toolchain == expected->toolchain;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(same == 48);
}

TEST_CASE("a kernel short of registers reports its spills") {
  auto compiler = realCompiler();
  if (!compiler)
    return;
  UnitParts unit;
  unit.name = "kiln_spill";
  unit.arch = "sm_80";
  unit.source = R"(
extern "C" __global__ void kilnEntry(const float *in, float *out, int n) {
  __shared__ float shared[64];
  float a[96];
#pragma unroll
  for (int i = 0; i < 96; ++i)
    a[i] = in[i * n + threadIdx.x];
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < 96; ++i)
      a[i] = a[i] * a[(i * 7 + 1) % 96] + in[k];
  shared[threadIdx.x % 64] = a[0];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i)
    out[i * n + threadIdx.x] = a[i] + shared[i % 64];
}
)";
  auto free = compiler->compile(TranslationUnit(unit));
  REQUIRE_MESSAGE(bool(free), describe(free));
  CHECK(free->usage.registersPerThread > 64);
  CHECK(free->usage.staticSharedBytes == 256);
  CHECK(free->usage.constantBytes > 0);
  unit.options = {"--maxrregcount=32"};
  auto bound = compiler->compile(TranslationUnit(unit));
  REQUIRE_MESSAGE(bool(bound), describe(bound));
  CHECK(bound->usage.registersPerThread <= 32);
  CHECK(bound->hasSpills());
  CHECK(bound->usage.stackBytes > 0);
}

TEST_CASE("an error of the source comes back with line and log") {
  auto compiler = realCompiler();
  if (!compiler)
    return;
  auto artifact = compiler->compile(makeUnit("sm_80", "\nundeclared = 1;"));
  REQUIRE_FALSE(bool(artifact));
  llvm::handleAllErrors(artifact.takeError(), [&](const CompileError &e) {
    CHECK(e.message.find("kiln_test(2): error") != std::string::npos);
    CHECK(e.compileLog.find("undeclared") != std::string::npos);
    CHECK(e.unit.arch() == "sm_80");
  });
}

TEST_CASE("headers come from the unit, never from the working directory") {
  auto compiler = realCompiler();
  if (!compiler)
    return;
  UnitParts unit = makeParts("sm_80", "out[0] = kValue;");
  unit.source = "#include \"gemm/Value.cuh\"\n" + unit.source;
  unit.headers = makeSources(
      {{"gemm/Value.cuh", "#pragma once\n#include \"common/Base.h\"\n"
                          "constexpr float kValue = kBase;\n"},
       {"common/Base.h", "#pragma once\nconstexpr float kBase = 3;\n"}});
  auto artifact = compiler->compile(TranslationUnit(unit));
  REQUIRE_MESSAGE(bool(artifact), describe(artifact));

  const fs::path folder =
      fs::temp_directory_path() / ("kiln-cwd-" + std::to_string(getpid()));
  const fs::path before = fs::current_path();
  fs::create_directories(folder / "gemm");
  std::ofstream(folder / "gemm/Value.cuh") << "constexpr float kValue = 4;\n";
  fs::current_path(folder);
  unit.headers = nullptr;
  auto planted = compiler->compile(TranslationUnit(unit));
  fs::current_path(before);
  fs::remove_all(folder);
  REQUIRE_FALSE(bool(planted));
  CHECK(describe(planted).find("gemm/Value.cuh") != std::string::npos);
}

TEST_CASE("compilations in parallel give what they give alone") {
  auto compiler = realCompiler();
  if (!compiler)
    return;
  std::vector<TranslationUnit> units;
  for (int i = 0; i < 6; ++i)
    units.push_back(makeUnit(i % 2 ? "sm_80" : "sm_90a",
                             fmt::format("out[{}] = 2.0f;", i / 2)));
  CompilePool pool(compiler, {.threads = 2});
  std::vector<std::future<CompilePool::Result>> futures;
  for (const TranslationUnit &unit : units)
    futures.push_back(pool.submit(unit));
  for (size_t i = 0; i < units.size(); ++i) {
    auto parallel = futures[i].get();
    auto alone = compiler->compile(units[i]);
    REQUIRE_MESSAGE(bool(parallel), describe(parallel));
    REQUIRE(bool(alone));
    CHECK(parallel->cubin == alone->cubin);
  }
}
