// Random calls of kiln_rope, good and bad.
#pragma once

#include "kiln/kiln.h"

#include <cstdint>
#include <random>

namespace kiln::testing {

class RandomRope {
public:
  /// Valid until the next call.
  const kiln_rope_args *next(std::mt19937 &from) {
    random = &from;
    args = KILN_INIT(kiln_rope_args);
    nextAddress = 0x1000000;
    drawSizes();
    drawHeads();
    if (pick(0, 1, 1))
      drawCaches();
    drawTable();
    if (rare() && rare())
      addFault();
    return &args;
  }

private:
  int64_t pick(auto... values) {
    int64_t list[] = {static_cast<int64_t>(values)...};
    return list[(*random)() % (sizeof(list) / sizeof(*list))];
  }
  bool rare() { return (*random)() % 4 == 0; }
  void *address(int64_t offset = 0) {
    nextAddress += 0x1000000;
    return reinterpret_cast<void *>(nextAddress + uintptr_t(offset));
  }

  void drawSizes() {
    args.tokens = pick(1, 2, 5, 64, 0);
    args.heads = pick(1, 4, 8, 0);
    args.kv_heads = pick(1, 2, 4, 0);
    args.head_dim = pick(64, 72, 128);
    args.value_dim = pick(0, 0, args.head_dim, 64);
    args.rotary_dim = pick(0, 32, 64, 64);
    args.rotary_offset = pick(0, 0, 0, 8);
    args.style = static_cast<int32_t>(pick(0, 0, 10, 20, 5));
    args.epsilon = double(pick(0, 0, 1)) / 1024;
    args.flags = static_cast<uint32_t>(
        pick(0, 0, KILN_ROPE_INT64, KILN_ROPE_UNIT_OFFSET,
             KILN_ROPE_CONSTANT_ARRAYS, KILN_CALL_DEPENDENT));
    type = static_cast<int32_t>(pick(KILN_BF16, KILN_BF16, KILN_FP16));
  }

  void drawOperand(kiln_heads_operand &operand, int64_t heads, int64_t cols) {
    operand.type = type;
    operand.data = address(pick(0, 0, 0, 16, 8));
    if (rare())
      operand.token_stride = 3 * heads * cols;
    if (rare())
      operand.head_stride = cols + pick(0, 8);
  }

  void drawHeads() {
    const int64_t valueDim = args.value_dim ? args.value_dim : args.head_dim;
    drawOperand(args.q, args.heads, args.head_dim);
    drawOperand(args.k, args.kv_heads, args.head_dim);
    drawOperand(args.v, args.kv_heads, valueDim);
    if (pick(0, 1))
      drawOperand(args.q_out, args.heads, args.head_dim);
    if (pick(0, 1))
      drawOperand(args.k_out, args.kv_heads, args.head_dim);
    for (kiln_operand *weight : {&args.q_weight, &args.k_weight})
      if (rare()) {
        weight->type = type;
        weight->data = address();
      }
  }

  void drawCaches() {
    args.page_size = pick(1, 16, 16, 0);
    args.page_count = pick(4, 9);
    const int32_t stored = static_cast<int32_t>(pick(type, type, KILN_E4M3));
    const bool hasScales = stored == KILN_E4M3 && pick(0, 1);
    const bool isOfHead = rare();
    for (kiln_heads_operand *cache : {&args.k_cache, &args.v_cache}) {
      if (rare() && rare())
        continue;
      cache->type = stored;
      cache->data = address(pick(0, 0, 16));
      cache->batch_stride = pick(0, 0, 1 << 20);
      if (hasScales)
        cache->scale = isOfHead ? kiln_head_scales_init(address())
                                : kiln_tensor_scale_init(address());
    }
    if (pick(0, 1)) {
      args.slots = address(pick(0, 0, 8, 4));
      return;
    }
    args.page_table = static_cast<int32_t *>(address());
    args.page_table_columns = pick(1, 7);
    args.page_table_rows = pick(0, 3, args.tokens);
    if (rare() && (args.page_table_rows > 0 || rare()))
      args.sequences = static_cast<int32_t *>(address());
  }

  void drawTable() {
    args.positions = address(pick(0, 0, 8, 4));
    if (args.rotary_dim == 0 && pick(0, 1, 1))
      return;
    args.table.type = static_cast<int32_t>(pick(0, KILN_FP32, type));
    args.table.data = address();
    args.table.leading_dim = pick(0, 0, args.rotary_dim);
    if (rare() && rare())
      args.table.leading_dim = 100;
    args.table_rows = rare() && rare() ? 0 : pick(1, 100, args.tokens + 1);
  }

  void addFault() {
    switch (pick(0, 1, 2, 3, 4, 5)) {
    case 0:
      args.q.batch_stride = 64;
      break;
    case 1:
      args.rotary_dim = 31;
      break;
    case 2:
      args.slots = address();
      break;
    case 3:
      args.k_cache.data = args.q.data;
      break;
    case 4:
      args.reserved[0] = 1;
      break;
    default:
      args.page_count = -1;
    }
  }

  std::mt19937 *random = nullptr;
  kiln_rope_args args;
  int32_t type = KILN_BF16;
  uintptr_t nextAddress = 0;
};

} // namespace kiln::testing
