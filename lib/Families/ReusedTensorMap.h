//===- ReusedTensorMap.h - tensor maps of a launch from those of a plan ---===//
#pragma once

#include "Driver/LaunchSpec.h"

#include <cstring>

namespace kiln {

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
