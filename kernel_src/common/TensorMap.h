//===- common/TensorMap.h - a tensor map as a kernel parameter ------------===//
//
// The 128 opaque bytes that the driver encodes. Shared by the host, which lays
// out parameters with it, and kernels, which pass its address on.
//
//===----------------------------------------------------------------------===//
#pragma once

namespace kiln {

struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

} // namespace kiln
