//===- FakeNvtx.h - control of the stand-in NVTX tool ---------------------===//
//
// libkiln_fake_nvtx.so is a library as NVTX_INJECTION64_PATH names it. It notes
// the calls of all programs and libraries that attach it. All functions are
// thread-safe.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KILN_FAKE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum KilnFakeNvtxKind { kKilnFakeNvtxPush, kKilnFakeNvtxPop };

/// One call.
struct KilnFakeNvtxEvent {
  int kind;
  char domain[32], category[32], name[512];
  int isRegistered; ///< the name, by nvtxDomainRegisterString
  int64_t thread;
};

/// Forgets all calls. \p isQuiet: further ones are not noted and cost nothing.
KILN_FAKE_API void kilnFakeNvtxReset(int isQuiet);
KILN_FAKE_API size_t kilnFakeNvtxCount(void);
/// Copies call \p index, from 0; returns 0 if there is none.
KILN_FAKE_API int kilnFakeNvtxAt(size_t index, struct KilnFakeNvtxEvent *event);
/// How many names were registered in domain "kiln" so far.
KILN_FAKE_API size_t kilnFakeNvtxNames(void);

#ifdef __cplusplus
} // extern "C"
#endif
