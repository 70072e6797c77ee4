// cache ls and verify.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>

using namespace kiln::testing;

TEST_CASE("the cache is listed and verified") {
  Tool tool;
  REQUIRE(tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm")
              .code == 0);
  llvm::json::Object list = tool.run("cache ls --json").json();
  CHECK(list.getArray("entries")->size() == 2);
  ToolResult text = tool.run("cache ls --kind decision");
  CHECK(text.code == 0);
  CHECK(text.out.find("gemm m=64 n=64 k=64 dtype=bf16") != std::string::npos);
  CHECK(text.out.find("1 entries") != std::string::npos);

  ToolResult sound = tool.run("cache verify");
  CHECK(sound.code == 0);
  CHECK(sound.out.find("2 sound, 0 damaged") != std::string::npos);
  for (const std::string &path : filesIn(tool.folder / "cache"))
    if (path.find("/decision/") != std::string::npos &&
        path.ends_with(".kiln")) {
      std::string bytes = readBytes(path);
      bytes.back() ^= 1;
      writeBytes(path, bytes);
    }
  ToolResult damaged = tool.run("cache verify --json");
  CHECK(damaged.code == 1);
  CHECK(damaged.json().getInteger("damaged") == 1);
}

TEST_CASE("an empty cache is no fault") {
  Tool tool;
  CHECK(tool.run("cache ls").code == 0);
  CHECK(tool.run("cache verify").code == 0);
}
