//===- common/WgmmaTf32.cuh - wgmma of tf32, emulated ---------------------===//
//
// In the place of kernel_src's file of this name; see Ptx.cuh.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/Wgmma.cuh"
