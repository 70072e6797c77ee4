//===- Elf.h - ELF files that are looked at before they are used ----------===//
//
// A loader that maps a truncated library ends the process with SIGBUS, and GPU
// drivers are not hardened against damaged images. So both kinds of file are
// checked here first.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace kiln {

/// The facts in the header of an ELF file.
struct ElfHeader {
  uint16_t machine = 0; ///< EM_*
  uint8_t abiVersion = 0;
  uint32_t flags = 0;
};

/// Copies \p bytes from \p offset of a file to \p to; false if it cannot.
using ElfReader =
    llvm::function_ref<bool(uint64_t offset, void *to, size_t bytes)>;

/// Checks that \p read reads a complete 64-bit little-endian ELF file of
/// \p size bytes: its tables, segments and sections end inside of it. Reads the
/// header and both tables. Error: InvalidArgument.
llvm::Expected<ElfHeader> inspectElf(uint64_t size, ElfReader read);

/// As above for a file in memory; well under 1 us.
llvm::Expected<ElfHeader> inspectElf(llvm::StringRef image);

/// Whether a symbol table of \p image, which inspectElf() has accepted, defines
/// \p name.
bool definesSymbol(llvm::StringRef image, llvm::StringRef name);

/// The bytes of the sections of \p image, which inspectElf() has accepted, that
/// take memory where it is loaded, and whose name \p counts.
uint64_t allocatedBytes(llvm::StringRef image,
                        llvm::function_ref<bool(llvm::StringRef name)> counts);

/// Why the loader must not be given the file \p path: it is no plain file (a
/// FIFO blocks the loader, with its lock held), no ELF file, or truncated.
/// Nullopt if it may be, and for a file that cannot be read: the loader says
/// why. A link counts as what it leads to.
std::optional<std::string> describeBadLibrary(const std::string &path);

} // namespace kiln
