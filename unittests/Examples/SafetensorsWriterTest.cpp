#include "llama/SafetensorsWriter.h"

#include "Support/TemporaryFolder.h"
#include "llama/Checkpoint.h"
#include "llama/Error.h"

#include <doctest/doctest.h>
#include <filesystem>

using namespace llama;
using kiln::testing::TemporaryFolder;

namespace {

size_t filesIn(const std::string &folder) {
  size_t count = 0;
  for (const auto &file : std::filesystem::directory_iterator(folder)) {
    (void)file;
    ++count;
  }
  return count;
}

} // namespace

TEST_CASE("a file is written in pieces and read back") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  std::vector<char> data(4 * 5 * 2 + 0 + 4);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<char>(i * 7);
  {
    SafetensorsWriter writer(path,
                             {{"z.weight", DType::BF16, {4, 5}},
                              {"empty", DType::F32, {0, 3}},
                              {"scalar", DType::F32, {}}},
                             {{"format", "pt"}});
    CHECK(writer.remaining() == data.size());
    writer.write(data.data(), 13);
    writer.write(data.data() + 13, data.size() - 13);
    CHECK(!std::filesystem::exists(path));
    writer.finish();
  }
  CHECK(filesIn(folder.path) == 1);

  const Checkpoint checkpoint(path);
  CHECK(checkpoint.tensors().size() == 3);
  const Tensor &matrix = checkpoint.tensor("z.weight");
  CHECK(matrix.shape == std::vector<int64_t>{4, 5});
  REQUIRE(matrix.bytes == 40);
  CHECK(std::equal(data.begin(), data.begin() + 40,
                   reinterpret_cast<const char *>(matrix.data)));
  CHECK(reinterpret_cast<uintptr_t>(matrix.data) % 8 == 0);
  CHECK(checkpoint.tensor("scalar").shape.empty());
  CHECK(checkpoint.tensor("empty").bytes == 0);
}

TEST_CASE("a file that is not finished leaves nothing") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  {
    SafetensorsWriter writer(path, {{"a", DType::U8, {4}}});
    writer.write("ab", 2);
    CHECK_THROWS_WITH_AS(writer.finish(),
                         doctest::Contains("2 bytes of data are missing"),
                         Error);
    CHECK_THROWS_WITH_AS(writer.write("abc", 3),
                         doctest::Contains("expected at most 2"), Error);
  }
  CHECK(filesIn(folder.path) == 0);
}

TEST_CASE("declarations that cannot be written are refused") {
  const TemporaryFolder folder;
  const auto refuse = [&](std::vector<TensorDeclaration> tensors,
                          const char *message) {
    CHECK_THROWS_WITH_AS(SafetensorsWriter(folder / "file", tensors),
                         doctest::Contains(message), Error);
  };
  refuse({{"", DType::U8, {1}}}, "not a name");
  refuse({{"__metadata__", DType::U8, {1}}}, "not a name");
  refuse({{std::string("a\0", 2), DType::U8, {1}}}, "not a name");
  refuse({{"\xff", DType::U8, {1}}}, "UTF-8");
  refuse({{"a", DType::U8, {1}}, {"a", DType::U8, {1}}}, "declared twice");
  refuse({{"a", DType::U8, {-1}}}, "a size of -1");
  refuse({{"a", DType::F4, {3}}}, "12 bits");
  refuse({{"a", DType::F32, {int64_t(1) << 62}}}, "2^63 bits");
  CHECK(filesIn(folder.path) == 0);
  CHECK_THROWS_WITH_AS(SafetensorsWriter("/no/such/folder/file", {}),
                       doctest::Contains("cannot be created"), Error);
}
