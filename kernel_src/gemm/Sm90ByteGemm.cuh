//===- gemm/Sm90ByteGemm.cuh - the wgmma GEMM of fp8 and int8 -------------===//
//
// Sm90Gemm.cuh with the instructions that other types do without.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "common/WgmmaBytes.cuh"
#include "gemm/Sm90Gemm.cuh"
