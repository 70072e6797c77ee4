#include "Kernel/Sources.h"

#include "Support/Error.h"
#include "Support/TemporaryFolder.h"

#include <doctest/doctest.h>

using namespace kiln;
using kiln::testing::TemporaryFolder;

static llvm::StringRef treeFolder() { return KILN_SOURCE_DIR "/kernel_src"; }

// A source that is not listed would be missed when a kernel is compiled, on the
// user's machine.
TEST_CASE("the library carries every kernel source of the tree") {
  auto tree = llvm::cantFail(SourceSet::loadDirectory(treeFolder()));
  for (const SourceFile &file : tree->files()) {
    CAPTURE(file.name);
    const std::string *embedded = kernelSources()->find(file.name);
    REQUIRE(embedded);
    CHECK(*embedded == file.contents);
  }
  CHECK(kernelSources()->files() == tree->files());
  CHECK(kernelSources() == kernelSources());
}

TEST_CASE("an override replaces all sources, a bad one none") {
  auto before = kernelSources();
  CHECK(summarize(overrideKernelSources("/nowhere/at/all")).code ==
        ErrorCode::Io);
  CHECK(kernelSources() == before);

  TemporaryFolder folder;
  kiln::testing::writeBytes(folder / "own.cuh", "// own\n");
  REQUIRE(!overrideKernelSources(folder.path));
  CHECK(kernelSources()->files().size() == 1);
  CHECK(kernelSources()->find("own.cuh"));
  // Who took them before keeps them.
  CHECK(before->files().size() > 1);

  REQUIRE(!overrideKernelSources(treeFolder()));
  CHECK(kernelSources()->files() == before->files());
}
