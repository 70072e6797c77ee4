//===- AttentionArgs.h - attentions that tests launch ---------------------===//
#pragma once

#include "Runtime/RuntimeFixture.h"

namespace kiln::testing {

/// 2 sequences of 5 queries and 70 keys, 4 heads over 2.
inline kiln_attention_args attentionArgs() {
  kiln_attention_args args = kiln_attention_args_init();
  args.batch = 2;
  args.queries = 5;
  args.keys = 70;
  args.heads = 4;
  args.kv_heads = 2;
  args.head_dim = 22;
  args.q.type = KILN_BF16;
  args.q.data = address(0x100000);
  args.k.data = address(0x200000);
  args.v.data = address(0x300000);
  args.o.data = address(0x400000);
  return args;
}

inline const int32_t *integers(uintptr_t where) {
  return static_cast<const int32_t *>(address(where));
}
inline const float *floats(uintptr_t where) {
  return static_cast<const float *>(address(where));
}

inline kiln_status launch(kiln_engine *engine, const kiln_attention_args &args,
                          kiln_stream stream = nullptr) {
  return kiln_attention(engine, &args, nullptr, stream);
}

inline kiln_problem problemOf(const kiln_attention_args &args) {
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.family = KILN_FAMILY_ATTENTION;
  problem.args = &args;
  return problem;
}

} // namespace kiln::testing
