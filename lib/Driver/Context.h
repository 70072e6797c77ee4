//===- Context.h - contexts, and calls beside captures --------------------===//
//
// Kiln works in the contexts of its callers. Handles of destroyed contexts are
// reused by the driver, so everything kept per context is keyed by the id of
// cuCtxGetId, which is unique in the process.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"

#include <cstdint>

namespace kiln {

/// The context current to this thread, or null.
llvm::Expected<CudaContext> currentContext(const Driver &driver);

/// Process-unique id of \p context, or of the current one if \p context is
/// null. Two driver look-ups, tens of ns. Errors: InvalidArgument without a
/// context, ContextDead.
llvm::Expected<uint64_t> contextId(const Driver &driver,
                                   CudaContext context = nullptr);

/// Whether \p context is still the one that had \p id. A kept handle is checked
/// with it before any other use. For the id of a destroyed context the driver
/// answers CUDA_ERROR_CONTEXT_IS_DESTROYED, or the id of the context that has
/// the handle now; but making it current succeeds and breaks the heap
/// (measured, H200, driver 580). The context must not be destroyed meanwhile.
bool isAlive(const Driver &driver, CudaContext context, uint64_t id);

/// The context that \p stream belongs to; the current one for the default
/// stream. Errors: InvalidArgument for a handle the driver does not know or
/// when no context is current.
llvm::Expected<CudaContext> contextOf(const Driver &driver, CudaStream stream);

/// Ordinal of the device that \p context is on; makes it current meanwhile.
llvm::Expected<int> deviceOf(const Driver &driver, CudaContext context);

/// SMs that work in \p context may use: all of its device, or those that a
/// green context was given. Errors: Unsupported where the driver cannot tell.
llvm::Expected<int64_t> smCountOf(const Driver &driver, CudaContext context);

enum class CaptureStatus {
  None,
  Active,      ///< work launched now is recorded into a graph
  Invalidated, ///< the capture has failed and must be ended by its owner
};

/// Whether \p stream is being captured. An error for the default stream means
/// that another stream of the context is being captured: nothing may be
/// launched there.
llvm::Expected<CaptureStatus> captureStatus(const Driver &driver,
                                            CudaStream stream);

/// Makes a context current to this thread for its lifetime.
class ScopedContext {
public:
  static llvm::Expected<ScopedContext> push(const Driver &driver,
                                            CudaContext context);
  ScopedContext(ScopedContext &&other) noexcept;
  ScopedContext &operator=(ScopedContext &&) = delete;
  ~ScopedContext();

private:
  explicit ScopedContext(const Driver &driver) : driver(&driver) {}
  const Driver *driver; ///< null when moved from
};

/// Holds a device's primary context alive, as the CLI and tests need where no
/// engine brought a context of its own. Does not make it current.
class PrimaryContext {
public:
  /// Errors: InvalidArgument for an ordinal out of range,
  /// DeviceOutOfMemory. The first of a device costs about 0.2 s.
  static llvm::Expected<PrimaryContext> retain(const Driver &driver,
                                               int ordinal);
  PrimaryContext(PrimaryContext &&other) noexcept;
  PrimaryContext &operator=(PrimaryContext &&) = delete;
  ~PrimaryContext();

  CudaContext handle() const { return context; }
  int ordinal() const { return device; }

private:
  PrimaryContext(const Driver &driver, int device, CudaContext context)
      : driver(&driver), device(device), context(context) {}
  const Driver *driver; ///< null when moved from
  int device;
  CudaContext context;
};

/// For its lifetime this thread may make the calls that are forbidden while any
/// thread captures (module loads, allocations, synchronisation of other
/// streams). All work off the dispatch path runs under one. Never fails: where
/// the driver refuses, later calls fail with the driver's own error.
class CaptureModeGuard {
public:
  explicit CaptureModeGuard(const Driver &driver);
  CaptureModeGuard(const CaptureModeGuard &) = delete;
  CaptureModeGuard &operator=(const CaptureModeGuard &) = delete;
  ~CaptureModeGuard();

private:
  const Driver &driver;
  int previousMode = 0;
  bool exchanged = false;
};

} // namespace kiln
