//===- TestDevices.h - devices of the hand-computed cases -----------------===//
#pragma once

#include "Device/Catalog.h"

namespace kiln {

inline DeviceModel testDevice(llvm::StringRef name = "h200-sxm") {
  return llvm::cantFail(findDevice(name));
}

} // namespace kiln
