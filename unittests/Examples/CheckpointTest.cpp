#include "llama/Checkpoint.h"

#include "Examples/SafetensorsFixture.h"
#include "Support/TemporaryFolder.h"
#include "llama/Error.h"

#include <doctest/doctest.h>

using namespace llama;
using namespace llama::testing;
using kiln::testing::TemporaryFolder;

TEST_CASE("checkpoints of one file, of several, and of a folder") {
  const TemporaryFolder folder;
  const auto shard = [](const char *name, const char *type) {
    return safetensorsBytes(
        "{\"" + std::string(name) + "\": {\"dtype\": \"" + type +
            "\", \"shape\": [4], \"data_offsets\": [0, 4]}}",
        4);
  };
  CHECK_THROWS_WITH_AS(Checkpoint(folder.path), doctest::Contains("neither"),
                       Error);
  writeFile(folder / "model.safetensors", shard("a", "U8"));
  {
    const Checkpoint single(folder.path);
    CHECK(single.tensor("a").bytes == 4);
    CHECK(single.tensor("a").data[3] == std::byte(3));
    CHECK_THROWS_WITH_AS(single.tensor("b"),
                         doctest::Contains("\"b\": is missing"), Error);
  }
  writeFile(folder / "x.safetensors", shard("a", "I8"));
  writeFile(folder / "y.safetensors", shard("b", "F8_E4M3"));
  const std::string index = folder / "model.safetensors.index.json";
  const auto writeIndex = [&](const std::string &a, const std::string &b) {
    writeFile(index, "{\"metadata\": {\"total_size\": 8}, \"weight_map\": "
                     "{\"a\": " +
                         a + ", \"b\": " + b + "}}");
  };
  writeIndex("\"x.safetensors\"", "\"y.safetensors\"");
  for (const std::string &path : {folder.path, index}) {
    const Checkpoint sharded(path);
    CHECK(sharded.tensors().size() == 2);
    CHECK(sharded.tensor("a").dtype == DType::I8);
    CHECK(sharded.tensor("b").dtype == DType::F8E4M3);
  }

  const auto refuseIndex = [&](const std::string &b, const char *message) {
    CAPTURE(b);
    writeIndex("\"x.safetensors\"", b);
    CHECK_THROWS_WITH_AS(Checkpoint(folder.path), doctest::Contains(message),
                         Error);
  };
  for (const char *name : {"\"../x\"", "\"/etc/passwd\"", "\"..\"", "\"\"", "1",
                           "\"a\\u0000b\"", "\"a\\\\b\""})
    refuseIndex(name, "not the name of a file beside the index");
  refuseIndex("\"z.safetensors\"", "cannot be opened");
  refuseIndex("\"x.safetensors\"", "\"b\": is not in this file");
  writeFile(index, "{}");
  CHECK_THROWS_WITH_AS(Checkpoint(folder.path),
                       doctest::Contains("no weight_map"), Error);
  CHECK_THROWS_WITH_AS(Checkpoint(folder / "none"),
                       doctest::Contains("cannot be opened"), Error);
  CHECK_THROWS_WITH_AS(Checkpoint("/dev/null"),
                       doctest::Contains("not a regular file"), Error);
}
