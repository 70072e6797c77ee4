#include "Observe/NvtxTesting.h"
#include "Observe/Span.h"
#include "Observe/Trace.h"

#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define KILN_HAS_NVTX 1
#endif

using namespace kiln;
using namespace kiln::observe;
using namespace kiln::testing;

TEST_CASE("a library that is no tool is refused by name") {
  // The first path that is given counts for the process, so this is a child.
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string path = KILN_BINARY_DIR "/lib/libkiln_fake_cuda_old.so";
    const std::string why = summarize(attachNvtx(path)).message;
    ::_exit(llvm::StringRef(why).contains(path) ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("ranges have a domain, a category, a name and a nesting") {
  NvtxTool tool;
  {
    const Span outer(Phase::Lookup, [] { return std::string("gemm m=16"); });
    const Span inner(Phase::Compile, [] { return std::string("kiln_gemm_x"); });
    const Span unnamed(Phase::Wait, "another thread works");
  }
  {
    const Span next(Phase::Load, [] { return std::string("kiln_gemm_x"); });
  }
  CHECK(tool.outline() == "lookup gemm m=16\n"
                          "  compile kiln_gemm_x\n"
                          "    wait wait\n"
                          "load kiln_gemm_x\n");
  for (const KilnFakeNvtxEvent &event : tool.events())
    CHECK(std::string(event.domain) == "kiln");
}

TEST_CASE("the ranges of threads are their own") {
  NvtxTool tool;
  const Span mine(Phase::Lookup, [] { return std::string("mine"); });
  std::thread([] {
    const Span other(Phase::Compile, [] { return std::string("its"); });
  }).join();
  CHECK(tool.outline(threadId()) == "lookup mine\nopen");
  size_t others = 0;
  for (const KilnFakeNvtxEvent &event : tool.events())
    others += event.thread != threadId();
  CHECK(others == 2);
}

TEST_CASE("a shared name is made and registered once") {
  NvtxTool tool;
  SharedName name;
  int made = 0;
  auto text = [&] {
    ++made;
    return std::string("gemm m=16");
  };
  const size_t before = kilnFakeNvtxNames();
  for (int i = 0; i < 3; ++i)
    const LaunchSpan span(name.get(text));
  CHECK(made == 1);
  CHECK(kilnFakeNvtxNames() == before + 1);
  REQUIRE(tool.events().size() == 6);
  CHECK(tool.events().front().isRegistered);
  CHECK(std::string(tool.events().front().name) == "gemm m=16");
}

TEST_CASE("nothing is told while nobody watches") {
  { NvtxTool tool; }
  kilnFakeNvtxReset(false);
  bool isAsked = false;
  {
    const Span span(Phase::Plan, [&] {
      isAsked = true;
      return std::string("text");
    });
  }
  CHECK_FALSE(isAsked);
  CHECK(kilnFakeNvtxCount() == 0);
}

#ifdef KILN_HAS_NVTX
TEST_CASE("a tool cannot tell Kiln's ranges from those of NVIDIA's headers") {
  NvtxTool tool;
  ::setenv("NVTX_INJECTION64_PATH", NvtxTool::path().c_str(), 1);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("kiln");
  nvtxDomainNameCategoryA(domain, 4, "plan");
  auto push = [&](auto set) {
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.category = 4;
    set(attributes);
    nvtxDomainRangePushEx(domain, &attributes);
    nvtxDomainRangePop(domain);
  };
  push([](nvtxEventAttributes_t &attributes) {
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = "text";
  });
  push([&](nvtxEventAttributes_t &attributes) {
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "name");
  });
  ::unsetenv("NVTX_INJECTION64_PATH");
  const auto theirs = tool.events();
  kilnFakeNvtxReset(false);
  SharedName name;
  {
    const Span span(Phase::Plan, [] { return std::string("text"); });
  }
  nvtxPush(Phase::Plan, name.get([] { return std::string("name"); })->name);
  nvtxPop();
  const auto ours = tool.events();
  REQUIRE(theirs.size() == 4);
  REQUIRE(ours.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(theirs[i].kind == ours[i].kind);
    CHECK(theirs[i].isRegistered == ours[i].isRegistered);
    CHECK(std::string(theirs[i].domain) == ours[i].domain);
    CHECK(std::string(theirs[i].category) == ours[i].category);
    CHECK(std::string(theirs[i].name) == ours[i].name);
  }
}
#endif
