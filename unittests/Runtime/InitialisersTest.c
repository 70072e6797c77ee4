/* The initialisers of the C interface, in C. */
#include "kiln/kiln.h"

static kiln_status enqueueNothing(void *user, kiln_stream stream) {
  (void)stream;
  ++*(int *)user;
  return KILN_SUCCESS;
}

int kilnTimesInC(kiln_engine *engine) {
  int calls = 0;
  kiln_timing_options options = KILN_INIT(kiln_timing_options);
  kiln_timing timing = KILN_INIT(kiln_timing);
  options.calls_per_trial = 2;
  options.trials = 3;
  options.time_limit_ms = 60000; // all trials, also on a busy machine
  return kiln_time_calls(engine, enqueueNothing, &calls, NULL, &options,
                         &timing) == KILN_SUCCESS &&
         calls == 3 + 3 * 3 && timing.calls == (uint64_t)calls;
}

int kilnInitialisersAreRight(void) {
  kiln_gemm_args gemm = kiln_gemm_args_init();
  kiln_norm_args norm = kiln_norm_args_init();
  kiln_softmax_args softmax = kiln_softmax_args_init();
  kiln_scale scale = kiln_row_scales_init(&norm);
  kiln_attention_args attention = kiln_attention_args_init();
  kiln_attention_merge_args merge = kiln_attention_merge_args_init();
  kiln_scale tensorScale = kiln_tensor_scale_init(&norm);
  kiln_scale headScales = kiln_head_scales_init(&norm);
  return gemm.struct_size == sizeof(gemm) && gemm.batch == 1 &&
         gemm.alpha == 1.0 && norm.struct_size == sizeof(norm) &&
         norm.epsilon == 1e-5 && softmax.struct_size == sizeof(softmax) &&
         softmax.scale == 1.0 && scale.struct_size == sizeof(scale) &&
         scale.data == &norm && scale.granularity == KILN_GRANULARITY_ROW &&
         attention.struct_size == sizeof(attention) && attention.batch == 1 &&
         merge.struct_size == sizeof(merge) && merge.batch == 1 &&
         tensorScale.struct_size == sizeof(tensorScale) &&
         tensorScale.data == &norm &&
         tensorScale.granularity == KILN_GRANULARITY_TENSOR &&
         headScales.data == &norm &&
         headScales.granularity == KILN_GRANULARITY_HEAD;
}
