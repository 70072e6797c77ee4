//===- Launcher.h - the only place that launches --------------------------===//
#pragma once

#include "Driver/Driver.h"
#include "Driver/Handles.h"
#include "Driver/LaunchSpec.h"

#include <llvm/ADT/ArrayRef.h>

namespace kiln {

/// Executes the steps of \p spec in order on \p stream. Tensor maps are copied
/// or encoded into \p spec's parameters first, each at its offset from the
/// start of `spec.params` (a multiple of 64). KernelStep `function` indexes \p
/// functions. A spec without steps launches nothing.
///
/// The stream's context must be current. Returns when the work is enqueued (or
/// recorded, under capture); \p spec may be destroyed then. No lock, no
/// allocation unless it fails; own work is some 10 ns a step. After an error in
/// a later step the earlier ones stay enqueued. Errors: as
/// classifyDriverResult; the message names the step.
llvm::Error launch(const Driver &driver, LaunchSpec &spec,
                   llvm::ArrayRef<CudaFunction> functions, CudaStream stream);

/// The clusters of \p step, whose geometry alone counts, that are resident at
/// once on the device of the current context. Errors: Unsupported where the
/// device has no such clusters.
llvm::Expected<int64_t> maxActiveClusters(const Driver &driver,
                                          const KernelStep &step,
                                          CudaFunction function);

/// Encodes a tensor map for \p address. \p spec's element type is a
/// kiln::DType. Needs no context; about 0.05 us. Errors: InvalidArgument with
/// the limit that \p spec or \p address breaks, Unsupported where the device
/// or driver has no tensor maps.
llvm::Expected<EncodedTensorMap> encodeTensorMap(const Driver &driver,
                                                 const TensorMapSpec &spec,
                                                 DeviceAddress address);

} // namespace kiln
