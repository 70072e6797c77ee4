//===- FakeCubin.h - the cubins of the stand-ins --------------------------===//
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace kiln {

/// A minimal cubin that inspectCubin and the stand-in driver accept: an ELF64
/// header for machine EM_CUDA, then \p text, in which the stand-in driver looks
/// for function names, then a NUL. The header's section table is empty and
/// begins at the end, so that a truncated one is noticed. \p capability 0
/// leaves open for which device it is.
inline std::string makeFakeCubin(std::string_view text, int capability = 0) {
  constexpr size_t kHeaderBytes = 64;
  std::string cubin(kHeaderBytes, '\0');
  auto put = [&](size_t offset, auto value) {
    std::memcpy(cubin.data() + offset, &value, sizeof(value));
  };
  std::memcpy(cubin.data(),
              "\x7f"
              "ELF\x02\x01\x01",
              7);
  put(8, uint8_t(8));                                // EI_ABIVERSION
  put(16, uint16_t(2));                              // e_type: ET_EXEC
  put(18, uint16_t(190));                            // e_machine: EM_CUDA
  put(20, uint32_t(1));                              // e_version
  put(40, uint64_t(kHeaderBytes + text.size() + 1)); // e_shoff
  put(48, uint32_t(capability) << 8);                // e_flags
  put(52, uint16_t(kHeaderBytes));                   // e_ehsize
  cubin += text;
  cubin += '\0';
  return cubin;
}

} // namespace kiln
