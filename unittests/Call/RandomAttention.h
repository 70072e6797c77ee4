// Random calls of kiln_attention and kiln_attention_merge, good and bad.
#pragma once

#include "kiln/kiln.h"

#include <cstdint>
#include <random>

namespace kiln::testing {

class RandomAttention {
public:
  RandomAttention() = default;
  RandomAttention(const RandomAttention &) = delete;

  /// Valid until the next call.
  const kiln_attention_args *next(std::mt19937 &from) {
    random = &from;
    args = kiln_attention_args_init();
    nextAddress = 0x1000000;
    drawSizes();
    drawTensors();
    drawArrays();
    args.scale = double(pick(0, 0, 1, 2)) / 8;
    args.softcap = double(pick(0, 0, 30));
    for (int faults = rare() ? 2 : 0; faults > 0; --faults)
      addFault();
    return &args;
  }

  /// Random calls of a merge.
  const kiln_attention_merge_args *nextMerge(std::mt19937 &from) {
    random = &from;
    merge = kiln_attention_merge_args_init();
    nextAddress = 0x1000000;
    merge.batch = pick(1, 2, 3, 0);
    merge.queries = pick(1, 5, 64, 0);
    merge.heads = pick(1, 4);
    merge.value_dim = pick(64, 72, 21);
    merge.o1.type = static_cast<int32_t>(pick(KILN_BF16, KILN_FP16, KILN_FP32));
    merge.o2.type = static_cast<int32_t>(pick(0, merge.o1.type));
    merge.o.type = static_cast<int32_t>(pick(0, merge.o1.type, KILN_FP32));
    for (kiln_heads_operand *operand : {&merge.o1, &merge.o2, &merge.o})
      drawStrides(*operand, merge.heads, merge.value_dim, merge.queries);
    place(merge.lse1);
    place(merge.lse2);
    if (rare())
      place(merge.lse);
    if (rare()) // in place
      merge.o.data = merge.o1.data;
    if (rare())
      merge.lse = const_cast<float *>(pick(0, 1) ? merge.lse1 : merge.lse2);
    if (rare())
      addMergeFault();
    return &merge;
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
  template <class T> void place(T *&array) {
    array = static_cast<T *>(address(pick(0, 0, 4, 8)));
  }

  void drawSizes() {
    args.batch = pick(1, 1, 2, 3, 0);
    args.queries = pick(1, 1, 5, 64, 0);
    args.keys = pick(0, 1, 64, 65, 200);
    args.heads = pick(1, 4, 8, 8);
    args.kv_heads = pick(0, 1, args.heads, args.heads / 2);
    args.head_dim = pick(64, 72, 96, 128);
    args.value_dim = pick(0, 0, args.head_dim, 64);
    args.split = pick(0, 0, 64);
    args.mask = static_cast<int32_t>(pick(0, 10, 20, 20));
    if (args.mask == KILN_ATTENTION_MASK_WINDOW) {
      args.left = pick(-1, 0, 17);
      args.right = pick(-1, 0, 3);
    }
  }

  void drawStrides(kiln_heads_operand &operand, int64_t heads, int64_t cols,
                   int64_t tokens) {
    operand.data = address(pick(0, 0, 0, 0, 16, 8));
    operand.alignment = static_cast<uint32_t>(pick(0, 0, 0, 8));
    switch (pick(0, 0, 0, 1, 2, 3)) {
    case 1: // one of three in a packed tensor
      operand.token_stride = 3 * heads * cols;
      break;
    case 2: // heads before tokens
      operand.token_stride = cols;
      operand.head_stride = tokens * cols;
      break;
    case 3: // the meaning of 0, and gaps between sequences
      operand.token_stride = heads * cols;
      operand.head_stride = cols;
      operand.batch_stride = tokens * heads * cols + pick(0, 8);
      break;
    }
  }

  void drawTensors() {
    args.q.type =
        static_cast<int32_t>(pick(KILN_BF16, KILN_FP16, KILN_E4M3, KILN_BF16));
    args.k.type = static_cast<int32_t>(pick(0, args.q.type, KILN_E4M3));
    args.v.type = static_cast<int32_t>(pick(0, 0, args.k.type));
    args.o.type = args.q.type == KILN_E4M3
                      ? static_cast<int32_t>(pick(0, KILN_BF16, KILN_FP16))
                      : static_cast<int32_t>(pick(0, args.q.type));
    const int64_t kvHeads = args.kv_heads ? args.kv_heads : args.heads;
    const int64_t valueDim = args.value_dim ? args.value_dim : args.head_dim;
    drawStrides(args.q, args.heads, args.head_dim, args.queries);
    drawStrides(args.k, kvHeads, args.head_dim, args.keys);
    drawStrides(args.v, kvHeads, valueDim, args.keys);
    drawStrides(args.o, args.heads, valueDim, args.queries);
    for (kiln_heads_operand *operand : {&args.q, &args.k, &args.v})
      if (rare() && rare())
        operand->batch_stride = KILN_SHARED_STRIDE;
    if (rare() && rare())
      args.v = args.k;
    if (rare() && rare())
      args.flags |= KILN_ATTENTION_LATENT;
    if (rare())
      args.flags |= KILN_ATTENTION_CACHED_KEYS;
    const bool isNarrow = args.q.type == KILN_E4M3 || args.k.type == KILN_E4M3;
    if (!isNarrow || rare())
      return;
    const bool isOfHead = rare();
    for (kiln_heads_operand *operand : {&args.k, &args.v, &args.q}) {
      if (operand == &args.q && args.q.type != KILN_E4M3)
        continue;
      operand->scale = isOfHead ? kiln_head_scales_init(address())
                                : kiln_tensor_scale_init(address());
      operand->scale.type = static_cast<int32_t>(pick(0, KILN_FP32));
    }
  }

  void drawArrays() {
    if (rare())
      place(args.lse);
    if (rare())
      place(args.sinks);
    if (rare())
      place(args.alibi);
    if (rare()) {
      place(args.query_offsets);
      args.total_queries = pick(0, args.batch * args.queries, 77);
    }
    switch (pick(0, 0, 1, 2)) {
    case 1:
      place(args.key_offsets);
      args.total_keys = pick(0, args.batch * args.keys, 333);
      break;
    case 2:
      place(args.key_lengths);
      break;
    }
    args.keys_hint = pick(0, 0, 32, 1000);
    if (args.key_offsets || !rare())
      return;
    place(args.page_table);
    args.page_size = pick(16, 1, 64);
    args.page_count = pick(0, 1000);
    args.page_table_columns = pick(0, 0, 800);
    if (rare())
      place(args.page_offsets);
    for (kiln_heads_operand *operand : {&args.k, &args.v})
      operand->token_stride = operand->head_stride = operand->batch_stride = 0;
  }

  void addFault() {
    kiln_heads_operand *operands[] = {&args.q, &args.k, &args.v, &args.o};
    kiln_heads_operand &operand = *operands[(*random)() % 4];
    switch ((*random)() % 24) {
    case 0:
      args.flags = 1u << (*random)() % 11;
      break;
    case 1:
      args.determinism = 10;
      break;
    case 2:
      operand.scale.reserved0 = 1;
      break;
    case 3:
      args.reserved[7] = 1;
      break;
    case 4:
      args.queries = -1;
      break;
    case 5:
      args.kv_heads = 3;
      break;
    case 6:
      args.head_dim = pick(0, 577);
      break;
    case 7:
      // Without keys, K and V need not be given.
      (args.keys ? operand : args.q).data = nullptr;
      break;
    case 8:
      operand.data = address(1);
      break;
    case 9:
      operand.data = operands[(*random)() % 4]->data;
      break;
    case 10:
      operand.type = static_cast<int32_t>(pick(0, KILN_FP32, KILN_E4M3, 7));
      break;
    case 11:
      operand.token_stride = pick(-1, 1, int64_t(1) << 41, int64_t(1) << 62);
      break;
    case 12:
      operand.head_stride = pick(-1, 1, int64_t(1) << 41);
      break;
    case 13:
      operand.batch_stride = pick(-1, 1, int64_t(1) << 41);
      break;
    case 14:
      operand.scale = kiln_tensor_scale_init(address());
      break;
    case 15:
      operand.scale.granularity = static_cast<int32_t>(pick(0, 5, 10, 40));
      break;
    case 16:
      operand.scale.batch_stride = 1;
      break;
    case 17:
      args.scale = pick(-1, 0) ? -1 : 1e300;
      break;
    case 18:
      args.softcap = -1;
      break;
    case 19:
      args.mask = static_cast<int32_t>(pick(5, 30, -10));
      break;
    case 20:
      args.left = pick(-2, 3);
      break;
    case 21:
      args.page_table_columns = pick(1, -1);
      break;
    case 22:
      args.key_lengths = reinterpret_cast<const int32_t *>(0x7001);
      break;
    case 23:
      args.lse = static_cast<float *>(args.o.data);
      break;
    }
  }

  void addMergeFault() {
    kiln_heads_operand *operands[] = {&merge.o1, &merge.o2, &merge.o};
    kiln_heads_operand &operand = *operands[(*random)() % 3];
    switch ((*random)() % 8) {
    case 0:
      merge.flags = static_cast<uint32_t>(pick(1, 2, KILN_CALL_DEPENDENT));
      break;
    case 1:
      merge.reserved0 = 4;
      break;
    case 2:
      merge.lse1 = nullptr;
      break;
    case 3:
      operand.data = nullptr;
      break;
    case 4:
      operand.type = static_cast<int32_t>(pick(0, KILN_E4M3));
      break;
    case 5:
      operand.token_stride = pick(-1, 1, int64_t(1) << 62);
      break;
    case 6:
      operand.scale = kiln_tensor_scale_init(address());
      break;
    case 7:
      operand.data = operands[(*random)() % 3]->data;
      break;
    }
  }

  std::mt19937 *random = nullptr;
  uintptr_t nextAddress = 0;
  kiln_attention_args args;
  kiln_attention_merge_args merge;
};

} // namespace kiln::testing
