//===- LaunchSpec.h - a launch as plain data ------------------------------===//
//
// A family's bind() produces it, and only Driver executes it: one to five
// steps, their parameters and the tensor maps inside them. Trivially copyable,
// lives on the stack of a launch, allocates nothing, includes no CUDA header.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace kiln {

/// An address in device memory.
using DeviceAddress = uint64_t;

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  // Not defaulted, because GCC calls memcmp then.
  friend bool operator==(const Dim3 &a, const Dim3 &b) {
    return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z)) == 0;
  }
};

/// The 128 opaque bytes of a CUtensorMap.
struct alignas(64) EncodedTensorMap {
  uint64_t opaque[16] = {};
};

enum class TensorMapSwizzle : int32_t { None, B32, B64, B128 };
enum class L2Promotion : int32_t { None, B64, B128, B256 };

/// A tensor map before it is encoded: tiled, or im2col where `im2col` is set.
/// Dimensions and boxes are in elements, innermost first; strides in bytes,
/// of dimensions 1 to rank-1. Limits: rank 1 to 5 (im2col 3 to 5), address
/// aligned to 16 bytes, strides multiples of 16 below 2^40, boxes at most 256
/// (cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, CUDA Driver API).
struct TensorMapSpec {
  static constexpr int kMaxRank = 5;
  int32_t elementType = 0; ///< kiln::DType
  int32_t rank = 0;
  uint64_t dims[kMaxRank] = {};
  uint64_t strides[kMaxRank - 1] = {};
  uint32_t box[kMaxRank] = {};
  uint32_t elementStrides[kMaxRank] = {1, 1, 1, 1, 1};
  TensorMapSwizzle swizzle = TensorMapSwizzle::None;
  L2Promotion l2Promotion = L2Promotion::None;
  bool im2col = false;
  int32_t lowerCorner[kMaxRank - 2] = {};
  int32_t upperCorner[kMaxRank - 2] = {};
  uint32_t channelsPerPixel = 0, pixelsPerColumn = 0;
};

/// A tensor map inside a step's parameters. `prototype` is copied there and its
/// address replaced (0.02 us). Without a prototype, which is where sizes differ
/// from its own, LaunchSpec::mapSpec is encoded instead (0.05 us).
/// `paramOffset` counts from the start of LaunchSpec::params (the step's own
/// offset plus that of the member) and is a multiple of 64.
struct TensorMapPatch {
  const EncodedTensorMap *prototype = nullptr;
  DeviceAddress address = 0;
  uint32_t paramOffset = 0;
};

struct KernelStep {
  uint32_t function = 0; ///< index among the plan's loaded functions
  Dim3 grid, block, cluster;
  uint32_t sharedBytes = 0; ///< dynamic shared memory
  uint32_t paramOffset = 0, paramBytes = 0;
  bool dependentLaunch = false; ///< programmatic stream serialisation
  bool cooperative = false;     ///< all blocks run at once, or the launch fails
};

struct MemsetStep {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
  uint8_t value = 0;
};

struct LaunchStep {
  enum class Kind : uint8_t { Kernel, Memset };
  Kind kind = Kind::Kernel;
  KernelStep kernel;
  MemsetStep memset;
};

/// One to five steps, executed in order on one stream.
struct LaunchSpec {
  static constexpr uint32_t kMaxSteps = 5;
  static constexpr uint32_t kMaxTensorMaps = 8;
  static constexpr uint32_t kMaxParamBytes = 4096;

  uint32_t stepCount = 0, tensorMapCount = 0, paramBytes = 0;
  // Unions: their members begin when they are added, so that a launch pays only
  // for the members that it uses.
  union {
    LaunchStep steps[kMaxSteps];
  };
  union {
    TensorMapPatch tensorMaps[kMaxTensorMaps];
  };
  alignas(64) std::byte params[kMaxParamBytes];

  LaunchSpec() {}

  /// Appends a kernel whose one parameter is \p value; geometry is the
  /// caller's to fill in.
  template <class Params> KernelStep &addKernel(const Params &value) {
    KernelStep &step = addKernelFor<Params>();
    std::memcpy(params + step.paramOffset, &value, sizeof(Params));
    return step;
  }
  /// As above with the result of \p make, which is constructed in the place
  /// that the launch reads. A copy of some hundred bytes would wait until the
  /// bytes just written are in memory.
  template <class Make> KernelStep &addKernelOf(const Make &make) {
    using Params = decltype(make());
    KernelStep &step = addKernelFor<Params>();
    ::new (static_cast<void *>(params + step.paramOffset)) Params(make());
    return step;
  }
  /// The parameters of \p step; their type is \p Params.
  template <class Params> const Params &paramsOf(const KernelStep &step) const {
    assert(step.paramBytes == sizeof(Params) && "of another type");
    return *std::launder(
        reinterpret_cast<const Params *>(params + step.paramOffset));
  }

  /// Has \p prototype, for \p address, copied to \p paramOffset.
  void addTensorMap(const EncodedTensorMap &prototype, DeviceAddress address,
                    uint32_t paramOffset) {
    assert(tensorMapCount < kMaxTensorMaps && "too many tensor maps");
    std::construct_at(&tensorMaps[tensorMapCount++],
                      TensorMapPatch{&prototype, address, paramOffset});
  }
  /// Keeps a copy of \p map and has it encoded to \p paramOffset.
  void addTensorMap(const TensorMapSpec &map, DeviceAddress address,
                    uint32_t paramOffset) {
    assert(tensorMapCount < kMaxTensorMaps && "too many tensor maps");
    std::memcpy(mapSpecs[tensorMapCount], &map, sizeof(map));
    std::construct_at(&tensorMaps[tensorMapCount++],
                      TensorMapPatch{nullptr, address, paramOffset});
  }
  /// The tensor map that patch \p index, which has no prototype, encodes.
  TensorMapSpec mapSpec(uint32_t index) const {
    TensorMapSpec map;
    std::memcpy(&map, mapSpecs[index], sizeof(map));
    return map;
  }

  void addMemset(DeviceAddress address, uint64_t bytes, uint8_t value) {
    assert(stepCount < kMaxSteps && "a plan has at most five steps");
    LaunchStep &step = *std::construct_at(&steps[stepCount++]);
    step.kind = LaunchStep::Kind::Memset;
    step.memset = {address, bytes, value};
  }

private:
  template <class Params> KernelStep &addKernelFor() {
    static_assert(std::is_trivially_copyable_v<Params>);
    assert(stepCount < kMaxSteps && "a plan has at most five steps");
    uint32_t offset = (paramBytes + 63u) & ~63u;
    assert(offset + sizeof(Params) <= kMaxParamBytes && "parameters too large");
    paramBytes = offset + sizeof(Params);
    LaunchStep &step = *std::construct_at(&steps[stepCount++]);
    step.kernel.paramOffset = offset;
    step.kernel.paramBytes = sizeof(Params);
    return step.kernel;
  }

  // Raw bytes, so that a launch without such maps does not pay for them.
  std::byte mapSpecs[kMaxTensorMaps][sizeof(TensorMapSpec)];
};

} // namespace kiln
