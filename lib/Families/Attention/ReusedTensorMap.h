//===- ReusedTensorMap.h - tensor maps of a launch from those of a plan ---===//
#pragma once

#include "Driver/LaunchSpec.h"

#include <algorithm>
#include <cstring>

namespace kiln {

/// Sets extent \p dim of \p map and the bytes from one to the next. No extent
/// is 0, because a tensor without rows is not read. The stride of an extent of
/// one is not read, but it has to be one all the same.
inline void setExtent(TensorMapSpec &map, int dim, int64_t extent,
                      int64_t strideBytes) {
  constexpr uint64_t kAnyStride = 16;
  map.dims[dim] = static_cast<uint64_t>(std::max<int64_t>(1, extent));
  map.strides[dim - 1] =
      extent > 1 ? static_cast<uint64_t>(strideBytes) : kAnyStride;
}

/// Has \p spec write the tensor map \p map over \p address at byte \p offset of
/// its parameters. If its sizes equal those of \p planned, as they do unless a
/// dynamic extent has changed, the encoded \p prototype is reused.
inline void addTensorMap(const TensorMapSpec &map, const TensorMapSpec &planned,
                         const EncodedTensorMap &prototype,
                         DeviceAddress address, size_t offset,
                         LaunchSpec &spec) {
  auto at = static_cast<uint32_t>(offset);
  bool isSame =
      std::memcmp(map.dims, planned.dims, sizeof(map.dims)) == 0 &&
      std::memcmp(map.strides, planned.strides, sizeof(map.strides)) == 0;
  if (isSame)
    spec.addTensorMap(prototype, address, at);
  else
    spec.addTensorMap(map, address, at);
}

} // namespace kiln
