#include "Compile/NvrtcDestructors.h"
#include "Compile/Nvrtc.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace kiln;

#if defined(__aarch64__)
static constexpr uint64_t kCall = R_AARCH64_JUMP_SLOT,
                          kGlobal = R_AARCH64_GLOB_DAT;
#else
static constexpr uint64_t kCall = R_X86_64_JUMP_SLOT,
                          kGlobal = R_X86_64_GLOB_DAT;
#endif

namespace {
/// A library as the loader leaves it: tables on one page, imports on the next,
/// and a page behind it that cannot be read.
struct Image {
  static constexpr size_t kSymbols = 1024, kNames = 1536, kCalls = 2048,
                          kPlain = 2560;
  static constexpr size_t kTags = 8;

  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  char *base = nullptr;
  std::array<ElfW(Phdr), 4> headers{};
  dl_phdr_info info{};

  Image() {
    base = static_cast<char *>(::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(static_cast<void *>(base) != MAP_FAILED);
    ::mprotect(base + 2 * page, page, PROT_NONE);
    auto describe = [&](int i, unsigned type, unsigned flags, uintptr_t start,
                        size_t bytes) {
      headers[i].p_type = type;
      headers[i].p_flags = flags;
      headers[i].p_vaddr = start;
      headers[i].p_memsz = bytes;
    };
    describe(0, PT_LOAD, PF_R, 0, page);
    describe(1, PT_LOAD, PF_R | PF_W, page, page);
    describe(2, PT_DYNAMIC, PF_R, 0, kTags * sizeof(ElfW(Dyn)));
    describe(3, PT_NULL, PF_R, page, page);
    info.dlpi_addr = reinterpret_cast<uintptr_t>(base);
    info.dlpi_phdr = headers.data();
    info.dlpi_phnum = headers.size();

    static constexpr char kText[] = "\0__cxa_atexit\0atexit\0malloc";
    std::memcpy(base + kNames, kText, sizeof(kText));
    const std::array<unsigned, 4> nameOffsets = {0, 1, 14, 21};
    for (size_t i = 0; i < nameOffsets.size(); ++i)
      symbols()[i].st_name = nameOffsets[i];
    const std::array<std::pair<ElfW(Sxword), uintptr_t>, kTags - 1> tags = {
        {{DT_SYMTAB, kSymbols},
         {DT_STRTAB, info.dlpi_addr + kNames}, // as glibc leaves it
         {DT_STRSZ, sizeof(kText)},
         {DT_JMPREL, kCalls},
         {DT_PLTRELSZ, 2 * sizeof(ElfW(Rela))},
         {DT_RELA, kPlain},
         {DT_RELASZ, sizeof(ElfW(Rela))}}};
    for (size_t i = 0; i < tags.size(); ++i) {
      dynamic()[i].d_tag = tags[i].first;
      dynamic()[i].d_un.d_val = tags[i].second;
    }
    calls()[0] = {page, ELF64_R_INFO(1, kCall), 0};
    calls()[1] = {page + 16, ELF64_R_INFO(3, kCall), 0};
    plain()[0] = {page + 8, ELF64_R_INFO(2, kGlobal), 0};
  }
  ~Image() { ::munmap(base, 3 * page); }
  Image(const Image &) = delete;
  Image &operator=(const Image &) = delete;

  template <class T> T *at(size_t offset) {
    return reinterpret_cast<T *>(base + offset);
  }
  ElfW(Dyn) * dynamic() { return at<ElfW(Dyn)>(0); }
  ElfW(Sym) * symbols() { return at<ElfW(Sym)>(kSymbols); }
  ElfW(Rela) * calls() { return at<ElfW(Rela)>(kCalls); }
  ElfW(Rela) * plain() { return at<ElfW(Rela)>(kPlain); }
  uintptr_t *slots() { return at<uintptr_t>(page); }

  bool isWritable() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], "", 1) == 1);
    const bool writes = ::read(ends[0], base + page + 64, 1) == 1;
    ::close(ends[0]);
    ::close(ends[1]);
    return writes;
  }
};
} // namespace

static int destroyed = 0;

TEST_CASE("a library that is refused its destructors registers none") {
  Image image;
  REQUIRE(refuseDestructorsOf(image.info) == 2);
  auto registerOne =
      reinterpret_cast<int (*)(void (*)(void *), void *, void *)>(
          image.slots()[0]);
  CHECK(registerOne([](void *) { ++destroyed; }, nullptr, nullptr) == 0);
  auto registerHandler =
      reinterpret_cast<int (*)(void (*)())>(image.slots()[1]);
  CHECK(registerHandler([] { ++destroyed; }) == 0);
  CHECK(destroyed == 0);
  CHECK(image.slots()[2] == 0); // another import
}

TEST_CASE("an import table that is sealed after relocation stays sealed") {
  Image image;
  image.headers[3].p_type = PT_GNU_RELRO;
  ::mprotect(image.base + image.page, image.page, PROT_READ);
  CHECK(refuseDestructorsOf(image.info) == 2);
  CHECK(image.slots()[0] != 0);
  CHECK_FALSE(image.isWritable());
}

TEST_CASE("tables of a library that lead out of it are not followed") {
  const uintptr_t kWild[] = {~uintptr_t(0), ~uintptr_t(7), uintptr_t(1) << 40,
                             uintptr_t(1) << 63};
  for (const uintptr_t wild : kWild) {
    CAPTURE(wild);
    for (size_t tag = 0; tag + 1 < Image::kTags; ++tag) {
      Image image;
      image.dynamic()[tag].d_un.d_val = wild;
      CHECK(refuseDestructorsOf(image.info) < 2);
    }
    Image image;
    image.calls()[0].r_offset = wild;
    image.plain()[0].r_offset = image.page + 1; // not aligned
    image.calls()[1].r_info = ELF64_R_INFO(wild & 0xffffffff, kCall);
    CHECK(refuseDestructorsOf(image.info) == 0);
  }
  Image image;
  image.headers[2].p_memsz = 3 * image.page;
  CHECK(refuseDestructorsOf(image.info) == 0);
  Image unterminated;
  std::memset(unterminated.base + Image::kNames, 'x', 28);
  CHECK(refuseDestructorsOf(unterminated.info) == 0);
  Image readOnly;
  readOnly.headers[1].p_flags = PF_R;
  CHECK(refuseDestructorsOf(readOnly.info) == 0);
}

TEST_CASE("an address of no library refuses nothing") {
  int local = 0;
  CHECK(refuseDestructors(&local) == 0);
  CHECK(refuseDestructors(nullptr) == 0);
}

TEST_CASE("every NVRTC that is loaded is refused its destructors") {
  std::vector<std::string> searched;
  std::vector<std::string> files = nvrtcCandidates(
      NvrtcSearch::fromEnvironment(Environment::fromProcess(),
                                   {KILN_SOURCE_DIR "/build/cuda"}),
      searched);
  files.insert(files.begin(), KILN_BINARY_DIR "/lib/libkiln_fake_nvrtc.so");
  static const std::string kUsual = "/libnvrtc.so",
                           kAlternate = "/libnvrtc.alt.so";
  for (size_t i = 0, count = files.size(); i < count; ++i)
    if (size_t at = files[i].rfind(kUsual); at != std::string::npos) {
      std::string file = files[i];
      file.replace(at, kUsual.size(), kAlternate);
      if (std::filesystem::exists(file))
        files.push_back(std::move(file));
    }
  for (const std::string &file : files) {
    CAPTURE(file);
    void *library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    CHECK(refuseDestructors(::dlsym(library, "nvrtcVersion")) > 0);
  }
}
