// The fields that the problems of all families share.
#include "Families/ProblemFields.h"

#include "Support/Error.h"

#include <doctest/doctest.h>

using namespace kiln;

static std::string text(llvm::Error error) {
  return error ? summarize(std::move(error)).message : "";
}

TEST_CASE("an alignment is a power of two, of an element at least") {
  CHECK(text(checkAlign("gemm", 1, 1)).empty());
  CHECK(text(checkAlign("gemm", 16, 4)).empty());
  CHECK(text(checkAlign("gemm", 12, 4)) ==
        "gemm: align=12 is not a power of two");
  CHECK(text(checkAlign("gemm", 2, 4)) ==
        "gemm: align=2 is below the element's 4 bytes");
}

TEST_CASE("a matrix has whole rows and 64-bit offsets") {
  auto check = [](int64_t rows, int64_t cols, int64_t ld, int64_t batch = 1) {
    return text(checkMatrix("gemm", "lda", rows, cols, ld, batch));
  };
  CHECK(check(3, 5, 5).empty());
  CHECK(check(0, 0, 0).empty());
  CHECK(check(3, 5, 4) == "gemm: lda=4 is below the row length 5");
  constexpr int64_t kMost = int64_t(1) << 56;
  CHECK(check(1 << 16, 1, kMost >> 16).empty());
  CHECK(check(1 << 8, 1, kMost >> 16, 1 << 8).empty());
  CHECK(check((1 << 16) + 1, 1, kMost >> 16) ==
        "gemm: lda=1099511627776: 65537 such rows exceed the address space");
  CHECK(check(1 << 8, 1, kMost >> 16, 257) ==
        "gemm: lda=1099511627776: 256 such rows in a batch of 257 exceed the "
        "address space");
  // Products that exceed 64 bits.
  CHECK_FALSE(check(kMaxExtent, 1, kMaxLeadingDimension, 0).empty());
  CHECK_FALSE(check(kMaxExtent, 1, 1 << 20, kMaxExtent).empty());
  CHECK(check(kMaxExtent, 1, 1, 0).empty());
}

TEST_CASE("a trial's operand is aligned as promised and no better") {
  CHECK(misalignmentOf(1, DType::E4M3) == 1);
  CHECK(misalignmentOf(1, DType::FP32) == 4);
  CHECK(misalignmentOf(8, DType::BF16) == 8);
  CHECK(misalignmentOf(16, DType::BF16) == 0);
}
