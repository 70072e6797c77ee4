#include "Compile/Nvrtc.h"

#include "Compile/TestUnits.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kiln;
using kiln::testing::readBytes;
using kiln::testing::TemporaryFolder;
using kiln::testing::writeBytes;
namespace fs = std::filesystem;

static NvrtcSearch emptySearch() {
  NvrtcSearch search;
  search.askLoader = false;
  search.usualFolders = false;
  return search;
}

TEST_CASE("a missing compiler is an error that names every place") {
  NvrtcSearch search = emptySearch();
  search.toolkits = {"/nowhere/cuda"};
  search.extraFolders = {"/nowhere/pip"};
  auto nvrtc = Nvrtc::load(search);
  ErrorSummary error = summarize(nvrtc.takeError());
  CHECK(error.code == ErrorCode::CompilerMissing);
  for (const char *place :
       {"/nowhere/cuda/lib64", "/nowhere/cuda/targets/x86_64-linux/lib",
        "/nowhere/pip/lib", "KILN_NVRTC", "libnvrtc.so.13"})
    CHECK(error.message.find(place) != std::string::npos);
}

TEST_CASE("a set KILN_NVRTC is all that is searched") {
  Environment environment;
  environment.kilnNvrtc = "/nowhere/libnvrtc.so";
  environment.cudaHome = "/usr/local/cuda";
  NvrtcSearch search = NvrtcSearch::fromEnvironment(environment);
  CHECK(search.toolkits.size() == 1);
  auto nvrtc = Nvrtc::load(search);
  ErrorSummary error = summarize(nvrtc.takeError());
  CHECK(error.code == ErrorCode::CompilerMissing);
  CHECK(error.message.find("/nowhere/libnvrtc.so") != std::string::npos);
  CHECK(error.message.find("/usr/local") == std::string::npos);
}

