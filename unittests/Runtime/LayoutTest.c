/* Sizes and offsets of the structs of the C interface on 64-bit targets, as a C
   compiler lays them out and callers were built with them. A change breaks
   callers; growth goes into reserved space or, for structs that are in no
   other, to the end, with the first version's size kept in StructAccess.h. */
#include "kiln/kiln.h"

#include <stddef.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, offset)                                                \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field)

SIZE(kiln_scale, 88);
AT(kiln_scale, data, 8);
AT(kiln_scale, granularity, 16);
AT(kiln_scale, row_stride, 32);
SIZE(kiln_operand, 72);
AT(kiln_operand, data, 8);
AT(kiln_operand, leading_dim, 16);
AT(kiln_operand, alignment, 32);
AT(kiln_operand, scale, 40);
SIZE(kiln_pointwise, 112);
AT(kiln_pointwise, operand, 8);
AT(kiln_pointwise, params, 80);

SIZE(kiln_gemm_args, 472);
AT(kiln_gemm_args, m, 8);
AT(kiln_gemm_args, alpha, 40);
AT(kiln_gemm_args, a, 72);
AT(kiln_gemm_args, pointwise, 360);
AT(kiln_gemm_args, groups, 408);
AT(kiln_gemm_args, column_sums_b, 424);
AT(kiln_gemm_args, reserved, 432);
SIZE(kiln_groups, 64);
AT(kiln_groups, sizes, 8);
AT(kiln_groups, reserved, 32);
SIZE(kiln_row_map, 56);
AT(kiln_row_map, index, 8);
AT(kiln_row_map, reserved, 32);

SIZE(kiln_elementwise_args, 272);
AT(kiln_elementwise_args, rows, 8);
AT(kiln_elementwise_args, x, 24);
AT(kiln_elementwise_args, y, 96);
AT(kiln_elementwise_args, pointwise, 168);
AT(kiln_elementwise_args, pointwise_count, 176);
AT(kiln_elementwise_args, reserved, 208);

SIZE(kiln_reduce_args, 264);
AT(kiln_reduce_args, op, 4);
AT(kiln_reduce_args, axis, 8);
AT(kiln_reduce_args, rows, 16);
AT(kiln_reduce_args, x, 32);
AT(kiln_reduce_args, y, 104);
AT(kiln_reduce_args, reserved, 200);

SIZE(kiln_softmax_args, 344);
AT(kiln_softmax_args, mask_kind, 4);
AT(kiln_softmax_args, scale, 24);
AT(kiln_softmax_args, x, 32);
AT(kiln_softmax_args, y, 104);
AT(kiln_softmax_args, mask, 176);
AT(kiln_softmax_args, reserved, 280);

SIZE(kiln_norm_args, 552);
AT(kiln_norm_args, rows, 8);
AT(kiln_norm_args, epsilon, 24);
AT(kiln_norm_args, x, 32);
AT(kiln_norm_args, y, 104);
AT(kiln_norm_args, weight, 176);
AT(kiln_norm_args, bias, 248);
AT(kiln_norm_args, residual, 320);
AT(kiln_norm_args, residual_out, 392);
AT(kiln_norm_args, reserved, 488);

SIZE(kiln_quantize_args, 256);
AT(kiln_quantize_args, x, 24);
AT(kiln_quantize_args, y, 96);
AT(kiln_quantize_args, reserved, 192);

SIZE(kiln_transpose_args, 256);
AT(kiln_transpose_args, rows, 8);
AT(kiln_transpose_args, x, 24);
AT(kiln_transpose_args, y, 96);
AT(kiln_transpose_args, reserved, 192);

SIZE(kiln_prepack_args, 536);
AT(kiln_prepack_args, n, 8);
AT(kiln_prepack_args, source, 24);
AT(kiln_prepack_args, weights, 32);
AT(kiln_prepack_args, packed, 248);
AT(kiln_prepack_args, reserved, 472);
SIZE(kiln_prepack_layout, 72);
AT(kiln_prepack_layout, weight_bytes, 8);
AT(kiln_prepack_layout, groups, 32);
AT(kiln_prepack_layout, reserved, 40);

SIZE(kiln_heads_operand, 80);
AT(kiln_heads_operand, data, 8);
AT(kiln_heads_operand, token_stride, 16);
AT(kiln_heads_operand, alignment, 40);
AT(kiln_heads_operand, scale, 48);

SIZE(kiln_attention_args, 680);
AT(kiln_attention_args, batch, 8);
AT(kiln_attention_args, head_dim, 56);
AT(kiln_attention_args, left, 72);
AT(kiln_attention_args, scale, 88);
AT(kiln_attention_args, q, 104);
AT(kiln_attention_args, o, 344);
AT(kiln_attention_args, lse, 424);
AT(kiln_attention_args, page_offsets, 480);
AT(kiln_attention_args, page_size, 488);
AT(kiln_attention_args, split, 528);
AT(kiln_attention_args, flags, 544);
AT(kiln_attention_args, reserved, 552);

SIZE(kiln_attention_merge_args, 376);
AT(kiln_attention_merge_args, batch, 8);
AT(kiln_attention_merge_args, value_dim, 32);
AT(kiln_attention_merge_args, o1, 40);
AT(kiln_attention_merge_args, o, 200);
AT(kiln_attention_merge_args, lse1, 280);
AT(kiln_attention_merge_args, lse, 296);
AT(kiln_attention_merge_args, reserved, 312);

SIZE(kiln_engine_options, 272);
AT(kiln_engine_options, tune_budget_ms, 16);
AT(kiln_engine_options, cache_dir, 48);
AT(kiln_engine_options, log, 96);
AT(kiln_engine_options, trial_timeout_ms, 144);
AT(kiln_engine_options, background_permille, 152);
AT(kiln_engine_options, pool_limit_bytes, 160);
AT(kiln_engine_options, reserved, 168);

SIZE(kiln_range, 56);
SIZE(kiln_problem, 72);
SIZE(kiln_arguments, 72);
SIZE(kiln_workspace, 40);
SIZE(kiln_workspace_info, 40);

/* The initialisers, in C. */
int kilnInitialisersAreRight(void) {
  kiln_norm_args norm = kiln_norm_args_init();
  kiln_softmax_args softmax = kiln_softmax_args_init();
  kiln_scale scale = kiln_row_scales_init(&norm);
  kiln_attention_args attention = kiln_attention_args_init();
  kiln_attention_merge_args merge = kiln_attention_merge_args_init();
  kiln_scale tensorScale = kiln_tensor_scale_init(&norm);
  kiln_scale headScales = kiln_head_scales_init(&norm);
  return norm.struct_size == sizeof(norm) && norm.epsilon == 1e-5 &&
         softmax.struct_size == sizeof(softmax) && softmax.scale == 1.0 &&
         scale.struct_size == sizeof(scale) && scale.data == &norm &&
         scale.granularity == KILN_GRANULARITY_ROW &&
         attention.struct_size == sizeof(attention) && attention.batch == 1 &&
         merge.struct_size == sizeof(merge) && merge.batch == 1 &&
         tensorScale.struct_size == sizeof(tensorScale) &&
         tensorScale.data == &norm &&
         tensorScale.granularity == KILN_GRANULARITY_TENSOR &&
         headScales.data == &norm &&
         headScales.granularity == KILN_GRANULARITY_HEAD;
}
