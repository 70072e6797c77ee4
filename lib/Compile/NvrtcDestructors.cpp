//===- NvrtcDestructors.cpp -----------------------------------------------===//
//
// Problem. exit() runs the destructors of libraries while other threads go on.
// A handler of Kiln's runs before them and waits for compilations, see
// ProcessExit.h. Handlers run in the opposite order of their registration, and
// NVRTC registers a dozen destructors in the midst of its first compilation
// (local statics, NVRTC 13.0). Where exit() begins behind one of these, it runs
// before the handler, and threads that compile crash: 1 process of 200 in C, 2
// of 70 in Python.
//
// Choice. NVRTC imports __cxa_atexit. The loader keeps the address of each
// imported function in a table of the library, at a place that a relocation
// names. Once NVRTC is loaded, and before it compiles, Kiln writes the address
// of a function there that registers nothing. So these destructors never run.
// They would only free memory and the process ends anyway. NVRTC is never
// unloaded, so nothing of it needs them before.
//
// Destructors that NVRTC registers while it is being loaded are not affected.
// The handler is registered behind them, so they run when no thread compiles,
// except for the cases below under limits.
//
// Rejected:
//  - Registering the handler again and again, by NVRTC's flow callback or by a
//    thread: each leaves a gap between a destructor and the handler behind it.
//    (Threads that foresaw a compilation wait for a loading where exit()
//    destroys their objects, see ProcessExit.cpp.)
//  - A first compilation that nothing else runs beside: exit() can begin in it,
//    and other parts of NVRTC are met later.
//  - Ending compilations when exit() begins: the destructors have run by then.
//  - dlmopen, which gives NVRTC a libc of its own: NVRTC would be loaded again
//    beside PyTorch's, debuggers and profilers do not see such libraries, and
//    there are few of these namespaces, with little thread-local storage.
//  - Defining __cxa_atexit in libkiln: it would take the place of libc's for
//    the whole process, or be found by no library at all.
//
// Limits: an exit() that begins while the library is being loaded, some
// milliseconds, on a thread that never foresaw a compilation, runs destructors
// of its static constructors in the midst of these. A library without such an
// entry is left as it is (it has its own libc). Then only the handler helps.
// One that a caller has loaded before, with RTLD_LAZY, may find libc's function
// at the same moment and write it over ours; its static constructors have found
// it long before as a rule.
//
//===----------------------------------------------------------------------===//
#include "Compile/NvrtcDestructors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace kiln {

#if defined(__x86_64__)
static constexpr uint64_t kJumpSlot = R_X86_64_JUMP_SLOT,
                          kGlobalAddress = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
static constexpr uint64_t kJumpSlot = R_AARCH64_JUMP_SLOT,
                          kGlobalAddress = R_AARCH64_GLOB_DAT;
#else
static constexpr uint64_t kJumpSlot = ~uint64_t(0), kGlobalAddress = kJumpSlot;
#endif

//===----------------------------------------------------------------------===//
// The functions that the library calls instead
//===----------------------------------------------------------------------===//

static int registerNoDestructor(void (*)(void *), void *, void *) { return 0; }
static int registerNoHandler(void (*)()) { return 0; }

/// The function to be called for the import \p name, 0 for any other.
static uintptr_t standInFor(const char *name) {
  if (std::strcmp(name, "__cxa_atexit") == 0)
    return reinterpret_cast<uintptr_t>(&registerNoDestructor);
  if (std::strcmp(name, "atexit") == 0)
    return reinterpret_cast<uintptr_t>(&registerNoHandler);
  return 0;
}

//===----------------------------------------------------------------------===//
// The tables of the library
//===----------------------------------------------------------------------===//

bool covers(const dl_phdr_info &info, uintptr_t address, size_t bytes,
            unsigned flags) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info.dlpi_phdr[i];
    const uintptr_t start = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && (header.p_flags & flags) == flags &&
        address >= start && address - start < header.p_memsz &&
        bytes <= header.p_memsz - (address - start))
      return true;
  }
  return false;
}

namespace {
/// The contents of the dynamic section, with addresses of this process.
struct ImportTables {
  struct Relocations {
    uintptr_t address = 0;
    size_t bytes = 0;
  };
  uintptr_t symbols = 0, names = 0;
  size_t nameBytes = 0;
  Relocations plain, ofCalls;
};
} // namespace

/// The value at \p address, which covers() has accepted.
template <class T> static T valueAt(uintptr_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void *>(address), sizeof(value));
  return value;
}

