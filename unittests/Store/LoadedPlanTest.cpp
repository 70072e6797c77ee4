#include "Store/LoadedPlan.h"

#include "Driver/DeviceMemory.h"
#include "Store/FakeDevice.h"
#include "Store/StoreFixture.h"

#include <cstring>

using namespace kiln;
using namespace kiln::fake;

namespace {

/// The launches that reached the device.
struct Launches {
  std::vector<FakeParams> params;
  std::vector<uint32_t> gridX, sharedBytes;
  std::vector<std::string> texts;
};

void playKernel(KilnFakeLaunch *launch, void *user) {
  auto *launches = static_cast<Launches *>(user);
  FakeParams params;
  std::memcpy(&params, launch->params, sizeof(params));
  launches->params.push_back(params);
  launches->gridX.push_back(launch->grid[0]);
  launches->sharedBytes.push_back(launch->sharedBytes);
  launches->texts.push_back(launch->moduleText);
}

struct PlanFixture : FakeDevice, StoreFixture {
  PlanFixture() : loader(*driver) {
    kilnFakeOnLaunch("kilnEntry", playKernel, &launches, sizeof(FakeParams));
  }
  llvm::Expected<std::shared_ptr<const LoadedPlan>>
  load(const char *config, KernelLifetime lifetime = KernelLifetime::Context) {
    return obtainPlan(*artifacts, loader,
                      makePlan(family, problem, config, device), 132, lifetime);
  }
  Arguments arguments() const {
    Arguments a = family.defaultArguments(problem);
    a.operands[kOperandX].address = 0x1000;
    a.operands[kOperandY].address = 0x2000;
    return a;
  }
  KernelLoader loader;
  Launches launches;
};

ErrorCode codeOf(llvm::Error error) { return summarize(std::move(error)).code; }

TEST_CASE("a loaded plan launches what its binder says") {
  PlanFixture f;
  f.family.options.sharedBytes = 100000;
  auto plan = must(f.load("fast.t16.s2"));
  CHECK(plan->plan().configText() == "fast.t16.s2");
  uint64_t before = kilnFakeTotalCalls();
  must(plan->launch(f.arguments(), {}, nullptr));
  CHECK(kilnFakeTotalCalls() == before + 1);
  REQUIRE(f.launches.params.size() == 1);
  const FakeParams &params = f.launches.params[0];
  CHECK(params.x == 0x1000);
  CHECK(params.y == 0x2000);
  CHECK(params.m == 64);
  CHECK(params.split == 2);
  CHECK(params.smCount == 132);
  CHECK(f.launches.gridX[0] == 4);
  CHECK(f.launches.sharedBytes[0] == 100000);
  CHECK(f.launches.texts[0].find("// fast.t16") != std::string::npos);
}

TEST_CASE("steps run in order and a dirty workspace is cleared first") {
  PlanFixture f;
  f.family.options.zeroedBytes = 256;
  f.family.options.scratchBytes = 256;
  auto plan = must(f.load("pair.t64"));
  DeviceMemory memory = must(DeviceMemory::allocate(*f.driver, 512));
  DeviceAddress address = memory.address();
  auto *bytes = reinterpret_cast<char *>(address); // the stand-in's is host's
  std::memset(bytes, 1, 512);
  must(plan->launch(f.arguments(), {address, 512, false}, nullptr));
  CHECK(bytes[255] == 0);
  CHECK(bytes[256] == 1);
  REQUIRE(f.launches.texts.size() == 2);
  CHECK(f.launches.texts[0].find("kernel 0") != std::string::npos);
  CHECK(f.launches.texts[1].find("kernel 1") != std::string::npos);
  CHECK(f.launches.params[1].workspace == address);
  CHECK(f.launches.params[1].scratch == address + 256);

  uint64_t before = kilnFakeTotalCalls();
  must(plan->launch(f.arguments(), {address, 512, true}, nullptr));
  CHECK(kilnFakeTotalCalls() == before + 2);
}

TEST_CASE("a workspace that does not do is refused") {
  PlanFixture f;
  f.family.options.zeroedBytes = 200;
  f.family.options.scratchBytes = 256;
  auto plan = must(f.load("fast.t64"));
  CHECK(plan->workspace().bytes() == 512);
  for (Workspace workspace :
       {Workspace{}, Workspace{0x1000, 511, true},
        Workspace{0x1001, 4096, true}, Workspace{0x1000, 4096, true, 199},
        Workspace{0x1000, 767, true, 257}})
    CHECK(codeOf(plan->launch(f.arguments(), workspace, nullptr)) ==
          ErrorCode::InvalidArgument);
  CHECK(f.launches.params.empty());
  must(plan->launch(f.arguments(), {0x1000, 512, true}, nullptr));
  CHECK(f.launches.params.back().scratch == 0x1100);
  // Another plan's zeros end later.
  must(plan->launch(f.arguments(), {0x1000, 768, true, 257}, nullptr));
  CHECK(f.launches.params.back().workspace == 0x1000);
  CHECK(f.launches.params.back().scratch == 0x1200);
}

TEST_CASE("what became of each kernel is told, whichever failed") {
  PlanFixture f;
  f.nvrtc.failWhen("kernel 0", "fake.cu(1): error: no\n");
  std::vector<bool> told;
  auto plan = obtainArtifacts(
      *f.artifacts, makePlan(f.family, f.problem, "pair.t64", f.device),
      nullptr, [&](const TranslationUnit &, const ArtifactOutcome &outcome) {
        told.push_back(static_cast<bool>(outcome));
      });
  CHECK(codeOf(plan.takeError()) == ErrorCode::CompileFailed);
  CHECK(told == std::vector<bool>{false, true});
}

TEST_CASE("kernels of trials are adopted, and stay") {
  PlanFixture f;
  auto tried = must(f.load("pair.t64", KernelLifetime::Users));
  CHECK(kilnFakeModulesLoaded() == 2);
  f.loader.adopt(*tried);
  auto plan = must(f.load("pair.t64"));
  CHECK(kilnFakeCallCount("cuModuleLoadData") == 2);
  // One whose kernel is there already goes with its users.
  auto again = must(f.load("pair.t64", KernelLifetime::Users));
  f.loader.adopt(*again);
  CHECK(kilnFakeModulesLoaded() == 4);
  again.reset();
  CHECK(kilnFakeModulesLoaded() == 2);
  tried.reset();
  plan.reset();
  CHECK(kilnFakeModulesLoaded() == 2);
  must(f.load("pair.t64"));
  CHECK(kilnFakeModulesLoaded() == 2);
}

TEST_CASE("plans of one context share kernels, which stay") {
  PlanFixture f;
  auto one = must(f.load("fast.t64"));
  auto two = must(f.load("fast.t64.s2"));
  CHECK(kilnFakeModulesLoaded() == 1);
  one.reset();
  two.reset();
  CHECK(kilnFakeModulesLoaded() == 1);
}

TEST_CASE("the kernels of a trial go with it") {
  PlanFixture f;
  auto kept = must(f.load("fast.t64"));
  auto trial = must(f.load("fast.t64", KernelLifetime::Users));
  CHECK(kilnFakeModulesLoaded() == 2);
  trial.reset();
  CHECK(kilnFakeModulesLoaded() == 1);
  must(kept->launch(f.arguments(), {}, nullptr));
}

TEST_CASE("a shared kernel's limit only grows") {
  PlanFixture f;
  f.family.options.sharedBytes = 100000;
  auto large = must(f.load("fast.t64"));
  uint64_t before = kilnFakeCallCount("cuFuncSetAttribute");
  f.family.options.sharedBytes = 50000;
  auto small = must(f.load("fast.t64.s2"));
  CHECK(kilnFakeCallCount("cuFuncSetAttribute") == before);
  must(large->launch(f.arguments(), {}, nullptr));
}

TEST_CASE("every context has kernels of its own") {
  PlanFixture f;
  auto first = must(f.load("fast.t64"));
  CudaContext context = kilnFakeCreateContext(0);
  {
    ScopedContext scoped = must(ScopedContext::push(*f.driver, context));
    auto second = must(f.load("fast.t64"));
    CHECK(second->contextId() != first->contextId());
    CHECK(kilnFakeModulesLoaded() == 2);
    f.loader.forgetContext(second->contextId());
  }
  must(f.load("fast.t64"));
  CHECK(kilnFakeModulesLoaded() == 2);
}

TEST_CASE("fault 7: a cached image that the driver refuses is compiled once") {
  PlanFixture f;
  must(f.artifacts->get(f.unit("fast.t64")));
  f.reopen();
  constexpr int kNoBinaryForGpu = 209;
  kilnFakeFailCall("cuModuleLoadData", 1, kNoBinaryForGpu, KilnFakeOnce);
  CHECK(must(f.load("fast.t64")));
  CHECK(f.nvrtc.compileCount() == 2);
  // A kernel that was just compiled is not compiled again.
  kilnFakeFailCall("cuModuleLoadData", 1, kNoBinaryForGpu, KilnFakeAlways);
  CHECK(codeOf(f.load("fast.t32").takeError()) != ErrorCode::Success);
  CHECK(f.nvrtc.compileCount() == 3);
}

TEST_CASE("short device memory is no fault of the artifact") {
  PlanFixture f;
  must(f.artifacts->get(f.unit("fast.t64")));
  f.reopen();
  constexpr int kOutOfMemory = 2;
  kilnFakeFailCall("cuModuleLoadData", 1, kOutOfMemory, KilnFakeOnce);
  auto plan = f.load("fast.t64");
  REQUIRE_FALSE(plan);
  ErrorSummary error = summarize(plan.takeError());
  CHECK(error.code == ErrorCode::DeviceOutOfMemory);
  CHECK(error.message.find("fast.t64") != std::string::npos);
  CHECK(f.nvrtc.compileCount() == 1);
}

TEST_CASE("tensor maps are encoded when a plan is loaded") {
  PlanFixture f;
  f.family.options.withTensorMap = true;
  auto plan = must(f.load("fast.t64"));
  CHECK(kilnFakeCallCount("cuTensorMapEncodeTiled") == 1);
  must(plan->launch(f.arguments(), {}, nullptr));
  CHECK(kilnFakeCallCount("cuTensorMapEncodeTiled") == 1);
}

} // namespace
