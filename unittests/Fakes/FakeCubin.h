//===- FakeCubin.h - the cubins of the stand-ins --------------------------===//
#pragma once

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// A minimal cubin that inspectCubin and the stand-in driver accept: an ELF64
/// header for machine EM_CUDA, then \p text, in which the stand-in driver looks
/// for function names, then a NUL. The header's section table begins at the
/// end, so that a truncated one is noticed; it is empty unless there are \p
/// entries, which a symbol table then defines; the text is then a section that
/// is loaded. \p capability 0 leaves open for
/// which device it is.
inline std::string makeFakeCubin(std::string_view text, int capability = 0,
                                 const std::vector<std::string> &entries = {}) {
  std::string cubin(sizeof(Elf64_Ehdr), '\0');
  cubin += text;
  cubin += '\0';
  auto append = [&](const auto &record) {
    cubin.append(reinterpret_cast<const char *>(&record), sizeof(record));
  };

  Elf64_Shdr sections[4] = {};
  if (!entries.empty()) {
    Elf64_Shdr &strings = sections[1], &symbols = sections[2],
               &code = sections[3];
    code.sh_type = SHT_PROGBITS;
    code.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    code.sh_offset = sizeof(Elf64_Ehdr);
    code.sh_size = text.size();
    std::string names(1, '\0'); // begins with the empty name
    std::vector<Elf64_Sym> table;
    for (const std::string &entry : entries) {
      Elf64_Sym symbol = {};
      symbol.st_name = static_cast<Elf64_Word>(names.size());
      symbol.st_shndx = 1;
      table.push_back(symbol);
      (names += entry) += '\0';
    }
    strings.sh_type = SHT_STRTAB;
    strings.sh_offset = cubin.size();
    strings.sh_size = names.size();
    cubin += names;
    symbols.sh_type = SHT_SYMTAB;
    symbols.sh_link = 1;
    symbols.sh_entsize = sizeof(Elf64_Sym);
    symbols.sh_offset = cubin.size();
    symbols.sh_size = table.size() * sizeof(Elf64_Sym);
    for (const Elf64_Sym &symbol : table)
      append(symbol);
  }

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_type = ET_EXEC;
  header.e_machine = EM_CUDA;
  header.e_version = EV_CURRENT;
  header.e_flags = static_cast<uint32_t>(capability) << 8;
  header.e_ehsize = sizeof(header);
  header.e_shoff = cubin.size();
  if (!entries.empty()) {
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = std::size(sections);
    append(sections);
  }
  std::memcpy(cubin.data(), &header, sizeof(header));
  return cubin;
}

} // namespace kiln