static ImportTables importTables(const dl_phdr_info &info,
                                 const ElfW(Phdr) & dynamic) {
  ImportTables tables;
  // glibc has made most of them addresses of the process; others do not.
  auto address = [&](uintptr_t value) {
    return covers(info, value) ? value : info.dlpi_addr + value;
  };
  const uintptr_t start = info.dlpi_addr + dynamic.p_vaddr;
  if (!covers(info, start, dynamic.p_memsz, PF_R))
    return tables;
  for (size_t at = 0; dynamic.p_memsz - at >= sizeof(ElfW(Dyn));
       at += sizeof(ElfW(Dyn))) {
    const auto entry = valueAt<ElfW(Dyn)>(start + at);
    switch (entry.d_tag) {
    case DT_NULL:
      return tables;
    case DT_SYMTAB:
      tables.symbols = address(entry.d_un.d_ptr);
      break;
    case DT_STRTAB:
      tables.names = address(entry.d_un.d_ptr);
      break;
    case DT_STRSZ:
      tables.nameBytes = entry.d_un.d_val;
      break;
    case DT_RELA:
      tables.plain.address = address(entry.d_un.d_ptr);
      break;
    case DT_RELASZ:
      tables.plain.bytes = entry.d_un.d_val;
      break;
    case DT_JMPREL:
      tables.ofCalls.address = address(entry.d_un.d_ptr);
      break;
    case DT_PLTRELSZ:
      tables.ofCalls.bytes = entry.d_un.d_val;
      break;
    }
  }
  return tables;
}

/// The name of symbol \p index, null where the tables do not bear it out.
static const char *symbolName(const dl_phdr_info &info,
                              const ImportTables &tables, uint64_t index) {
  const uintptr_t at = tables.symbols + index * sizeof(ElfW(Sym));
  if (!covers(info, at, sizeof(ElfW(Sym)), PF_R))
    return nullptr;
  const size_t offset = valueAt<ElfW(Sym)>(at).st_name;
  if (offset >= tables.nameBytes ||
      !covers(info, tables.names, tables.nameBytes, PF_R))
    return nullptr;
  const auto *name = reinterpret_cast<const char *>(tables.names + offset);
  const size_t room = tables.nameBytes - offset;
  return ::strnlen(name, room) < room ? name : nullptr;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Whether the loader has made the page from \p page on read-only after
/// relocation.
static bool isSealed(const dl_phdr_info &info, uintptr_t page,
                     uintptr_t pageBytes) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info.dlpi_phdr[i];
    if (header.p_type != PT_GNU_RELRO)
      continue;
    const uintptr_t start = info.dlpi_addr + header.p_vaddr;
    if (page >= (start & ~(pageBytes - 1)) &&
        page < ((start + header.p_memsz) & ~(pageBytes - 1)))
      return true;
  }
  return false;
}

/// Writes \p value to \p slot of the import table; other threads may call
/// through it meanwhile.
static bool writeSlot(const dl_phdr_info &info, uintptr_t slot,
                      uintptr_t value) {
  if (slot % alignof(uintptr_t) != 0 ||
      !covers(info, slot, sizeof(uintptr_t), PF_R | PF_W))
    return false;
  const auto pageBytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t page = slot & ~(pageBytes - 1);
  const bool wasSealed = isSealed(info, page, pageBytes);
  auto *memory = reinterpret_cast<void *>(page);
  if (wasSealed && ::mprotect(memory, pageBytes, PROT_READ | PROT_WRITE) != 0)
    return false; // a hardened system does not let it
  std::atomic_ref<uintptr_t>(*reinterpret_cast<uintptr_t *>(slot))
      .store(value, std::memory_order_release);
  if (wasSealed)
    (void)::mprotect(memory, pageBytes, PROT_READ);
  return true;
}

static unsigned writeSlots(const dl_phdr_info &info, const ImportTables &tables,
                           const ImportTables::Relocations &relocations) {
  if (!covers(info, relocations.address, relocations.bytes, PF_R))
    return 0;
  unsigned written = 0;
  for (size_t at = 0; relocations.bytes - at >= sizeof(ElfW(Rela));
       at += sizeof(ElfW(Rela))) {
    const auto entry = valueAt<ElfW(Rela)>(relocations.address + at);
    const uint64_t type = ELF64_R_TYPE(entry.r_info);
    if (type != kJumpSlot && type != kGlobalAddress)
      continue;
    const char *name = symbolName(info, tables, ELF64_R_SYM(entry.r_info));
    const uintptr_t function = name ? standInFor(name) : 0;
    if (function)
      written += writeSlot(info, info.dlpi_addr + entry.r_offset, function);
  }
  return written;
}

unsigned refuseDestructorsOf(const dl_phdr_info &info) {
  for (int i = 0; i < info.dlpi_phnum; ++i)
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      const ImportTables tables = importTables(info, info.dlpi_phdr[i]);
      return writeSlots(info, tables, tables.plain) +
             writeSlots(info, tables, tables.ofCalls);
    }
  return 0;
}

namespace {
struct DestructorQuery {
  uintptr_t address; ///< anywhere in the library
  unsigned written = 0;
};
} // namespace

/// The loader's lock is held: one thread at a time is here.
static int visitForDestructors(dl_phdr_info *info, size_t, void *data) {
  auto *query = static_cast<DestructorQuery *>(data);
  if (!covers(*info, query->address))
    return 0;
  query->written = refuseDestructorsOf(*info);
  return 1;
}

unsigned refuseDestructors(const void *function) {
  DestructorQuery query{reinterpret_cast<uintptr_t>(function)};
  dl_iterate_phdr(visitForDestructors, &query);
  return query.written;
}

} // namespace kiln
