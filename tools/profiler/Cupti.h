//===- Cupti.h - the part of CUPTI that the helper uses -------------------===//
//
// Declarations of Kiln's own, so that no header of CUPTI is needed to build:
// numbers and layouts as the CUPTI documentation of CUDA 12 and 13 gives them.
// Records only grow at their end, so a prefix fits every version from CUDA 11
// on. unittests/Tools/ProfilerLayoutTest.cpp compares them with cupti.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::profiler {

using CuptiResult = int32_t; ///< CUptiResult
inline constexpr CuptiResult kCuptiSuccess = 0;

// CUpti_ActivityKind.
inline constexpr uint32_t kMemcpyRecord = 1;
inline constexpr uint32_t kMemsetRecord = 2;
inline constexpr uint32_t kDeviceRecord = 8;
inline constexpr uint32_t kKernelRecord = 10; ///< CONCURRENT_KERNEL

inline constexpr uint32_t kFlushForced = 1; ///< of cuptiActivityFlushAll

// CUpti_CallbackDomain.
inline constexpr uint32_t kDriverCalls = 1;
inline constexpr uint32_t kRuntimeCalls = 2;
inline constexpr uint32_t kResourceEvents = 3;

// CUpti_CallbackIdResource.
inline constexpr uint32_t kNodeCreated = 13;
inline constexpr uint32_t kNodeDestroyed = 14; ///< is about to be
inline constexpr uint32_t kNodeCloned = 20;

inline constexpr int32_t kCallEnter = 0; ///< CUPTI_API_ENTER
inline constexpr int32_t kCallExit = 1;

/// CUpti_Activity, the head of every record.
struct ActivityRecord {
  uint32_t kind;
};

/// Prefix of CUpti_ActivityKernel5 to 10.
struct KernelRecord {
  uint32_t kind;
  uint8_t cacheConfig, sharedMemoryConfig;
  uint16_t registersPerThread;
  uint32_t partitionedGlobalCache[2];
  uint64_t start, end, completed; ///< ns
  uint32_t deviceId, contextId, streamId;
  int32_t grid[3], block[3];
  int32_t staticSharedMemory, dynamicSharedMemory;
  uint32_t localMemoryPerThread, localMemoryTotal;
  uint32_t correlationId;
  int64_t gridId;
  const char *name;
  void *reserved0;
  uint64_t queued, submitted;
  uint8_t launchType, carveout[3];
  uint32_t sharedMemoryExecuted;
  uint64_t graphNodeId; ///< 0: not of a graph
};

/// Prefix of CUpti_ActivityMemcpy4 to 6.
struct MemcpyRecord {
  uint32_t kind;
  uint8_t copyKind, sourceKind, destinationKind, flags;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, correlationId;
  uint32_t runtimeCorrelationId, pad;
  void *reserved0;
  uint64_t graphNodeId;
};

/// Prefix of CUpti_ActivityMemset3 and 4.
struct MemsetRecord {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, correlationId;
  uint16_t flags, memoryKind;
  uint32_t pad;
  void *reserved0;
  uint64_t graphNodeId;
};

/// Prefix of CUpti_ActivityDevice2 to 5.
struct DeviceRecord {
  uint32_t kind, flags;
  uint64_t globalMemoryBandwidth, globalMemorySize;
  uint32_t limits[20]; ///< constantMemorySize to maxGridDimZ
  uint32_t computeCapabilityMajor, computeCapabilityMinor;
  uint32_t id, eccEnabled;
  uint8_t uuid[16];
  const char *name;
};

/// Prefix of CUpti_CallbackData.
struct CallData {
  int32_t callbackSite;
  const char *functionName;
  const void *functionParams;
  void *functionReturnValue;
  const char *symbolName;
  void *context;
  uint32_t contextUid;
  uint64_t *correlationData;
  uint32_t correlationId;
};

/// CUpti_ResourceData.
struct ResourceData {
  void *context, *handle;
  const void *descriptor; ///< of nodes: GraphData
};

/// Prefix of CUpti_GraphData.
struct GraphData {
  void *graph, *originalGraph, *node, *originalNode;
};

using CuptiSubscriber = void *;
using CuptiCallback = void (*)(void *user, uint32_t domain, uint32_t id,
                               const void *data);
using BufferRequested = void (*)(uint8_t **buffer, size_t *bytes,
                                 size_t *maxRecords);
using BufferCompleted = void (*)(void *context, uint32_t stream,
                                 uint8_t *buffer, size_t bytes,
                                 size_t validBytes);

/// KILN_CUPTI_SYMBOL(name, arguments) for each function, which all return a
/// CUptiResult.
#define KILN_CUPTI_SYMBOLS(KILN_CUPTI_SYMBOL)                                  \
  KILN_CUPTI_SYMBOL(cuptiGetVersion, (uint32_t *))                             \
  KILN_CUPTI_SYMBOL(cuptiGetResultString, (CuptiResult, const char **))        \
  KILN_CUPTI_SYMBOL(cuptiSubscribe,                                            \
                    (CuptiSubscriber *, CuptiCallback, void *))                \
  KILN_CUPTI_SYMBOL(cuptiEnableCallback,                                       \
                    (uint32_t, CuptiSubscriber, uint32_t, uint32_t))           \
  KILN_CUPTI_SYMBOL(cuptiGetCallbackName, (uint32_t, uint32_t, const char **)) \
  KILN_CUPTI_SYMBOL(cuptiActivityRegisterCallbacks,                            \
                    (BufferRequested, BufferCompleted))                        \
  KILN_CUPTI_SYMBOL(cuptiActivityEnable, (uint32_t))                           \
  KILN_CUPTI_SYMBOL(cuptiActivityDisable, (uint32_t))                          \
  KILN_CUPTI_SYMBOL(cuptiActivityFlushAll, (uint32_t))                         \
  KILN_CUPTI_SYMBOL(cuptiActivityGetNextRecord,                                \
                    (uint8_t *, size_t, ActivityRecord **))                    \
  KILN_CUPTI_SYMBOL(cuptiActivityGetNumDroppedRecords,                         \
                    (void *, uint32_t, size_t *))                              \
  KILN_CUPTI_SYMBOL(cuptiGetGraphNodeId, (void *, uint64_t *))

} // namespace kiln::profiler
