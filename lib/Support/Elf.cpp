//===- Elf.cpp ------------------------------------------------------------===//
#include "Support/Elf.h"

#include "Support/AtomicFile.h"
#include "Support/Error.h"

#include <llvm/BinaryFormat/ELF.h>

#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace kiln {

namespace elf = llvm::ELF;

static bool isInside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

static llvm::Error makeTruncated(llvm::StringRef what, uint64_t size) {
  return makeError(ErrorCode::InvalidArgument,
                   "ELF file of {} bytes is truncated: its {} lies outside",
                   size, what);
}

/// Calls \p visit for each entry of a table that is known to lie inside.
template <class T, class Visit>
static llvm::Error visitTable(uint64_t offset, size_t count, size_t entryBytes,
                              ElfReader read, Visit visit) {
  if (count && entryBytes < sizeof(T))
    return makeError(ErrorCode::InvalidArgument,
                     "ELF table with entries of {} bytes", entryBytes);
  for (size_t i = 0; i < count; ++i) {
    T entry;
    if (!read(offset + i * entryBytes, &entry, sizeof(entry)))
      return makeError(ErrorCode::InvalidArgument, "cannot read its tables");
    if (llvm::Error error = visit(entry))
      return error;
  }
  return llvm::Error::success();
}

/// Checks the identification of \p header.
static llvm::Error checkIdentity(const elf::Elf64_Ehdr &header) {
  if (!header.checkMagic())
    return makeError(ErrorCode::InvalidArgument, "no ELF header");
  if (header.getFileClass() != elf::ELFCLASS64 ||
      header.getDataEncoding() != elf::ELFDATA2LSB)
    return makeError(ErrorCode::InvalidArgument,
                     "ELF class {}, data encoding {}",
                     int(header.getFileClass()), int(header.getDataEncoding()));
  return llvm::Error::success();
}

llvm::Expected<ElfHeader> inspectElf(uint64_t size, ElfReader read) {
  elf::Elf64_Ehdr header;
  if (size < sizeof(header) || !read(0, &header, sizeof(header)))
    return makeError(ErrorCode::InvalidArgument, "no ELF header in {} bytes",
                     size);
  if (llvm::Error error = checkIdentity(header))
    return error;
  if (!isInside(header.e_phoff, uint64_t(header.e_phnum) * header.e_phentsize,
                size))
    return makeTruncated("program table", size);
  if (!isInside(header.e_shoff, uint64_t(header.e_shnum) * header.e_shentsize,
                size))
    return makeTruncated("section table", size);
  if (llvm::Error error = visitTable<elf::Elf64_Phdr>(
          header.e_phoff, header.e_phnum, header.e_phentsize, read,
          [&](const elf::Elf64_Phdr &segment) {
            return isInside(segment.p_offset, segment.p_filesz, size)
                       ? llvm::Error::success()
                       : makeTruncated("segment", size);
          }))
    return error;
  if (llvm::Error error = visitTable<elf::Elf64_Shdr>(
          header.e_shoff, header.e_shnum, header.e_shentsize, read,
          [&](const elf::Elf64_Shdr &section) {
            // The first section is no section, and others have no bytes here.
            return section.sh_type == elf::SHT_NULL ||
                           section.sh_type == elf::SHT_NOBITS ||
                           isInside(section.sh_offset, section.sh_size, size)
                       ? llvm::Error::success()
                       : makeTruncated("section", size);
          }))
    return error;
  return ElfHeader{header.e_machine, header.e_ident[elf::EI_ABIVERSION],
                   header.e_flags};
}

static bool readImage(llvm::StringRef image, uint64_t offset, void *to,
                      size_t bytes) {
  if (!isInside(offset, bytes, image.size()))
    return false;
  std::memcpy(to, image.data() + offset, bytes);
  return true;
}

llvm::Expected<ElfHeader> inspectElf(llvm::StringRef image) {
  return inspectElf(image.size(), [&](uint64_t offset, void *to, size_t bytes) {
    return readImage(image, offset, to, bytes);
  });
}

