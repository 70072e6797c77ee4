//===- RandomWeightsPtx.h - random weights on the GPU ---------------------===//
//
// The formula of RandomWeights.h as PTX, which the driver compiles: the weights
// of an 8B model take milliseconds here and minutes on a host. Written by hand,
// because PTX names each operation: .rn products and sums are never fused.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXAMPLES_LLAMA_RANDOMWEIGHTSPTX_H
#define KILN_EXAMPLES_LLAMA_RANDOMWEIGHTSPTX_H

namespace llama {

constexpr const char *kRandomWeightsEntry = "random_weights";

/// random_weights(u64 out, u64 key, u64 count, f32 scale, f32 offset) writes
/// elements [0, count) of the tensor of the key. `out` is a device address that
/// is a multiple of 8. Any one-dimensional grid: the loop steps by the grid,
/// and a thread makes four elements at once.
constexpr const char *kRandomWeightsPtx = R"ptx(
.version 7.8
.target sm_80
.address_size 64

// Element `index` of the tensor as bf16 bits.
.func (.reg .b16 value) weight(.reg .u64 key, .reg .u64 index, .reg .f32 scale,
                               .reg .f32 offset)
{
  .reg .u64 h, shifted;
  .reg .u32 low, high, part, sum;
  .reg .f32 x;

  // h = mix64(key + (index + 1) * 0x9e3779b97f4a7c15)
  add.u64 h, index, 1;
  mad.lo.u64 h, h, 0x9e3779b97f4a7c15, key;
  shr.u64 shifted, h, 30;
  xor.b64 h, h, shifted;
  mul.lo.u64 h, h, 0xbf58476d1ce4e5b9;
  shr.u64 shifted, h, 27;
  xor.b64 h, h, shifted;
  mul.lo.u64 h, h, 0x94d049bb133111eb;
  shr.u64 shifted, h, 31;
  xor.b64 h, h, shifted;

  // sum = the four 16-bit parts of h - 131070
  mov.b64 {low, high}, h;
  and.b32 sum, low, 0xffff;
  shr.u32 part, low, 16;
  add.u32 sum, sum, part;
  and.b32 part, high, 0xffff;
  add.u32 sum, sum, part;
  shr.u32 part, high, 16;
  add.u32 sum, sum, part;
  sub.u32 sum, sum, 131070;

  // value = bf16(sum * scale + offset), each operation rounded
  cvt.rn.f32.s32 x, sum;
  mul.rn.f32 x, x, scale;
  add.rn.f32 x, x, offset;
  cvt.rn.bf16.f32 value, x;
  ret;
}

.visible .entry random_weights(.param .u64 outParam, .param .u64 keyParam,
                               .param .u64 countParam, .param .f32 scaleParam,
                               .param .f32 offsetParam)
{
  .reg .u64 out, key, count, index, step, address, left;
  .reg .u32 block, blockSize, thread, blocks;
  .reg .f32 scale, offset;
  .reg .b16 value<4>;
  .reg .pred done, partial;

  ld.param.u64 out, [outParam];
  ld.param.u64 key, [keyParam];
  ld.param.u64 count, [countParam];
  ld.param.f32 scale, [scaleParam];
  ld.param.f32 offset, [offsetParam];
  cvta.to.global.u64 out, out;

  // index = 4 * (block * blockSize + thread), step = 4 * blocks * blockSize
  mov.u32 block, %ctaid.x;
  mov.u32 blockSize, %ntid.x;
  mov.u32 thread, %tid.x;
  mov.u32 blocks, %nctaid.x;
  mul.wide.u32 index, block, blockSize;
  cvt.u64.u32 left, thread;
  add.u64 index, index, left;
  shl.b64 index, index, 2;
  mul.wide.u32 step, blocks, blockSize;
  shl.b64 step, step, 2;

nextFour:
  setp.ge.u64 done, index, count;
  @done bra finished;
  shl.b64 address, index, 1;
  add.u64 address, out, address;
  sub.u64 left, count, index;
  setp.lt.u64 partial, left, 4;
  @partial bra nextOne;

  call (value0), weight, (key, index, scale, offset);
  add.u64 index, index, 1;
  call (value1), weight, (key, index, scale, offset);
  add.u64 index, index, 1;
  call (value2), weight, (key, index, scale, offset);
  add.u64 index, index, 1;
  call (value3), weight, (key, index, scale, offset);
  sub.u64 index, index, 3;
  st.global.v4.b16 [address], {value0, value1, value2, value3};
  add.u64 index, index, step;
  bra nextFour;

  // The last one to three elements of the tensor.
nextOne:
  call (value0), weight, (key, index, scale, offset);
  st.global.b16 [address], value0;
  add.u64 address, address, 2;
  add.u64 index, index, 1;
  setp.lt.u64 partial, index, count;
  @partial bra nextOne;

finished:
  ret;
}
)ptx";

} // namespace llama

#endif // KILN_EXAMPLES_LLAMA_RANDOMWEIGHTSPTX_H
