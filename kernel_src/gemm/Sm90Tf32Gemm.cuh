//===- gemm/Sm90Tf32Gemm.cuh - the wgmma GEMM of tf32 ---------------------===//
//
// Sm90Gemm.cuh with the instructions of tf32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/WgmmaTf32.cuh"
#include "gemm/Sm90Gemm.cuh"
