//===- FakeCudaModules.cpp - modules, functions, tensor maps --------------===//
#include "Fakes/FakeCudaState.h"

#include <algorithm>
#include <cstring>

using namespace kiln::fake;

static constexpr size_t kElfHeaderBytes = 64;

template <class T> static T readAt(const char *image, size_t offset) {
  T value;
  std::memcpy(&value, image + offset, sizeof(value));
  return value;
}

/// The bytes behind the header of \p image: to the end of its tables in a
/// cubin of a real compiler, to where the empty section table begins in one of
/// makeFakeCubin, to the first NUL in a bare header followed by text.
static std::string textOf(const char *image) {
  auto endOf = [&](size_t offsetAt, size_t entryAt) {
    return readAt<uint64_t>(image, offsetAt) +
           uint64_t(readAt<uint16_t>(image, entryAt)) *
               readAt<uint16_t>(image, entryAt + 2);
  };
  uint64_t end = std::max(endOf(32, 54), endOf(40, 58));
  if (end <= kElfHeaderBytes)
    return image + kElfHeaderBytes;
  return std::string(image + kElfHeaderBytes, end - kElfHeaderBytes);
}

/// Whether \p text holds \p name as a whole identifier.
static bool containsWord(const std::string &text, const std::string &name) {
  auto isWord = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  };
  for (size_t at = text.find(name); at != std::string::npos;
       at = text.find(name, at + 1)) {
    size_t after = at + name.size();
    if ((at == 0 || !isWord(text[at - 1])) &&
        (after >= text.size() || !isWord(text[after])))
      return true;
  }
  return false;
}

static int attributeOr(const std::map<int, int> &attributes, int attribute,
                       int fallback) {
  auto found = attributes.find(attribute);
  return found == attributes.end() ? fallback : found->second;
}

static int deviceAttribute(const Function &function, int attribute) {
  std::lock_guard lock(state.mutex);
  return attributeOr(state.devices[current->device].attributes, attribute, 0);
}

/// Blocks of one SM by threads, registers, shared memory and their greatest
/// number.
static int activeBlocks(const Function &function, int threads,
                        size_t dynamicShared) {
  int registers = function.attributes.at(CU_FUNC_ATTRIBUTE_NUM_REGS);
  int64_t shared =
      function.attributes.at(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) +
      int64_t(dynamicShared) +
      deviceAttribute(function,
                      CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  auto limit = [&](CUdevice_attribute attribute, int64_t each) -> int64_t {
    return deviceAttribute(function, attribute) / std::max<int64_t>(each, 1);
  };
  return static_cast<int>(std::min(
      {limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, threads),
       limit(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
             int64_t(registers) * threads),
       limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, shared),
       limit(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 1)}));
}

uint64_t kiln::fake::residentBlocks(int threads, size_t sharedBytes,
                                    const Function &function) {
  int blocks = activeBlocks(function, threads, sharedBytes);
  return static_cast<uint64_t>(blocks) *
         static_cast<uint64_t>(visibleSms(current->device));
}

/// The contents that both kinds of map write, and their common limits.
static CUresult encodeMap(CUtensorMap *map, KilnFakeTensorMap fake,
                          void *address, const cuuint64_t *dims,
                          const cuuint64_t *strides,
                          const cuuint32_t *elementStrides) {
  static_assert(sizeof(KilnFakeTensorMap) <= sizeof(CUtensorMap));
  auto base = reinterpret_cast<uint64_t>(address);
  if (!map || reinterpret_cast<uintptr_t>(map) % 64 != 0 || base == 0 ||
      base % 16 != 0 || fake.rank < 1 || fake.rank > 5)
    return CUDA_ERROR_INVALID_VALUE;
  fake.address = base;
  for (int i = 0; i < fake.rank; ++i) {
    fake.dims[i] = dims[i];
    fake.elementStrides[i] = static_cast<uint8_t>(elementStrides[i]);
    if (i + 1 < fake.rank)
      fake.strides[i] = strides[i];
  }
  std::memset(map->opaque, 0, sizeof(map->opaque));
  std::memcpy(map->opaque, &fake, sizeof(fake));
  return CUDA_SUCCESS;
}

static bool isCubin(const char *image) {
  constexpr uint16_t kMachineCuda = 190;
  return std::memcmp(image,
                     "\x7f"
                     "ELF",
                     4) == 0 &&
         readAt<uint16_t>(image, 18) == kMachineCuda;
}

/// PTX is text, of which nothing is checked; its kernels do nothing.
static bool isPtx(const char *image) {
  constexpr const char *kFirst = ".version";
  image += std::strspn(image, " \t\n");
  return std::strncmp(image, kFirst, std::strlen(kFirst)) == 0;
}

