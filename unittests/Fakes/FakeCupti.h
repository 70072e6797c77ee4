//===- FakeCupti.h - control of the stand-in CUPTI ------------------------===//
//
// libkiln_fake_cupti.so has the functions that the profiler's helper calls. It
// records what the functions below say that a program did, and delivers the
// records, a few a buffer, when they are asked for.
//
// KILN_FAKE_CUPTI_RESULT, a number, is what cuptiSubscribe answers.
// KILN_FAKE_CUPTI_KERNEL is a kernel that runs once whenever records are asked
// for while kernels are recorded.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A node of a graph with its kernel.
typedef struct KilnFakeNode {
  uint64_t id;
  const char *kernel;
  uint64_t startNs, ns;
} KilnFakeNode;

/// Launches \p kernel on \p device.
void kilnFakeCuptiLaunch(const char *kernel, uint32_t device, uint64_t startNs,
                         uint64_t ns);
/// Copies to the device.
void kilnFakeCuptiCopy(uint64_t bytes, uint64_t startNs, uint64_t ns);
void kilnFakeCuptiMemset(uint64_t bytes, uint64_t startNs, uint64_t ns);
/// A node of a graph is created; with \p original as its clone.
void kilnFakeCuptiNode(uint64_t node, uint64_t original);
/// Launches a graph of \p count nodes, on device 0.
void kilnFakeCuptiGraph(const KilnFakeNode *nodes, size_t count);
/// cuProfilerStart, or with 0 cuProfilerStop.
void kilnFakeCuptiProfiler(int starts);
/// Loses \p records.
void kilnFakeCuptiDrop(size_t records);

#ifdef __cplusplus
} // extern "C"
#endif
