// Shipped files are built with their hardening: the loader's tables are
// read-only after loading, stacks are not executable, and both stacks and
// copies into buffers of known sizes are checked.
#include <doctest/doctest.h>

#include <cstring>
#include <elf.h>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Image {
  std::string bytes;
  Elf64_Ehdr header{};

  explicit Image(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    bytes = all.str();
    REQUIRE_MESSAGE(bytes.size() > sizeof(header), path);
    std::memcpy(&header, bytes.data(), sizeof(header));
    REQUIRE(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0);
  }

  template <class T> std::vector<T> table(size_t offset, size_t count) const {
    std::vector<T> entries(count);
    REQUIRE(offset + count * sizeof(T) <= bytes.size());
    std::memcpy(entries.data(), bytes.data() + offset, count * sizeof(T));
    return entries;
  }
  const std::vector<Elf64_Phdr> segments() const {
    return table<Elf64_Phdr>(header.e_phoff, header.e_phnum);
  }

  /// Whether the dynamic section asks for binding all symbols at once.
  bool isBoundAtOnce() const {
    for (const Elf64_Phdr &segment : segments())
      if (segment.p_type == PT_DYNAMIC)
        for (const Elf64_Dyn &entry : table<Elf64_Dyn>(
                 segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn)))
          if ((entry.d_tag == DT_FLAGS && entry.d_un.d_val & DF_BIND_NOW) ||
              (entry.d_tag == DT_FLAGS_1 && entry.d_un.d_val & DF_1_NOW))
            return true;
    return false;
  }

  /// Whether the file's strings, including names of imports, contain \p name.
  bool names(std::string_view name) const {
    return bytes.find('\0' + std::string(name) + '\0') != std::string::npos;
  }
};

/// \p copies: it has copies into buffers of known sizes.
void checkImage(const std::string &path, bool copies = true) {
  CAPTURE(path);
  const Image image(path);
  bool hasRelro = false;
  for (const Elf64_Phdr &segment : image.segments()) {
    hasRelro |= segment.p_type == PT_GNU_RELRO;
    if (segment.p_type == PT_GNU_STACK)
      CHECK((segment.p_flags & PF_X) == 0);
    // No segment is both written and executed.
    if (segment.p_type == PT_LOAD)
      CHECK((segment.p_flags & (PF_W | PF_X)) != (PF_W | PF_X));
  }
  CHECK(hasRelro);
  CHECK(image.isBoundAtOnce());
  CHECK(image.names("__stack_chk_fail"));
  if (copies)
    CHECK((image.names("__memcpy_chk") || image.names("__memset_chk") ||
           image.names("__read_chk") || image.names("__readlink_chk")));
}

} // namespace

TEST_CASE("what is shipped is hardened") {
#ifndef NDEBUG
  MESSAGE("skipped: glibc checks copies only where it is optimised");
  return;
#endif
#ifdef KILN_TOOL
  checkImage(KILN_TOOL);
#endif
#ifdef KILN_LIBRARY
  checkImage(KILN_LIBRARY);
#endif
#ifdef KILN_PROFILER
  checkImage(KILN_PROFILER, /*copies=*/false);
#endif
}
