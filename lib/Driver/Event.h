//===- Event.h - points in a stream's time --------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

namespace kiln {

/// Owns an event of the context that was current when it was made.
class Event {
public:
  enum class Timing { Enabled, Disabled };

  static llvm::Expected<Event> create(const Driver &driver,
                                      Timing timing = Timing::Enabled);
  Event(Event &&other) noexcept;
  Event &operator=(Event &&) = delete;
  /// The context must still exist: else leak() first.
  ~Event();

  /// Leaves the event to its context and forgets it.
  void leak() { event = nullptr; }

  CudaEvent handle() const { return event; }

  /// Marks the present end of \p stream.
  llvm::Error record(CudaStream stream);
  /// Whether the recorded point has been reached.
  llvm::Expected<bool> isDone() const;
  /// Makes later work of \p stream wait for the recorded point.
  llvm::Error makeWait(CudaStream stream) const;

private:
  Event(const Driver &driver, CudaEvent event)
      : driver(&driver), event(event) {}
  const Driver *driver;
  CudaEvent event;
};

/// Time between two recorded and reached points in ns; the hardware resolves
/// about 500 ns. Error: InProgress while either is not reached.
llvm::Expected<double> elapsedNs(const Driver &driver, const Event &start,
                                 const Event &stop);

} // namespace kiln
