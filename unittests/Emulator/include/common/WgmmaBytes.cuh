//===- common/WgmmaBytes.cuh - wgmma of one-byte types, emulated ----------===//
//
// In the place of kernel_src's file of this name; see Ptx.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Wgmma.cuh"
