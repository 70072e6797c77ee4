//===- Profiler.cpp -------------------------------------------------------===//
#include "Driver/Profiler.h"

#include "Driver/CudaApi.h"

namespace kiln {

llvm::Error startProfilers(const Driver &driver) {
  return driver.check(driver.api().cuProfilerStart(), "cuProfilerStart");
}

llvm::Error stopProfilers(const Driver &driver) {
  return driver.check(driver.api().cuProfilerStop(), "cuProfilerStop");
}

} // namespace kiln