/// Whether \p table, a symbol table of \p image, defines \p name.
static bool definesIn(llvm::StringRef image, const elf::Elf64_Shdr &table,
                      const elf::Elf64_Shdr &strings, llvm::StringRef name) {
  llvm::StringRef names = image.substr(strings.sh_offset, strings.sh_size);
  for (uint64_t at = 0; at + sizeof(elf::Elf64_Sym) <= table.sh_size;
       at += sizeof(elf::Elf64_Sym)) {
    elf::Elf64_Sym symbol;
    if (!readImage(image, table.sh_offset + at, &symbol, sizeof(symbol)))
      return false;
    llvm::StringRef rest =
        names.drop_front(std::min<size_t>(symbol.st_name, names.size()));
    if (symbol.st_shndx != elf::SHN_UNDEF && rest.size() > name.size() &&
        rest.starts_with(name) && rest[name.size()] == '\0')
      return true;
  }
  return false;
}

namespace {
/// The sections of an image that inspectElf() has accepted.
struct Sections {
  explicit Sections(llvm::StringRef image) : image(image) {
    if (!readImage(image, 0, &header, sizeof(header)))
      header.e_shnum = 0;
  }
  size_t count() const { return header.e_shnum; }
  bool read(size_t index, elf::Elf64_Shdr &section) const {
    return index < count() &&
           readImage(image, header.e_shoff + index * header.e_shentsize,
                     &section, sizeof(section));
  }

  llvm::StringRef image;
  elf::Elf64_Ehdr header;
};
} // namespace

bool definesSymbol(llvm::StringRef image, llvm::StringRef name) {
  const Sections sections(image);
  for (size_t i = 0; i < sections.count(); ++i) {
    elf::Elf64_Shdr table, strings;
    if (sections.read(i, table) && table.sh_type == elf::SHT_SYMTAB &&
        sections.read(table.sh_link, strings) &&
        definesIn(image, table, strings, name))
      return true;
  }
  return false;
}

uint64_t allocatedBytes(llvm::StringRef image,
                        llvm::function_ref<bool(llvm::StringRef name)> counts) {
  const Sections sections(image);
  elf::Elf64_Shdr section, strings;
  llvm::StringRef names;
  if (sections.read(sections.header.e_shstrndx, strings))
    names = image.substr(strings.sh_offset, strings.sh_size);
  auto nameAt = [&](uint64_t at) {
    return names.substr(at).take_until([](char c) { return c == '\0'; });
  };
  uint64_t bytes = 0;
  for (size_t i = 0; i < sections.count(); ++i)
    if (sections.read(i, section) && (section.sh_flags & elf::SHF_ALLOC) &&
        counts(nameAt(section.sh_name)))
      bytes += section.sh_size;
  return bytes;
}

std::optional<std::string> describeBadLibrary(const std::string &path) {
  struct stat info = {};
  // Before it is opened: opening a device may do something.
  if (::stat(path.c_str(), &info) != 0)
    return std::nullopt;
  if (!S_ISREG(info.st_mode))
    return "it is no plain file";
  FileOps &ops = FileOps::system();
  ScopedFd file(ops, retryInterrupted([&] {
                  return ::open(path.c_str(),
                                O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
                }));
  if (!file || ::fstat(file.get(), &info) != 0)
    return std::nullopt;
  if (!S_ISREG(info.st_mode))
    return "it is no plain file";
  auto header =
      inspectElf(static_cast<uint64_t>(info.st_size),
                 [&](uint64_t offset, void *to, size_t bytes) {
                   return retryInterrupted([&] {
                            return ::pread(file.get(), to, bytes,
                                           static_cast<off_t>(offset));
                          }) == static_cast<ssize_t>(bytes);
                 });
  if (!header)
    return summarize(header.takeError()).message;
  return std::nullopt;
}

} // namespace kiln
