// The helper's declarations of CUPTI and NVTX beside those of the toolkit,
// where its headers are: they need not be there to build.
#include "profiler/Cupti.h"
#include "profiler/Nvtx.h"

#include <doctest/doctest.h>

#if __has_include(<cupti.h>)
#define KILN_HAS_CUPTI 1
#include <cupti.h>
#endif
#if __has_include(<nvtx3/nvToolsExt.h>)
#define KILN_HAS_NVTX 1
#include <nvtx3/nvToolsExt.h>
#endif

using namespace kiln::profiler;

#define KILN_SAME(ours, our, theirs, their)                                    \
  CHECK(offsetof(ours, our) == offsetof(theirs, their));                       \
  CHECK(sizeof(ours::our) == sizeof(theirs::their))

#ifdef KILN_HAS_CUPTI

TEST_CASE("profiler: numbers are those of cupti.h") {
  CHECK(kCuptiSuccess == CUPTI_SUCCESS);
  CHECK(kMemcpyRecord == CUPTI_ACTIVITY_KIND_MEMCPY);
  CHECK(kMemsetRecord == CUPTI_ACTIVITY_KIND_MEMSET);
  CHECK(kDeviceRecord == CUPTI_ACTIVITY_KIND_DEVICE);
  CHECK(kKernelRecord == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  CHECK(kFlushForced == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  CHECK(kDriverCalls == CUPTI_CB_DOMAIN_DRIVER_API);
  CHECK(kRuntimeCalls == CUPTI_CB_DOMAIN_RUNTIME_API);
  CHECK(kResourceEvents == CUPTI_CB_DOMAIN_RESOURCE);
  CHECK(kNodeCreated == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
  CHECK(kNodeDestroyed == CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING);
  CHECK(kNodeCloned == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
  CHECK(kCallEnter == CUPTI_API_ENTER);
  CHECK(kCallExit == CUPTI_API_EXIT);
}

TEST_CASE("profiler: records are those of cupti.h") {
  using Kernel = CUpti_ActivityKernel9;
  KILN_SAME(KernelRecord, registersPerThread, Kernel, registersPerThread);
  KILN_SAME(KernelRecord, start, Kernel, start);
  KILN_SAME(KernelRecord, end, Kernel, end);
  KILN_SAME(KernelRecord, deviceId, Kernel, deviceId);
  KILN_SAME(KernelRecord, staticSharedMemory, Kernel, staticSharedMemory);
  KILN_SAME(KernelRecord, dynamicSharedMemory, Kernel, dynamicSharedMemory);
  KILN_SAME(KernelRecord, localMemoryPerThread, Kernel, localMemoryPerThread);
  KILN_SAME(KernelRecord, correlationId, Kernel, correlationId);
  KILN_SAME(KernelRecord, name, Kernel, name);
  KILN_SAME(KernelRecord, graphNodeId, Kernel, graphNodeId);
  CHECK(offsetof(KernelRecord, grid) == offsetof(Kernel, gridX));
  CHECK(offsetof(KernelRecord, block) == offsetof(Kernel, blockX));
  // The oldest record with nodes, of CUDA 11.
  CHECK(offsetof(KernelRecord, graphNodeId) ==
        offsetof(CUpti_ActivityKernel5, graphNodeId));
  KILN_SAME(MemcpyRecord, copyKind, CUpti_ActivityMemcpy5, copyKind);
  KILN_SAME(MemcpyRecord, bytes, CUpti_ActivityMemcpy5, bytes);
  KILN_SAME(MemcpyRecord, start, CUpti_ActivityMemcpy5, start);
  KILN_SAME(MemcpyRecord, end, CUpti_ActivityMemcpy5, end);
  KILN_SAME(MemcpyRecord, deviceId, CUpti_ActivityMemcpy5, deviceId);
  KILN_SAME(MemcpyRecord, correlationId, CUpti_ActivityMemcpy5, correlationId);
  KILN_SAME(MemcpyRecord, graphNodeId, CUpti_ActivityMemcpy5, graphNodeId);
  KILN_SAME(MemsetRecord, bytes, CUpti_ActivityMemset4, bytes);
  KILN_SAME(MemsetRecord, start, CUpti_ActivityMemset4, start);
  KILN_SAME(MemsetRecord, end, CUpti_ActivityMemset4, end);
  KILN_SAME(MemsetRecord, deviceId, CUpti_ActivityMemset4, deviceId);
  KILN_SAME(MemsetRecord, correlationId, CUpti_ActivityMemset4, correlationId);
  KILN_SAME(MemsetRecord, graphNodeId, CUpti_ActivityMemset4, graphNodeId);
  KILN_SAME(DeviceRecord, id, CUpti_ActivityDevice4, id);
  KILN_SAME(DeviceRecord, uuid, CUpti_ActivityDevice4, uuid);
  KILN_SAME(DeviceRecord, name, CUpti_ActivityDevice4, name);
}

TEST_CASE("profiler: data of callbacks are those of cupti.h") {
  KILN_SAME(CallData, callbackSite, CUpti_CallbackData, callbackSite);
  KILN_SAME(CallData, functionName, CUpti_CallbackData, functionName);
  KILN_SAME(CallData, correlationId, CUpti_CallbackData, correlationId);
  KILN_SAME(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor);
  KILN_SAME(GraphData, node, CUpti_GraphData, node);
  KILN_SAME(GraphData, originalNode, CUpti_GraphData, originalNode);
}

#endif // KILN_HAS_CUPTI

#ifdef KILN_HAS_NVTX

TEST_CASE("profiler: numbers and structs are those of NVTX") {
  CHECK(kNvtxCore == NVTX_CB_MODULE_CORE);
  CHECK(kNvtxCore2 == NVTX_CB_MODULE_CORE2);
  CHECK(kNvtxCallbacksTable == NVTX_ETID_CALLBACKS);
  CHECK(kNvtxPushEx == NVTX_CBID_CORE_RangePushEx);
  CHECK(kNvtxPushA == NVTX_CBID_CORE_RangePushA);
  CHECK(kNvtxPushW == NVTX_CBID_CORE_RangePushW);
  CHECK(kNvtxPop == NVTX_CBID_CORE_RangePop);
  CHECK(kNvtxNameCategoryA == NVTX_CBID_CORE_NameCategoryA);
  CHECK(kNvtxNameCategoryW == NVTX_CBID_CORE_NameCategoryW);
  CHECK(kNvtxDomainPushEx == NVTX_CBID_CORE2_DomainRangePushEx);
  CHECK(kNvtxDomainPop == NVTX_CBID_CORE2_DomainRangePop);
  CHECK(kNvtxDomainNameCategoryA == NVTX_CBID_CORE2_DomainNameCategoryA);
  CHECK(kNvtxDomainNameCategoryW == NVTX_CBID_CORE2_DomainNameCategoryW);
  CHECK(kNvtxDomainRegisterStringA == NVTX_CBID_CORE2_DomainRegisterStringA);
  CHECK(kNvtxDomainRegisterStringW == NVTX_CBID_CORE2_DomainRegisterStringW);
  CHECK(kNvtxDomainCreateA == NVTX_CBID_CORE2_DomainCreateA);
  CHECK(kNvtxDomainCreateW == NVTX_CBID_CORE2_DomainCreateW);
  CHECK(kNvtxAscii == NVTX_MESSAGE_TYPE_ASCII);
  CHECK(kNvtxUnicode == NVTX_MESSAGE_TYPE_UNICODE);
  CHECK(kNvtxRegistered == NVTX_MESSAGE_TYPE_REGISTERED);
  KILN_SAME(NvtxAttributes, category, nvtxEventAttributes_t, category);
  KILN_SAME(NvtxAttributes, messageType, nvtxEventAttributes_t, messageType);
  KILN_SAME(NvtxAttributes, message, nvtxEventAttributes_t, message);
  CHECK(sizeof(NvtxAttributes) == sizeof(nvtxEventAttributes_t));
  KILN_SAME(NvtxCallbacks, getModuleFunctionTable, NvtxExportTableCallbacks,
            GetModuleFunctionTable);
}

#endif // KILN_HAS_NVTX
