//===- TensorMap.cpp - encodes tensor maps --------------------------------===//
//
// cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col (CUDA Driver API) set the
// limits. They are checked here because the driver answers a break of any of
// them with the same bare "invalid value".
//
//===----------------------------------------------------------------------===//
#include "Driver/Launcher.h"

#include "Driver/CudaApi.h"
#include "Driver/TensorMapElement.h"
#include "common/Types.h"

namespace kiln {

static constexpr uint64_t kAddressAlignment = 16;
static constexpr uint64_t kMaxDim = uint64_t(1) << 32;
static constexpr uint64_t kMaxStride = uint64_t(1) << 40;
static constexpr uint32_t kMaxBox = 256;
static constexpr uint32_t kMaxElementStride = 8;
static constexpr uint32_t kMaxPixelsPerColumn = 1024;

/// The map's element type; 8-bit floats travel as bytes, since a map only moves
/// them and fills with zero.
static llvm::Expected<CUtensorMapDataType> dataTypeOf(int32_t elementType) {
  if (elementType == kTf32Element)
    return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  switch (static_cast<DType>(elementType)) {
  case DType::FP64:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  case DType::FP32:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case DType::INT32:
    return CU_TENSOR_MAP_DATA_TYPE_INT32;
  case DType::FP16:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case DType::BF16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case DType::E4M3:
  case DType::E5M2:
  case DType::INT8:
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  default:
    break;
  }
  return makeError(ErrorCode::InvalidArgument,
                   "tensor map: no element type {:#x}", elementType);
}

/// Bytes of the swizzle pattern's row, 0 without one.
static uint32_t spanOf(TensorMapSwizzle swizzle) {
  switch (swizzle) {
  case TensorMapSwizzle::None:
    return 0;
  case TensorMapSwizzle::B32:
    return 32;
  case TensorMapSwizzle::B64:
    return 64;
  case TensorMapSwizzle::B128:
    return 128;
  }
  return 0;
}

static CUtensorMapSwizzle encode(TensorMapSwizzle swizzle) {
  switch (swizzle) {
  case TensorMapSwizzle::None:
    return CU_TENSOR_MAP_SWIZZLE_NONE;
  case TensorMapSwizzle::B32:
    return CU_TENSOR_MAP_SWIZZLE_32B;
  case TensorMapSwizzle::B64:
    return CU_TENSOR_MAP_SWIZZLE_64B;
  case TensorMapSwizzle::B128:
    return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

static CUtensorMapL2promotion encode(L2Promotion promotion) {
  switch (promotion) {
  case L2Promotion::None:
    return CU_TENSOR_MAP_L2_PROMOTION_NONE;
  case L2Promotion::B64:
    return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
  case L2Promotion::B128:
    return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  case L2Promotion::B256:
    return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  }
  return CU_TENSOR_MAP_L2_PROMOTION_NONE;
}

/// Address, rank, dimensions and strides, which both kinds share.
static llvm::Error checkTensor(const TensorMapSpec &spec,
                               DeviceAddress address) {
  int minRank = spec.im2col ? 3 : 1;
  if (spec.rank < minRank || spec.rank > TensorMapSpec::kMaxRank)
    return makeError(ErrorCode::InvalidArgument,
                     "tensor map: rank {} is not {} to {}", spec.rank, minRank,
                     TensorMapSpec::kMaxRank);
  if (address % kAddressAlignment != 0)
    return makeError(ErrorCode::InvalidArgument,
                     "tensor map: address {:#x} is not a multiple of {}",
                     address, kAddressAlignment);
  for (int i = 0; i < spec.rank; ++i) {
    if (spec.dims[i] == 0 || spec.dims[i] > kMaxDim)
      return makeError(ErrorCode::InvalidArgument,
                       "tensor map: dimension {} of {} is not 1 to {}", i,
                       spec.dims[i], kMaxDim);
    if (spec.elementStrides[i] == 0 ||
        spec.elementStrides[i] > kMaxElementStride)
      return makeError(ErrorCode::InvalidArgument,
                       "tensor map: element stride {} of dimension {} is not 1 "
                       "to {}",
                       spec.elementStrides[i], i, kMaxElementStride);
  }
  for (int i = 0; i + 1 < spec.rank; ++i)
    if (spec.strides[i] % kAddressAlignment != 0 ||
        spec.strides[i] >= kMaxStride)
      return makeError(ErrorCode::InvalidArgument,
                       "tensor map: stride {} of dimension {} is not a "
                       "multiple of {} below 2^40",
                       spec.strides[i], i + 1, kAddressAlignment);
  return llvm::Error::success();
}

/// The innermost row that one load writes to shared memory.
static llvm::Error checkRow(const TensorMapSpec &spec, uint64_t elements) {
  uint64_t bytes = elements * bytesOf(static_cast<DType>(spec.elementType));
  uint32_t span = spanOf(spec.swizzle);
  if (bytes % 16 != 0)
    return makeError(
        ErrorCode::InvalidArgument,
        "tensor map: a box row of {} bytes is not a multiple of 16", bytes);
  if (span != 0 && bytes > span)
    return makeError(
        ErrorCode::InvalidArgument,
        "tensor map: a box row of {} bytes exceeds the {} bytes of "
        "its swizzle",
        bytes, span);
  return llvm::Error::success();
}

static llvm::Error checkTiled(const TensorMapSpec &spec) {
  for (int i = 0; i < spec.rank; ++i)
    if (spec.box[i] == 0 || spec.box[i] > kMaxBox)
      return makeError(ErrorCode::InvalidArgument,
                       "tensor map: box {} of dimension {} is not 1 to {}",
                       spec.box[i], i, kMaxBox);
  return checkRow(spec, spec.box[0]);
}

static llvm::Error checkIm2col(const TensorMapSpec &spec) {
  if (spec.channelsPerPixel == 0 || spec.channelsPerPixel > kMaxBox)
    return makeError(ErrorCode::InvalidArgument,
                     "tensor map: {} channels a pixel are not 1 to {}",
                     spec.channelsPerPixel, kMaxBox);
  if (spec.pixelsPerColumn == 0 || spec.pixelsPerColumn > kMaxPixelsPerColumn)
    return makeError(ErrorCode::InvalidArgument,
                     "tensor map: {} pixels a column are not 1 to {}",
                     spec.pixelsPerColumn, kMaxPixelsPerColumn);
  // Corners share 32 bits: 16, 8 or 5 bits each by the number of spatial
  // dimensions.
  int limit = spec.rank == 3 ? 32768 : spec.rank == 4 ? 128 : 16;
  for (int i = 0; i < spec.rank - 2; ++i)
    for (int32_t corner : {spec.lowerCorner[i], spec.upperCorner[i]})
      if (corner < -limit || corner >= limit)
        return makeError(ErrorCode::InvalidArgument,
                         "tensor map: box corner {} of spatial dimension {} is "
                         "not {} to {}",
                         corner, i, -limit, limit - 1);
  return checkRow(spec, spec.channelsPerPixel);
}

llvm::Expected<EncodedTensorMap> encodeTensorMap(const Driver &driver,
                                                 const TensorMapSpec &spec,
                                                 DeviceAddress address) {
  llvm::Expected<CUtensorMapDataType> type = dataTypeOf(spec.elementType);
  if (!type)
    return type.takeError();
  if (llvm::Error error = checkTensor(spec, address))
    return error;
  if (llvm::Error error = spec.im2col ? checkIm2col(spec) : checkTiled(spec))
    return error;

  // The driver refuses null; a prototype's address is replaced before use.
  if (address == 0)
    address = kAddressAlignment;
  const CudaApi &api = driver.api();
  auto rank = static_cast<cuuint32_t>(spec.rank);
  auto *base = reinterpret_cast<void *>(address);
  CUtensorMap map;
  CUresult result =
      spec.im2col
          ? api.cuTensorMapEncodeIm2col(
                &map, *type, rank, base, spec.dims, spec.strides,
                spec.lowerCorner, spec.upperCorner, spec.channelsPerPixel,
                spec.pixelsPerColumn, spec.elementStrides,
                CU_TENSOR_MAP_INTERLEAVE_NONE, encode(spec.swizzle),
                encode(spec.l2Promotion), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
          : api.cuTensorMapEncodeTiled(
                &map, *type, rank, base, spec.dims, spec.strides, spec.box,
                spec.elementStrides, CU_TENSOR_MAP_INTERLEAVE_NONE,
                encode(spec.swizzle), encode(spec.l2Promotion),
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_ERROR_INVALID_VALUE)
    return llvm::make_error<KilnError>(
        ErrorCode::InvalidArgument,
        fmt::format("tensor map of rank {}: the driver refuses it", spec.rank),
        result);
  if (llvm::Error error =
          driver.check(result, spec.im2col ? "cuTensorMapEncodeIm2col"
                                           : "cuTensorMapEncodeTiled"))
    return error;
  EncodedTensorMap encoded;
  std::memcpy(encoded.opaque, map.opaque, sizeof(encoded.opaque));
  return encoded;
}

} // namespace kiln
