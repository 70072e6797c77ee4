// The sizes that callers give of structs: wrong ones, and those of versions
// that are older or newer than the library's.
#include "Call/CallChecks.h"
#include "Call/StructAccess.h"

#include "Call/Visit.h"
#include "Families/Families.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("with a wrong struct_size nothing past a struct is read or written") {
  const Registry registry = makeBuiltinRegistry();
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  char *end = static_cast<char *>(pages) + page;
  REQUIRE(mprotect(end, page, PROT_NONE) == 0);
  constexpr uint32_t kNoSize = 1 << 20;
  const std::string told = ": struct_size is 1048576, at most 4096 is believed";

  kiln_gemm_args args = kiln_gemm_args_init();
  args.struct_size = kNoSize;
  auto *placed = reinterpret_cast<kiln_gemm_args *>(end - sizeof(args));
  std::memcpy(placed, &args, sizeof(args));
  const CheckedCall checked(*registry.find("gemm"), placed);
  CHECK_FALSE(checked.isRead);
  CHECK(checked.message == "kiln_gemm_args" + told);

  auto *filled =
      reinterpret_cast<kiln_statistics *>(end - sizeof(kiln_statistics));
  filled->struct_size = kNoSize;
  CHECK(summarize(checkOutput(filled, "statistics")).message ==
        "statistics" + told);
  auto *links =
      reinterpret_cast<kiln_pointwise *>(end - sizeof(kiln_pointwise));
  links->struct_size = kNoSize;
  CHECK(summarize(checkArray(links, 2, "pointwise")).message ==
        "pointwise" + told);
  munmap(pages, 2 * page);
}

TEST_CASE("no field past the size of a struct of scales is read") {
  const Registry registry = makeBuiltinRegistry();
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  char *end = static_cast<char *>(pages) + page;
  REQUIRE(mprotect(end, page, PROT_NONE) == 0);
  constexpr uint32_t kBytes = 8;
  std::memcpy(end - kBytes, &kBytes, sizeof(kBytes));
  kiln_gemm_args args = kiln_gemm_args_init();
  args.m = args.n = args.k = 64;
  args.a.type = KILN_E4M3;
  args.a.data = reinterpret_cast<void *>(0x1000000);
  args.b.data = reinterpret_cast<void *>(0x2000000);
  args.d.data = reinterpret_cast<void *>(0x3000000);
  args.scales = reinterpret_cast<const kiln_gemm_scales *>(end - kBytes);
  const CheckedCall checked(*registry.find("gemm"), &args);
  CHECK_FALSE(checked.isRead);
  CHECK(checked.message == "scales: struct_size is 8, at least " +
                               std::to_string(sizeof(kiln_gemm_scales)) +
                               " is needed");
  munmap(pages, 2 * page);
}

namespace {
/// A struct of a call whose second version has one field more.
struct GrownArgs {
  uint32_t struct_size;
  kiln_determinism determinism;
  int64_t rows, cols;
  uint32_t flags;
  uint32_t reserved0;
  uint64_t reserved[2];
  int64_t added;
};
/// A result that grew likewise.
struct GrownResult {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t first, added;
};

struct GrownVisit {
  using Args = GrownArgs;
  static constexpr int kFields = 6;
  static constexpr int kOperands = 2;

  template <class Visitor> static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "grown"))
      return;
    v.number(1, "rows", args.rows);
    v.number(2, "added", args.added);
  }
};
} // namespace

template <>
inline constexpr size_t kiln::kFirstVersionSize<GrownArgs> = offsetof(GrownArgs,
                                                                      added);
template <>
inline constexpr size_t
    kiln::kFirstVersionSize<GrownResult> = offsetof(GrownResult, added);

TEST_CASE("a struct that grew is read and written in its caller's size") {
  const Registry registry = makeBuiltinRegistry();
  const Schema &schema = registry.find("transpose2d")->problemSchema();
  const CallReader reader = makeCallReader<GrownVisit>(KILN_FAMILY_TRANSPOSE);
  constexpr uint32_t kShort = offsetof(GrownArgs, added);
  // Reads \p args and tells the value of its added field, or -1.
  auto check = [&](const GrownArgs &args, const std::string &message,
                   int64_t added) {
    FamilyCall call, again;
    FieldNames names;
    CHECK(reader.read(&args, call) == message.empty());
    CHECK(summarize(
              reader.explain(&args, CallAddresses::Used, schema, again, names))
              .message == message);
    if (!message.empty())
      return;
    for (const FamilyCall *one : {&call, &again}) {
      CHECK(one->values[1] == 7);
      CHECK(one->values[2] == added);
    }
  };
  GrownArgs args = KILN_INIT(GrownArgs);
  args.rows = 7;
  args.added = 5;
  check(args, "", 5);
  // Bytes behind an older caller's struct are not read.
  args.struct_size = kShort;
  check(args, "", 0);
  args.reserved[1] = 1;
  check(args, "grown: a reserved field is set", 0);
  args.reserved[1] = 0;
  args.struct_size = kShort - 8;
  check(args, "grown: struct_size is 40, at least 48 is needed", 0);

  GrownResult results[2] = {};
  results[0].added = 9;
  results[0].struct_size = offsetof(GrownResult, added);
  const GrownResult value = {sizeof(GrownResult), 0, 3, 4};
  CHECK(summarize(checkOutput(results, "result")).message == "");
  fillOutput(results, value);
  CHECK(results[0].struct_size == 16);
  CHECK(results[0].first == 3);
  CHECK(results[0].added == 9); // memory of the caller's
  results[0].struct_size = 2 * sizeof(GrownResult);
  results[1].first = 9;
  fillOutput(results, value);
  CHECK(results[0].added == 4);
  CHECK(results[1].first == 0);
  results[0].struct_size = 8;
  CHECK(summarize(checkOutput(results, "result")).message ==
        "result: struct_size is 8, at least 16 is needed");
}
