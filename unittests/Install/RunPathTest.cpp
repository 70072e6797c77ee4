// The run paths of built files, in which the loader looks for libraries: an
// empty or relative component is the working directory, from which no program
// of Kiln may take code.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// The \p index-th T from \p offset of \p file on; zero outside of it.
template <class T>
T recordAt(std::string_view file, size_t offset, size_t index = 0) {
  T record{};
  offset += index * sizeof(T);
  if (offset <= file.size() && sizeof(T) <= file.size() - offset)
    std::memcpy(&record, file.data() + offset, sizeof(T));
  return record;
}

/// The place of \p address of the image in the file.
std::optional<size_t> offsetOf(std::string_view file, const Elf64_Ehdr &header,
                               uint64_t address) {
  for (size_t i = 0; i < header.e_phnum; ++i) {
    auto segment = recordAt<Elf64_Phdr>(file, header.e_phoff, i);
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  return std::nullopt;
}

/// The entries of \p file's dynamic section.
std::vector<Elf64_Dyn> dynamicEntries(std::string_view file,
                                      const Elf64_Ehdr &header) {
  std::vector<Elf64_Dyn> entries;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    auto segment = recordAt<Elf64_Phdr>(file, header.e_phoff, i);
    if (segment.p_type == PT_DYNAMIC)
      for (size_t k = 0; k < segment.p_filesz / sizeof(Elf64_Dyn); ++k)
        entries.push_back(recordAt<Elf64_Dyn>(file, segment.p_offset, k));
  }
  return entries;
}

/// RPATH and RUNPATH of a file that the loader maps; nullopt for other files.
std::optional<std::vector<std::string>> runPaths(std::string_view file) {
  auto header = recordAt<Elf64_Ehdr>(file, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      (header.e_type != ET_EXEC && header.e_type != ET_DYN))
    return std::nullopt;
  std::vector<Elf64_Dyn> entries = dynamicEntries(file, header);
  std::optional<size_t> strings;
  for (const Elf64_Dyn &entry : entries)
    if (entry.d_tag == DT_STRTAB)
      strings = offsetOf(file, header, entry.d_un.d_ptr);
  std::vector<std::string> paths;
  for (const Elf64_Dyn &entry : entries)
    if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) {
      REQUIRE(strings);
      std::string_view text = file.substr(*strings + entry.d_un.d_val);
      paths.emplace_back(text.substr(0, text.find('\0')));
    }
  return paths;
}

/// The components of \p runPath that depend on the working directory.
std::vector<std::string> badComponents(const std::string &runPath) {
  std::vector<std::string> bad;
  // A colon behind the last component begins an empty one.
  std::istringstream components(runPath + ":");
  for (std::string component; std::getline(components, component, ':');)
    if (component.rfind('/', 0) != 0 && component.rfind("$ORIGIN", 0) != 0 &&
        component.rfind("${ORIGIN}", 0) != 0)
      bad.push_back("'" + component + "'");
  return bad;
}

std::string readBinary(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

/// Checks every ELF file in \p folder; returns how many there are.
size_t checkFolder(const fs::path &folder) {
  size_t files = 0;
  for (const auto &entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".o" ||
        entry.path().extension() == ".a")
      continue;
    auto paths = runPaths(readBinary(entry.path()));
    files += paths.has_value();
    for (const std::string &path : paths.value_or(std::vector<std::string>()))
      for (const std::string &component : badComponents(path)) {
        INFO(entry.path().string() << " has the run path " << path);
        FAIL_CHECK("component " << component);
      }
  }
  return files;
}

} // namespace

TEST_CASE("F1: empty and relative components of a run path are seen") {
  CHECK(badComponents("$ORIGIN/../lib:/opt/lib:${ORIGIN}").empty());
  CHECK(badComponents("").size() == 1);
  CHECK(badComponents(":::").size() == 4);
  CHECK(badComponents("$ORIGIN/../lib:").size() == 1);
  CHECK(badComponents("/opt/lib::/usr/lib").size() == 1);
  CHECK(badComponents("lib").size() == 1);
}

TEST_CASE("F1: no ELF file looks for libraries in the working directory") {
  // The install tree, if it is tested; otherwise the built files.
  if (const char *tree = std::getenv("KILN_ELF_TREE")) {
    CHECK(checkFolder(tree) > 0);
    return;
  }
  CHECK(checkFolder(fs::path(KILN_BINARY_DIR) / "bin") > 0);
  checkFolder(fs::path(KILN_BINARY_DIR) / "lib");
#ifdef KILN_TOOL
  CHECK(runPaths(readBinary(KILN_TOOL)).has_value());
#endif
}