TEST_CASE("what is no library does not serve, and the reason is told") {
  const fs::path folder =
      fs::temp_directory_path() / ("kiln-nvrtc-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "libnvrtc.so.12") << "no ELF";
  NvrtcSearch search = emptySearch();
  search.extraFolders = {folder.string()};
  auto nvrtc = Nvrtc::load(search);
  ErrorSummary error = summarize(nvrtc.takeError());
  CHECK(error.message.find((folder / "libnvrtc.so.12").string() + "'") !=
        std::string::npos);

  // A good one in a later place serves instead.
  fs::create_directories(folder / "good");
  fs::copy(FakeNvrtc::path(KILN_BINARY_DIR), folder / "good/libnvrtc.so.13");
  search.extraFolders.push_back((folder / "good").string());
  auto found = Nvrtc::load(search);
  REQUIRE(bool(found));
  CHECK((*found)->path() == (folder / "good/libnvrtc.so.13").string());

  // A folder works where a file does.
  search = emptySearch();
  search.explicitPath = (folder / "good").string();
  CHECK(bool(Nvrtc::load(search)));
  fs::remove_all(folder);
}

TEST_CASE("version, identity and architectures of a loaded compiler") {
  FakeNvrtc fake = FakeNvrtc::open(KILN_BINARY_DIR);
  auto nvrtc = Nvrtc::load(fakeSearch());
  REQUIRE(bool(nvrtc));
  CHECK((*nvrtc)->majorVersion() == 13);
  CHECK((*nvrtc)->identity().rfind("nvrtc 13.0.99 ", 0) == 0);
  CHECK(summarize((*nvrtc)->checkSupports("sm_90a")).code ==
        ErrorCode::Success);
  ErrorSummary unknown = summarize((*nvrtc)->checkSupports("sm_70"));
  CHECK(unknown.code == ErrorCode::Unsupported);
  CHECK(unknown.message.find("sm_75, sm_80") != std::string::npos);
  CHECK(summarize((*nvrtc)->checkSupports("turing")).code ==
        ErrorCode::InvalidArgument);

  // A build that is not of the version that the library tells is not told.
  fake.setVersion(13, 1);
  auto other = Nvrtc::load(fakeSearch());
  REQUIRE(bool(other));
  CHECK((*other)->identity().rfind("nvrtc 13.1 ", 0) == 0);

  fake.setVersion(12, 4);
  auto old = Nvrtc::load(fakeSearch());
  ErrorSummary error = summarize(old.takeError());
  CHECK(error.code == ErrorCode::CompilerMissing);
  CHECK(error.message.find("NVRTC 12.4, older than 12.8") != std::string::npos);
  fake.reset();
}

TEST_CASE("F13: a truncated NVRTC and truncated builtins are refused") {
  TemporaryFolder folder;
  const std::string whole = readBytes(FakeNvrtc::path(KILN_BINARY_DIR));
  const std::string library = folder / "libnvrtc.so.13";
  NvrtcSearch search = emptySearch();
  search.explicitPath = folder.path;
  auto messageOf = [&] {
    auto nvrtc = Nvrtc::load(search);
    REQUIRE_FALSE(bool(nvrtc));
    ErrorSummary error = summarize(nvrtc.takeError());
    CHECK(error.code == ErrorCode::CompilerMissing);
    return error.message;
  };
  writeBytes(library, whole.substr(0, whole.size() / 2));
  CHECK(messageOf().find("truncated") != std::string::npos);

  writeBytes(library, whole);
  const std::string builtins = folder / "libnvrtc-builtins.so.13.0";
  writeBytes(builtins, whole.substr(0, whole.size() / 2));
  const std::string message = messageOf();
  CHECK(message.find(builtins) != std::string::npos);
  CHECK(message.find("truncated") != std::string::npos);

  // Builtins of another version, and of the alternate build, are not its own.
  fs::rename(builtins, folder / "libnvrtc-builtins.so.12.9");
  writeBytes(folder / "libnvrtc-builtins.alt.so.13.0", "cut");
  auto nvrtc = Nvrtc::load(search);
  REQUIRE(bool(nvrtc));
  auto alternateMessage = [&] {
    auto alternate = (*nvrtc)->loadAlternate();
    REQUIRE_FALSE(bool(alternate));
    return summarize(alternate.takeError()).message;
  };
  writeBytes(folder / "libnvrtc.alt.so.13", whole.substr(0, 5000));
  CHECK(alternateMessage().find("truncated") != std::string::npos);
  writeBytes(folder / "libnvrtc.alt.so.13", whole);
  CHECK(alternateMessage().find("libnvrtc-builtins.alt.so.13.0") !=
        std::string::npos);
}

TEST_CASE("F15: only a marked build folder lends its toolkit") {
  TemporaryFolder folder;
  const std::string tree = folder / "build/release";
  fs::create_directories(tree);
  // As an installed library sees its prefix.
  CHECK(toolkitOfTree(tree).empty());
  writeBytes(tree + "/kiln-build-tree", "");
  CHECK(toolkitOfTree(tree) == folder / "build/cuda");
  CHECK_FALSE(buildTreeToolkit().empty()); // of this test's own build folder
  std::vector<std::string> searched;
  NvrtcSearch search = emptySearch();
  search.extraFolders = {""};
  CHECK(nvrtcCandidates(search, searched).empty());
  CHECK(searched.empty());
}

TEST_CASE("NVRTC is found in the wheels of a Python prefix") {
  TemporaryFolder folder;
  const std::string packages =
      folder / "venv/lib/python3.12/site-packages/nvidia/";
  const std::string whole = readBytes(FakeNvrtc::path(KILN_BINARY_DIR));
  const std::string older = packages + "cuda_nvrtc/lib/libnvrtc.so.12",
                    newer = packages + "cu13/lib/libnvrtc.so.13";
  writeBytes(older, whole);
  Environment environment;
  environment.virtualEnv = folder / "venv";
  NvrtcSearch search = NvrtcSearch::fromEnvironment(environment);
  search.askLoader = search.usualFolders = search.loadedWheels = false;
  std::vector<std::string> searched;
  CHECK(nvrtcCandidates(search, searched) == std::vector{older});
  writeBytes(newer, whole);
  CHECK(nvrtcCandidates(search, searched) == std::vector{newer, older});
  auto nvrtc = Nvrtc::load(search);
  REQUIRE(bool(nvrtc));
  CHECK((*nvrtc)->path() == newer);

  // Conda's packages are in the prefix, and so is its mark.
  environment = {};
  environment.condaPrefix = folder / "conda";
  search.pythonPrefixes =
      NvrtcSearch::fromEnvironment(environment).pythonPrefixes;
  const std::string conda = folder / "conda/lib/libnvrtc.so.13";
  writeBytes(conda, whole);
  CHECK(nvrtcCandidates(search, searched).empty());
  fs::create_directories(folder / "conda/conda-meta");
  CHECK(nvrtcCandidates(search, searched) == std::vector{conda});
}

TEST_CASE("NVRTC is found in the wheel beside what the process has loaded") {
  TemporaryFolder folder;
  const std::string packages = folder / "lib/python3.13/site-packages/";
  const std::string whole = readBytes(FakeNvrtc::path(KILN_BINARY_DIR));
  writeBytes(packages + "nvidia/cu13/lib/libnvrtc.so.13", whole);
  CHECK(wheelFolders(true, {}).empty());
  const std::string engine = packages + "torch/lib/libengine.so";
  writeBytes(engine, whole);
  REQUIRE(bool(DynamicLibrary::openFirst({engine}, "an engine",
                                         ErrorCode::CompilerMissing)));
  CHECK(wheelFolders(true, {}) == std::vector{packages + "nvidia/cu13/lib"});
  CHECK(wheelFolders(false, {}).empty());
}

TEST_CASE("a relative toolkit is passed over, and the reason is told") {
  TemporaryFolder folder;
  fs::create_directories(folder / "lib");
  fs::copy(FakeNvrtc::path(KILN_BINARY_DIR), folder / "lib/libnvrtc.so.13");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  NvrtcSearch search = emptySearch();
  search.toolkits = {"."};
  auto nvrtc = Nvrtc::load(search);
  fs::current_path(before);
  CHECK(summarize(nvrtc.takeError()).message.find("it is a relative path") !=
        std::string::npos);
}
