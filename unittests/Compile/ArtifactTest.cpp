#include "Compile/Artifact.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <doctest/doctest.h>

using namespace kiln;

static Artifact makeArtifact() {
  Artifact artifact;
  artifact.cubin = std::string("\x7f"
                               "ELF\0bytes",
                               10);
  artifact.arch = "sm_90a";
  artifact.entry = "kilnEntry";
  artifact.usage = {168, 24, 32, 40, 1024, 600};
  artifact.advisories = {{"C7510", "wgmma is serialised"}};
  artifact.toolchain = "nvrtc 13.0.88 abc";
  artifact.phases = {1.5, 2.25, 3, 7.125};
  artifact.log = "line one\n\"line two\"\n";
  return artifact;
}

TEST_CASE("attributes survive JSON text") {
  Artifact artifact = makeArtifact();
  std::string text = printJson(artifact.attributes());
  auto value = parseJson(text, "attributes");
  REQUIRE(bool(value));
  auto copy = Artifact::fromAttributes(*value, artifact.cubin);
  REQUIRE(bool(copy));
  CHECK(copy->cubin == artifact.cubin);
  CHECK(copy->arch == artifact.arch);
  CHECK(copy->entry == artifact.entry);
  CHECK(copy->usage == artifact.usage);
  CHECK(copy->advisories == artifact.advisories);
  CHECK(copy->toolchain == artifact.toolchain);
  CHECK(copy->phases == artifact.phases);
  CHECK(copy->log == artifact.log);
}

TEST_CASE("attributes that lack a key or have a wrong type are refused") {
  for (const char *key : {"arch", "log", "registersPerThread", "phases",
                          "advisories", "toolchain", "entry"}) {
    llvm::json::Object object = makeArtifact().attributes();
    SUBCASE("missing") { object.erase(key); }
    SUBCASE("boolean") { object[key] = true; }
    auto copy = Artifact::fromAttributes(std::move(object), "");
    REQUIRE_FALSE(bool(copy));
    ErrorSummary error = summarize(copy.takeError());
    CHECK(error.code == ErrorCode::InvalidArgument);
    CHECK(error.message.find(key) != std::string::npos);
  }
  auto array = Artifact::fromAttributes(llvm::json::Array{1}, "");
  CHECK(summarize(array.takeError()).code == ErrorCode::InvalidArgument);
}

TEST_CASE("a log that is not UTF-8 still becomes JSON") {
  Artifact artifact = makeArtifact();
  artifact.log = "bad \xff byte";
  auto value = parseJson(printJson(artifact.attributes()), "attributes");
  REQUIRE(bool(value));
  CHECK(bool(Artifact::fromAttributes(*value, "")));
}

TEST_CASE("an artifact is rejected for its codes and for its spills, by name") {
  Artifact artifact = makeArtifact();
  artifact.usage.spillLoadBytes = artifact.usage.spillStoreBytes = 0;
  for (llvm::StringRef code :
       {"C7504", "C7507", "C7508", "C7509", "C7510", "C7511", "C7514", "C7515",
        "C7518", "C7519", "C7520"}) {
    artifact.advisories = {{code.str(), "as it says"}};
    CHECK(artifact.rejection(true) ==
          fmt::format("ptxas serialised the kernel ({})", code));
  }
  artifact.advisories = {{"C7505", "harmless"}, {"C7516", "harmless"}};
  CHECK(artifact.rejection(false).empty());
  artifact.usage.spillStoreBytes = 24;
  CHECK(artifact.rejection(false) == "ptxas spilled 24 bytes");
  CHECK(artifact.rejection(true).empty());
}

TEST_CASE("serialisation advisories are told from harmless ones") {
  Artifact artifact = makeArtifact();
  CHECK(artifact.hasSerialisationAdvisory());
  artifact.advisories = {{"C7505", "harmless"}};
  CHECK_FALSE(artifact.hasSerialisationAdvisory());
  artifact.advisories.push_back({"C7504", "setmaxnreg ignored"});
  CHECK(artifact.hasSerialisationAdvisory());
}
