// cache ls and verify.
#include "Store/Verdicts.h"
#include "Tools/ToolRunner.h"

#include <chrono>
#include <doctest/doctest.h>
#include <filesystem>

using namespace kiln::testing;

TEST_CASE("the cache is listed and verified") {
  Tool tool;
  REQUIRE(tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm")
              .code == 0);
  llvm::json::Object list = tool.run("cache ls --json").json();
  CHECK(list.getArray("entries")->size() == 2);
  ToolResult text = tool.run("cache ls --kind portfolio");
  CHECK(text.code == 0);
  CHECK(text.out.find("gemm m=64 n=64 k=64 dtype=bf16") != std::string::npos);
  CHECK(text.out.find("1 entries") != std::string::npos);
  CHECK(tool.run("cache ls --kind artifact").out.find(" by nvrtc 13.0.99\n") !=
        std::string::npos);

  ToolResult sound = tool.run("cache verify");
  CHECK(sound.code == 0);
  CHECK(sound.out.find("2 sound, 0 damaged") != std::string::npos);
  for (const std::string &path : filesIn(tool.folder / "cache"))
    if (path.find("/portfolio/") != std::string::npos &&
        path.ends_with(".kiln")) {
      std::string bytes = readBytes(path);
      bytes.back() ^= 1;
      writeBytes(path, bytes);
    }
  ToolResult damaged = tool.run("cache verify --json");
  CHECK(damaged.code == 1);
  CHECK(damaged.json().getInteger("damaged") == 1);
}

TEST_CASE("kernels that were found wrong are listed and cleared") {
  Tool tool;
  REQUIRE(tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm")
              .code == 0);
  CHECK(tool.run("cache verdicts").out.find("no kernel was found wrong") !=
        std::string::npos);
  {
    kiln::cache::StoreOptions options;
    options.writeDir = (tool.folder / "cache");
    auto store = kiln::cache::Store::open(std::move(options));
    kiln::Verdicts verdicts(*store);
    for (const char *kernel : {"0abc", "1abc"})
      verdicts.found("some class", {.kernel = kernel,
                                    .config = "mma.bm64",
                                    .problem = "gemm m=3",
                                    .reason = "wrong: 2 of 9 elements"});
  }
  ToolResult text = tool.run("cache verdicts");
  CHECK(text.code == 0);
  CHECK(text.out.find("mma.bm64") != std::string::npos);
  CHECK(tool.run("cache verdicts --json").json().getArray("verdicts")->size() ==
        2);
  CHECK(tool.run("cache verdicts --kernel 0a").code == 2);
  CHECK(tool.run("cache verdicts --clear --kernel 7").code == 1);
  CHECK(tool.run("cache verdicts --clear --kernel 0a --json")
            .json()
            .getInteger("cleared") == 1);
  CHECK(tool.run("cache verdicts --clear").code == 0);
  CHECK(tool.run("cache verdicts --json").json().getArray("verdicts")->empty());
  CHECK(tool.run("cache ls --clear").code == 2);
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

TEST_CASE("F8: prune takes temporary files, old entries and what is too much") {
  Tool tool;
  REQUIRE(tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 gemm m=128 n=64 k=64 "
                   "dtype=fp16 --device h200-sxm")
              .code == 0);
  auto entriesIn = [&](const char *folder) {
    std::vector<std::string> paths = filesIn(tool.folder / folder);
    std::erase_if(paths, [](const std::string &path) {
      return !path.ends_with(".kiln");
    });
    return paths;
  };
  std::vector<std::string> kernels = entriesIn("cache/v1/artifact");
  REQUIRE(kernels.size() == 2);
  auto age = [](const std::string &path, int hours) {
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() -
                  std::chrono::hours(hours));
  };
  std::string left = std::filesystem::path(kernels[0]).parent_path() /
                     ".tmp.12.some-host.0123456789abcdef";
  writeBytes(left, "half");
  age(left, 2);
  age(kernels[0], 73);
  age(kernels[1], 71);
  ToolResult verified = tool.run("cache verify");
  CHECK(verified.code == 0);
  CHECK(verified.out.find("1 temporary, 0 foreign") != std::string::npos);

  ToolResult dry = tool.run("cache prune --max-age 2d --dry-run");
  CHECK(dry.code == 0);
  CHECK(dry.out.find("would remove 2 files") != std::string::npos);
  CHECK(dry.out.find(left) != std::string::npos);
  CHECK(std::filesystem::exists(left));
  llvm::json::Object json = tool.run("cache prune --json").json();
  CHECK(json.getArray("removed")->size() == 1);
  CHECK(json.getInteger("kept_entries") == 4);
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(tool.run("cache prune --max-age 2d").out.find("removed 1 files") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(kernels[0]));
  uint64_t rest = 0;
  for (const std::string &path : entriesIn("cache"))
    rest += std::filesystem::file_size(path);
  CHECK(tool.run("cache prune --max-size=" + std::to_string(rest - 1)).code ==
        0);
  CHECK_FALSE(std::filesystem::exists(kernels[1]));
  CHECK(entriesIn("cache").size() == 2); // decisions
  for (const char *bad : {"--max-size 4X", "--max-size -1", "--max-age 3",
                          "--max-size 99999999999T", "--kind kernel"})
    CHECK(tool.run(std::string("cache prune ") + bad).code == 2);
  // The options of another action are refused.
  for (const char *bad : {"ls --max-age 2d", "ls --dry-run",
                          "verify --kind record", "verify --dry-run"})
    CHECK(tool.run(std::string("cache ") + bad).code == 2);
  CHECK(tool.run("cache prune --kind artifact --max-size 0").code == 0);
  CHECK(entriesIn("cache").size() == 2);
  CHECK(tool.run("cache prune --kind portfolio --max-size 0").code == 0);
  CHECK(entriesIn("cache").empty());
}

