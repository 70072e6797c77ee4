#include "Support/Error.h"

#include "Support/OutOfMemory.h"

#include <doctest/doctest.h>

#include <llvm/Support/ErrorHandling.h>

#include <new>

using namespace kiln;

TEST_CASE("context is prefixed and the code kept") {
  llvm::Error error =
      addContext(makeError(ErrorCode::InvalidArgument, "m is {}", -1), "gemm");
  ErrorSummary summary = summarize(std::move(error));
  CHECK(summary.code == ErrorCode::InvalidArgument);
  CHECK(summary.message == "gemm: m is -1");
}

TEST_CASE("success stays success") {
  CHECK(!addContext(llvm::Error::success(), "anything"));
  CHECK(summarize(llvm::Error::success()).code == ErrorCode::Success);
}

TEST_CASE("a foreign error becomes an internal one") {
  auto summary = summarize(llvm::createStringError("from elsewhere"));
  CHECK(summary.code == ErrorCode::Internal);
  CHECK(summary.message == "from elsewhere");
}

TEST_CASE("joined errors keep the first code and both messages") {
  auto summary = summarize(llvm::joinErrors(
      makeError(ErrorCode::Io, "one"), makeError(ErrorCode::Missing, "two")));
  CHECK(summary.code == ErrorCode::Io);
  CHECK(summary.message == "one; two");
}

TEST_CASE("an error is made of its summary") {
  ErrorSummary given{ErrorCode::DriverError, "the driver says no", 719};
  ErrorSummary told = summarize(addContext(errorOf(given), "launch"));
  CHECK(told.code == given.code);
  CHECK(told.message == "launch: the driver says no");
  CHECK(told.driverCode == given.driverCode);
}

TEST_CASE("where memory is out, containers throw and do not abort") {
  throwWhereMemoryIsOut();
  throwWhereMemoryIsOut();
  CHECK_THROWS_AS(llvm::report_bad_alloc_error("no memory"), std::bad_alloc);
}
