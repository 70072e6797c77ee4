//===- Cubin.cpp ----------------------------------------------------------===//
#include "Support/Cubin.h"

#include "Support/Elf.h"
#include "Support/Error.h"

#include <llvm/BinaryFormat/ELF.h>

namespace kiln {

/// The capability in e_flags. Read off the output of NVRTC: version 7 of the
/// ABI (12.8, up to sm_90a) keeps it in bits 0 to 7, version 8 (13.0, and 12.8
/// from sm_100) in bits 8 to 15. Not all versions say whether it is an "a"
/// variant.
static int capabilityIn(uint8_t abiVersion, uint32_t flags) {
  switch (abiVersion) {
  case 7:
    return flags & 0xff;
  case 8:
    return (flags >> 8) & 0xff;
  default:
    return 0;
  }
}

llvm::Expected<CubinHeader> inspectCubin(llvm::StringRef cubin) {
  auto header = inspectElf(cubin);
  if (!header)
    return addContext(header.takeError(), "not a cubin");
  if (header->machine != llvm::ELF::EM_CUDA)
    return makeError(ErrorCode::InvalidArgument,
                     "not a cubin: ELF machine {} instead of {}",
                     header->machine, int(llvm::ELF::EM_CUDA));
  return CubinHeader{capabilityIn(header->abiVersion, header->flags)};
}

uint64_t loadedBytes(llvm::StringRef cubin) {
  return allocatedBytes(cubin, [](llvm::StringRef section) {
    return !section.starts_with(".nv.shared");
  });
}

int capabilityOf(llvm::StringRef arch) {
  int capability = 0;
  arch.consume_front("sm_");
  return arch.consumeInteger(10, capability) ? 0 : capability;
}

llvm::Error checkCubin(llvm::StringRef cubin, llvm::StringRef arch,
                       llvm::StringRef entry) {
  auto header = inspectCubin(cubin);
  if (!header)
    return header.takeError();
  if (header->capability != 0 && header->capability != capabilityOf(arch))
    return makeError(ErrorCode::InvalidArgument, "cubin for sm_{}, not for {}",
                     header->capability, arch);
  if (!definesSymbol(cubin, entry))
    return makeError(ErrorCode::InvalidArgument,
                     "cubin of {} bytes does not define {}", cubin.size(),
                     entry);
  return llvm::Error::success();
}

} // namespace kiln