TEST_CASE("an empty cache is no fault") {
  Tool tool;
  std::filesystem::create_directory(tool.folder / "cache");
  CHECK(tool.run("cache ls").code == 0);
  CHECK(tool.run("cache verify").code == 0);
}

TEST_CASE("the limit belongs to the folder, and ls shows it") {
  Tool tool;
  std::filesystem::create_directory(tool.folder / "cache");
  CHECK(tool.run("cache ls").out.find("no limit is set") != std::string::npos);
  REQUIRE(tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm")
              .code == 0);
  CHECK(tool.run("cache ls").out.find("kept under 4294967296 bytes") !=
        std::string::npos);
  CHECK(tool.run("cache prune --max-size 1G").code == 0);
  llvm::json::Object list = tool.run("cache ls --json").json();
  CHECK(list.getInteger("limit_bytes") == int64_t(1) << 30);
}

TEST_CASE("fault 27: prune removes nothing for its age by an odd clock") {
  Tool tool;
  REQUIRE(tool.run("warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm")
              .code == 0);
  for (const std::string &path : filesIn(tool.folder / "cache"))
    if (path.ends_with(".kiln"))
      std::filesystem::last_write_time(
          path, std::filesystem::file_time_type::clock::now() -
                    std::chrono::hours(24 * 365));
  ToolResult refused = tool.run("cache prune --max-age 30d");
  CHECK(refused.code == 1);
  CHECK(refused.out.find("nothing was removed for its age") !=
        std::string::npos);
  CHECK(refused.out.find("2 entries") != std::string::npos);
  ToolResult trusted = tool.run("cache prune --max-age 30d --trust-clock");
  CHECK(trusted.code == 0);
  CHECK(trusted.out.find("removed 2 files") != std::string::npos);
}

TEST_CASE("a cache that is only read serves behind an empty one") {
  Tool tool;
  const std::string line =
      "warmup gemm m=64 n=64 k=64 dtype=bf16 --device h200-sxm --json";
  REQUIRE(tool.run(line).code == 0);
  const std::string full = tool.folder / "full";
  std::filesystem::rename(tool.folder / "cache", full);
  auto fromCache = [&](const std::string &options) {
    llvm::json::Object report = tool.run(line + options).json();
    std::filesystem::remove_all(tool.folder / "cache");
    return (*report.getArray("devices"))[0].getAsObject()->getInteger(
        "from_cache");
  };
  CHECK(fromCache("") == 0);
  CHECK(fromCache(" --cache-read-dir " + full) == 1);
  tool.environment["KILN_CACHE_READ_DIRS"] = "/nowhere:" + full;
  CHECK(fromCache("") == 1);
  // The option replaces the variable.
  CHECK(fromCache(" --cache-read-dir " + (tool.folder / "other")) == 0);
}
