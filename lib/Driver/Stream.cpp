//===- Stream.cpp ---------------------------------------------------------===//
#include "Driver/Stream.h"

#include "Driver/CudaApi.h"

#include <utility>

namespace kiln {

llvm::Expected<uint64_t> streamId(const Driver &driver, CudaStream stream) {
  unsigned long long id = 0;
  if (llvm::Error error = driver.check(driver.api().cuStreamGetId(stream, &id),
                                       "cuStreamGetId"))
    return error;
  return id;
}

llvm::Error synchronize(const Driver &driver, CudaStream stream) {
  return driver.check(driver.api().cuStreamSynchronize(stream),
                      "cuStreamSynchronize");
}

llvm::Expected<Stream> Stream::create(const Driver &driver, Priority priority) {
  const CudaApi &api = driver.api();
  CUstream stream = nullptr;
  if (priority == Priority::Usual) {
    if (llvm::Error error =
            driver.check(api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                         "cuStreamCreate"))
      return error;
    return Stream(driver, stream);
  }
  int least = 0, greatest = 0;
  if (llvm::Error error =
          driver.check(api.cuCtxGetStreamPriorityRange(&least, &greatest),
                       "cuCtxGetStreamPriorityRange"))
    return error;
  if (llvm::Error error =
          driver.check(api.cuStreamCreateWithPriority(
                           &stream, CU_STREAM_NON_BLOCKING, least),
                       "cuStreamCreateWithPriority"))
    return error;
  return Stream(driver, stream);
}

Stream::Stream(Stream &&other) noexcept
    : driver(other.driver), stream(std::exchange(other.stream, nullptr)) {}

Stream::~Stream() {
  if (stream)
    driver->api().cuStreamDestroy(stream);
}

} // namespace kiln
