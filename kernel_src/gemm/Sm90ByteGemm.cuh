//===- gemm/Sm90ByteGemm.cuh - the wgmma GEMM of fp8 and int8 -------------===//
//
// Sm90Gemm.cuh with the instructions for one-byte types.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/WgmmaBytes.cuh"
#include "gemm/Sm90Gemm.cuh"
