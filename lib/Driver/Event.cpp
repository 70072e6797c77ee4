//===- Event.cpp ----------------------------------------------------------===//
#include "Driver/Event.h"

#include "Driver/CudaApi.h"

#include <utility>

namespace kiln {

llvm::Expected<Event> Event::create(const Driver &driver, Timing timing) {
  CUevent event = nullptr;
  unsigned flags =
      timing == Timing::Enabled ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  if (llvm::Error error = driver.check(
          driver.api().cuEventCreate(&event, flags), "cuEventCreate"))
    return error;
  return Event(driver, event);
}

Event::Event(Event &&other) noexcept
    : driver(other.driver), event(std::exchange(other.event, nullptr)) {}

Event::~Event() {
  if (event)
    driver->api().cuEventDestroy(event);
}

llvm::Error Event::record(CudaStream stream) {
  return driver->check(driver->api().cuEventRecord(event, stream),
                       "cuEventRecord");
}

llvm::Expected<bool> Event::isDone() const {
  CUresult result = driver->api().cuEventQuery(event);
  if (result == CUDA_ERROR_NOT_READY)
    return false;
  if (llvm::Error error = driver->check(result, "cuEventQuery"))
    return error;
  return true;
}

llvm::Error Event::makeWait(CudaStream stream) const {
  return driver->check(
      driver->api().cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT),
      "cuStreamWaitEvent");
}

llvm::Expected<double> elapsedNs(const Driver &driver, const Event &start,
                                 const Event &stop) {
  float milliseconds = 0;
  if (llvm::Error error =
          driver.check(driver.api().cuEventElapsedTime(
                           &milliseconds, start.handle(), stop.handle()),
                       "cuEventElapsedTime"))
    return error;
  return double(milliseconds) * 1e6;
}

} // namespace kiln
