/* Uses the installed C interface, as far as that works without a GPU. */
#include <kiln/kiln.h>

#include <stdio.h>
#include <string.h>

static int check(int condition, const char *what) {
  if (!condition)
    fprintf(stderr, "consumer: %s: %s\n", what, kiln_last_error_message());
  return condition ? 0 : 1;
}

int main(void) {
  int failures = 0;
  failures += check(kiln_abi_version() == KILN_ABI_VERSION, "ABI version");
  failures += check(strlen(kiln_version_string()) > 0, "version");

  /* A call that fails on any machine, with an error message. */
  kiln_gemm_args args = kiln_gemm_args_init();
  kiln_status status = kiln_gemm(NULL, &args, NULL, NULL);
  failures += check(status == KILN_INVALID_ARGUMENT, "null engine");
  failures += check(strlen(kiln_last_error_message()) > 0, "message");
  failures += check(!strcmp(kiln_status_name(status), "invalid-argument"),
                    "name of the status");

  /* Every family's call is there. */
  kiln_norm_args norm = kiln_norm_args_init();
  kiln_softmax_args softmax = kiln_softmax_args_init();
  kiln_elementwise_args elementwise = KILN_INIT(kiln_elementwise_args);
  kiln_reduce_args reduce = KILN_INIT(kiln_reduce_args);
  kiln_quantize_args quantize = KILN_INIT(kiln_quantize_args);
  kiln_transpose_args transpose = KILN_INIT(kiln_transpose_args);
  kiln_prepack_args prepack = KILN_INIT(kiln_prepack_args);
  kiln_attention_args attention = kiln_attention_args_init();
  kiln_attention_merge_args merge = kiln_attention_merge_args_init();
  kiln_rope_args rope = KILN_INIT(kiln_rope_args);
  kiln_gather_args gather = kiln_gather_args_init();
  kiln_sample_args sample = kiln_sample_args_init();
  kiln_route_args route = kiln_route_args_init();
  kiln_combine_args combine = kiln_combine_args_init();
  kiln_allreduce_args allReduce = kiln_allreduce_args_init();
  kiln_status refusals[] = {kiln_attention(NULL, &attention, NULL, NULL),
                            kiln_attention_merge(NULL, &merge, NULL, NULL),
                            kiln_rms_norm(NULL, &norm, NULL, NULL),
                            kiln_layer_norm(NULL, &norm, NULL, NULL),
                            kiln_softmax(NULL, &softmax, NULL, NULL),
                            kiln_elementwise(NULL, &elementwise, NULL, NULL),
                            kiln_reduce(NULL, &reduce, NULL, NULL),
                            kiln_quantize(NULL, &quantize, NULL, NULL),
                            kiln_transpose(NULL, &transpose, NULL, NULL),
                            kiln_rope(NULL, &rope, NULL, NULL),
                            kiln_gather(NULL, &gather, NULL, NULL),
                            kiln_sample(NULL, &sample, NULL, NULL),
                            kiln_route(NULL, &route, NULL, NULL),
                            kiln_combine(NULL, &combine, NULL, NULL),
                            kiln_allreduce(NULL, &allReduce, NULL, NULL),
                            kiln_prepack(NULL, &prepack, NULL, NULL)};
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i)
    failures += check(refusals[i] == KILN_INVALID_ARGUMENT, "null engine");

  /* These functions work without an engine. */
  kiln_prepack_layout layout = KILN_INIT(kiln_prepack_layout);
  prepack.n = prepack.k = 64;
  prepack.source = KILN_WEIGHTS_AWQ;
  failures += check(kiln_prepack_query(&prepack, &layout) == KILN_SUCCESS &&
                        layout.weight_bytes == 2048,
                    "layout of packed weights");

  /* Nor does planning for a device that is named. */
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  options.flags = KILN_ENGINE_IGNORE_ENVIRONMENT | KILN_ENGINE_MEMORY_ONLY;
  options.device_model = "h200-sxm";
  kiln_engine *engine = NULL;
  kiln_problem problem = KILN_INIT(kiln_problem);
  problem.text = "gemm m=64 n=256 k=512 dtype=bf16 layout=NT";
  kiln_candidate candidates[2] = {KILN_INIT(kiln_candidate)};
  kiln_explain_options asJson = KILN_INIT(kiln_explain_options);
  asJson.format = KILN_TEXT_JSON;
  asJson.config = candidates[1].config;
  size_t count = 0;
  failures +=
      check(kiln_engine_create(&options, &engine) == KILN_SUCCESS &&
                kiln_candidates(engine, &problem, NULL, NULL, candidates, 2,
                                &count) == KILN_SUCCESS &&
                count > 2 && candidates[1].rank == 2,
            "candidates");
  failures += check(kiln_explain(engine, &problem, NULL, &asJson, NULL, 0,
                                 &count) == KILN_SUCCESS &&
                        count > 0,
                    "explanation");
  kiln_engine_destroy(engine);
  return failures;
}