#pragma GCC visibility push(default)
extern "C" {

CUresult cuModuleLoadData(CUmodule *handle, const void *data) {
  KILN_FAKE_ENTER(cuModuleLoadData, Needs::Quiet);
  auto *image = static_cast<const char *>(data);
  if (!isPtx(image) && !isCubin(image))
    return CUDA_ERROR_INVALID_IMAGE;
  if (CUresult result = awaitDevice(); result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(state.mutex);
  Module *module = state.make<Module>();
  module->context = current;
  module->text = isPtx(image) ? image : textOf(image);
  ++state.modulesLoaded;
  *handle = handleOf<CUmodule>(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
  KILN_FAKE_ENTER(cuModuleUnload, Needs::Quiet);
  if (CUresult result = awaitDevice(); result != CUDA_SUCCESS)
    return result;
  std::lock_guard lock(state.mutex);
  CUresult result = CUDA_SUCCESS;
  Module *module = objectOf<Module>(handle, Kind::Module, result);
  if (!module)
    return result;
  for (CUfunction function : module->functions)
    objectOf<Function>(function, Kind::Function)->kind = Kind::Dead;
  module->kind = Kind::Dead;
  --state.modulesLoaded;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *handle, CUmodule moduleHandle,
                             const char *name) {
  KILN_FAKE_ENTER(cuModuleGetFunction, Needs::Context);
  std::lock_guard lock(state.mutex);
  CUresult result = CUDA_SUCCESS;
  Module *module = objectOf<Module>(moduleHandle, Kind::Module, result);
  if (!module)
    return result;
  if (!containsWord(module->text, name))
    return CUDA_ERROR_NOT_FOUND;
  Function *function = state.make<Function>();
  function->name = name;
  function->module = module;
  function->context = module->context;
  function->attributes = {{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                          {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 0},
                          {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 0},
                          {CU_FUNC_ATTRIBUTE_NUM_REGS, 64}};
  for (const FunctionRule &rule : state.functionRules)
    if (matches(rule.pattern, function->name, module->text))
      function->set(rule.attribute, rule.value);
  *handle = handleOf<CUfunction>(function);
  module->functions.push_back(*handle);
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  KILN_FAKE_ENTER(cuFuncLoad, Needs::Quiet);
  CUresult result = CUDA_SUCCESS;
  objectOf<Function>(handle, Kind::Function, result);
  return result;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute,
                            int value) {
  KILN_FAKE_ENTER(cuFuncSetAttribute, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  auto *function = objectOf<Function>(handle, Kind::Function, result);
  if (!function)
    return result;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    int limit = deviceAttribute(
        *function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    if (value < 0 || value > limit)
      return CUDA_ERROR_INVALID_VALUE;
    function->maxDynamicShared = static_cast<uint32_t>(value);
  }
  function->set(attribute, value);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction handle,
                                      const CUlaunchConfig *config) {
  KILN_FAKE_ENTER(cuOccupancyMaxActiveClusters, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  auto *function = objectOf<Function>(handle, Kind::Function, result);
  if (!function)
    return result;
  unsigned size = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      size = config->attrs[i].value.clusterDim.x;
  *count = static_cast<int>(residentBlocks(static_cast<int>(config->blockDimX),
                                           config->sharedMemBytes, *function) /
                            size);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *elementStrides, CUtensorMapInterleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill) {
  KILN_FAKE_ENTER(cuTensorMapEncodeTiled, Needs::Init);
  KilnFakeTensorMap fake = {};
  fake.rank = static_cast<uint8_t>(rank);
  fake.dataType = static_cast<uint8_t>(type);
  fake.swizzle = static_cast<uint8_t>(swizzle);
  fake.l2Promotion = static_cast<uint8_t>(promotion);
  for (cuuint32_t i = 0; i < std::min<cuuint32_t>(rank, 5); ++i)
    fake.box[i] = box[i];
  return encodeMap(map, fake, address, dims, strides, elementStrides);
}

CUresult cuTensorMapEncodeIm2col(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dims, const cuuint64_t *strides, const int *, const int *,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *elementStrides,
    CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill) {
  KILN_FAKE_ENTER(cuTensorMapEncodeIm2col, Needs::Init);
  if (rank < 3)
    return CUDA_ERROR_INVALID_VALUE;
  KilnFakeTensorMap fake = {};
  fake.im2col = 1;
  fake.rank = static_cast<uint8_t>(rank);
  fake.dataType = static_cast<uint8_t>(type);
  fake.swizzle = static_cast<uint8_t>(swizzle);
  fake.l2Promotion = static_cast<uint8_t>(promotion);
  fake.box[0] = channels;
  fake.box[1] = pixels;
  return encodeMap(map, fake, address, dims, strides, elementStrides);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
  KILN_FAKE_ENTER(cuTensorMapReplaceAddress, Needs::Init);
  auto base = reinterpret_cast<uint64_t>(address);
  if (!map || reinterpret_cast<uintptr_t>(map) % 64 != 0 || base == 0 ||
      base % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  // Through bytes: a map in a parameter block has 64 bytes of alignment, the
  // type asks for more.
  std::memcpy(static_cast<void *>(map), &base, sizeof(base));
  return CUDA_SUCCESS;
}

} // extern "C"
#pragma GCC visibility pop
