//===- NvrtcBuild.cpp -----------------------------------------------------===//
#include "Compile/NvrtcBuild.h"

#include "Compile/NvrtcDestructors.h"
#include "Support/Format.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringRef.h>

#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace kiln {

/// The NT_GNU_BUILD_ID of one note segment in hexadecimal, empty without one.
static std::string buildIdIn(llvm::StringRef notes) {
  auto padded = [](size_t size) { return (size + 3) & ~size_t(3); };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof(note));
    notes = notes.drop_front(sizeof(note));
    size_t nameSize = padded(note.n_namesz), size = padded(note.n_descsz);
    if (nameSize > notes.size() || note.n_descsz > notes.size() - nameSize)
      break;
    if (note.n_type == NT_GNU_BUILD_ID &&
        notes.take_front(note.n_namesz) == llvm::StringRef("GNU\0", 4))
      return llvm::toHex(notes.substr(nameSize, note.n_descsz),
                         /*LowerCase=*/true);
    notes = notes.drop_front(std::min(nameSize + size, notes.size()));
  }
  return {};
}

/// The digits behind \p needle, a text of printable characters, in \p bytes;
/// empty without any. It steps over most bytes (Horspool's search). Not
/// llvm::StringRef::find(): in a library that is built with AddressSanitizer
/// the bytes between two constants may only be read by code without it.
__attribute__((no_sanitize("address"))) static std::string
digitsBehind(llvm::StringRef needle, llvm::StringRef bytes) {
  const size_t length = needle.size();
  std::array<uint8_t, 256> steps;
  steps.fill(static_cast<uint8_t>(length));
  for (size_t i = 0; i + 1 < length; ++i)
    steps[static_cast<uint8_t>(needle[i])] =
        static_cast<uint8_t>(length - 1 - i);

  const char *at = bytes.begin(), *end = bytes.end();
  std::string digits;
  while (static_cast<size_t>(end - at) >= length) {
    size_t same = 0;
    while (same < length && at[same] == needle[same])
      ++same;
    if (same == length) {
      constexpr size_t kMostDigits = 9;
      for (at += length;
           at < end && llvm::isDigit(*at) && digits.size() < kMostDigits; ++at)
        digits += *at;
      break;
    }
    at += steps[static_cast<uint8_t>(at[length - 1])];
  }
  return digits;
}

namespace {
struct BuildQuery {
  uintptr_t address;  ///< anywhere in the library
  std::string needle; ///< stands before the patch number
  NvrtcBuild build;
};
} // namespace

static int visitLibrary(dl_phdr_info *info, size_t, void *data) {
  auto *query = static_cast<BuildQuery *>(data);
  if (!covers(*info, query->address))
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = info->dlpi_phdr[i];
    llvm::StringRef bytes(
        reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr),
        header.p_memsz);
    NvrtcBuild &build = query->build;
    if (header.p_type == PT_NOTE && build.id.empty())
      build.id = buildIdIn(bytes);
    // Constants lie in the segments that are only read.
    if (header.p_type == PT_LOAD && header.p_flags == PF_R &&
        build.patch.empty())
      build.patch = digitsBehind(query->needle, bytes);
  }
  return 1;
}

NvrtcBuild findNvrtcBuild(const void *function, int major, int minor) {
  // The form that the ptxas inside prints. Seen in 12.8, which has no build id
  // in its wheel, and 13.0.
  BuildQuery query{
      reinterpret_cast<uintptr_t>(function),
      fmt::format("Cuda compilation tools, release {0}.{1}, V{0}.{1}.", major,
                  minor),
      {}};
  dl_iterate_phdr(visitLibrary, &query);
  return std::move(query.build);
}

} // namespace kiln
