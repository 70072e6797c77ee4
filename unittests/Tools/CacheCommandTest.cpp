// cache ls and verify.
#include "Tools/ToolRunner.h"

#include <doctest/doctest.h>
#include <filesystem>

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

TEST_CASE("F16: a folder that is missing or refused is an error, and is not "
          "made") {
  Tool tool;
  for (const char *action : {"ls", "verify"}) {
    CAPTURE(action);
    ToolResult missing = tool.run(std::string("cache ") + action);
    CHECK(missing.code == 2);
    CHECK(missing.hasOneErrorLine());
    CHECK(missing.err.find("No such file") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(tool.folder / "cache"));

    std::string open = tool.folder / "open";
    std::filesystem::create_directory(open);
    std::filesystem::permissions(open, std::filesystem::perms::all);
    ToolResult refused =
        tool.run({"cache", action, "--json", "--cache-dir", open});
    CHECK(refused.code == 2);
    CHECK(refused.hasOneErrorLine());
    CHECK(refused.err.find("writable by others") != std::string::npos);
    CHECK(refused.out.empty());
  }
}

TEST_CASE("an empty cache is no fault") {
  Tool tool;
  std::filesystem::create_directory(tool.folder / "cache");
  CHECK(tool.run("cache ls").code == 0);
  CHECK(tool.run("cache verify").code == 0);
}
