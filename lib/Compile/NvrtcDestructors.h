//===- NvrtcDestructors.h - keeping NVRTC's state until the process ends --===//
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace kiln {

/// From now on the library that has \p function registers no destructor: its
/// calls of __cxa_atexit and atexit succeed and do nothing. Destructors that it
/// has registered before still run. It must never be unloaded. Returns how many
/// entries of its import table were written, 0 where it has none. Thread-safe;
/// costs below 1 ms.
unsigned refuseDestructors(const void *function);

/// As above for the library that \p info describes; \p info is believed only as
/// far as its segments bear it out.
unsigned refuseDestructorsOf(const dl_phdr_info &info);

/// Whether one segment of \p info with all of \p flags (PF_R, PF_W) has all of
/// the \p bytes bytes from \p address on.
bool covers(const dl_phdr_info &info, uintptr_t address, size_t bytes = 1,
            unsigned flags = 0);

} // namespace kiln
