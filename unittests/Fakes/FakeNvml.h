//===- FakeNvml.h - control of the stand-in NVML --------------------------===//
//
// libkiln_fake_nvml.so exports every function of lib/Driver/NvmlSymbols.def and
// answers as an H200 SXM for the PCI ids of the stand-in driver's devices.
//
//===----------------------------------------------------------------------===//
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// Makes every later call of \p symbol return \p result; 0 restores it.
__attribute__((visibility("default"))) void kilnFakeNvmlFail(const char *symbol,
                                                             int result);
/// Whether MIG is on.
__attribute__((visibility("default"))) void kilnFakeNvmlSetMig(int enabled);
/// Restores every default.
__attribute__((visibility("default"))) void kilnFakeNvmlReset(void);

#ifdef __cplusplus
} // extern "C"
#endif
