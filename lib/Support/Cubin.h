//===- Cubin.h - the header of a cubin ------------------------------------===//
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

namespace kiln {

/// The facts in a cubin's ELF header.
struct CubinHeader {
  int capability = 0; ///< 90 for sm_90 and sm_90a, 0 where it does not say
};

/// Checks that \p cubin is a complete ELF file, see inspectElf(), for machine
/// EM_CUDA (190), before a driver parses a byte of it: drivers are not hardened
/// against damaged images. No driver needed; well under 1 us. Error:
/// InvalidArgument.
llvm::Expected<CubinHeader> inspectCubin(llvm::StringRef cubin);

/// The check of a cubin that a compiler or a cache returned for \p arch and \p
/// entry. As above, and \p cubin must be for \p arch ("sm_90a"), as far as it
/// says, and define the kernel \p entry. About 1 us.
llvm::Error checkCubin(llvm::StringRef cubin, llvm::StringRef arch,
                       llvm::StringRef entry);

/// The device memory that a module of \p cubin, which inspectCubin() has
/// accepted, takes: its code, constants and variables, without what a driver
/// adds to them. Shared memory belongs to launches. About 1 us.
uint64_t loadedBytes(llvm::StringRef cubin);

/// 90 for "sm_90a"; 0 where \p arch has no number.
int capabilityOf(llvm::StringRef arch);

} // namespace kiln
