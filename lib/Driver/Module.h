//===- Module.h - cubins as loaded functions ------------------------------===//
//
// Modules, not libraries (cuLibraryLoadData): a library spreads to every
// context of the process lazily, which costs a launch its first microseconds
// and ties unloading to contexts Kiln does not own. A module belongs to one
// context, as a plan does.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Support/ByteGauge.h"
#include "Support/Cubin.h"

#include <llvm/ADT/StringRef.h>

namespace kiln {

/// A cubin loaded into one context.
class Module {
public:
  /// Loads \p cubin into the current context; the bytes may go afterwards.
  /// Costs 0.1 to 1 ms. Its loadedBytes() count in \p gauge, which may be null,
  /// until it is unloaded or leaked. Errors: InvalidArgument (not a cubin),
  /// Unsupported (made for another architecture than the device), DriverTooOld
  /// (the driver refuses it; the text says which driver and what would help),
  /// DeviceOutOfMemory, ContextDead.
  static llvm::Expected<Module> load(const Driver &driver,
                                     llvm::StringRef cubin,
                                     ByteGaugePtr gauge = nullptr);

  Module(Module &&other) noexcept;
  Module &operator=(Module &&) = delete;
  /// Unloads, also beside a capture. The context must still exist and no graph
  /// may reach a function of the module: else leak() first.
  ~Module();

  /// The function called \p name, resident on the device on return even where
  /// the driver loads lazily: no first launch, least of all one that is being
  /// captured, loads code. Errors: InvalidArgument when there is no such
  /// kernel.
  llvm::Expected<CudaFunction> function(const char *name) const;

  /// Leaves the module to its context and forgets it.
  void leak() {
    module = nullptr;
    bytes.set(0);
  }

private:
  Module(const Driver &driver, CudaContext context, CudaModule module,
         ByteAmount bytes)
      : driver(&driver), context(context), module(module),
        bytes(std::move(bytes)) {}
  void unload();

  const Driver *driver;
  CudaContext context;
  CudaModule module;
  ByteAmount bytes;
};

/// Allows launches with up to \p bytes of dynamic shared memory a block; the
/// default limit is 48 KiB. Error: Unsupported when the device has less.
llvm::Error setMaxDynamicShared(const Driver &driver, CudaFunction function,
                                uint32_t bytes);

} // namespace kiln
