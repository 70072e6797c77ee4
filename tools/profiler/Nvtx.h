//===- Nvtx.h - the part of NVTX that the helper fills --------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::profiler {

// NvtxCallbackModule and the ids of its functions.
inline constexpr int32_t kNvtxCore = 1, kNvtxCore2 = 5;
inline constexpr uint32_t kNvtxPushEx = 8, kNvtxPushA = 9, kNvtxPushW = 10,
                          kNvtxPop = 11, kNvtxNameCategoryA = 12,
                          kNvtxNameCategoryW = 13;
inline constexpr uint32_t kNvtxDomainPushEx = 4, kNvtxDomainPop = 5,
                          kNvtxDomainNameCategoryA = 8,
                          kNvtxDomainNameCategoryW = 9,
                          kNvtxDomainRegisterStringA = 10,
                          kNvtxDomainRegisterStringW = 11,
                          kNvtxDomainCreateA = 12, kNvtxDomainCreateW = 13;
inline constexpr uint32_t kNvtxCallbacksTable = 1; ///< NVTX_ETID_CALLBACKS

// nvtxMessageType_t.
inline constexpr int32_t kNvtxAscii = 1, kNvtxUnicode = 2, kNvtxRegistered = 3;

/// nvtxEventAttributes_t of version 2.
struct NvtxAttributes {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  uint64_t payload;
  int32_t messageType;
  const void *message;
};

using NvtxFunction = void (*)();

/// NvtxExportTableCallbacks.
struct NvtxCallbacks {
  size_t structSize;
  int (*getModuleFunctionTable)(int32_t module, NvtxFunction ***table,
                                unsigned *size);
};

using NvtxGetExportTable = const void *(*)(uint32_t table);

/// Has the NVTX that \p getExportTable is of tell its ranges to the helper.
/// False: its table is older than version 3.
bool attachToNvtx(NvtxGetExportTable getExportTable);

} // namespace kiln::profiler
