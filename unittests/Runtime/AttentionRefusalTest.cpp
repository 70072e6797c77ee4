// Faults of attention structs, and their messages.
#include "Runtime/AttentionArgs.h"
#include "Runtime/Breaks.h"

#include <limits>

using namespace kiln;
using namespace kiln::testing;

TEST_CASE("what is wrong with an attention is named") {
  RuntimeFixture fixture;
  kiln_engine *engine = fixture.engine();
  using Args = kiln_attention_args;
  constexpr kiln_status kInvalid = KILN_INVALID_ARGUMENT;
  constexpr kiln_status kUnsupported = KILN_UNSUPPORTED;
  const Break<Args> breaks[] = {
      {"size", [](Args &a) { a.struct_size = 16; }, kInvalid,
       "kiln_attention_args: struct_size is 16"},
      {"reserved", [](Args &a) { a.reserved[3] = 1; }, kUnsupported,
       "a reserved field is set"},
      {"flags", [](Args &a) { a.flags = 1024; }, kUnsupported,
       "flags 0x400 are unknown"},
      {"determinism", [](Args &a) { a.determinism = 20; }, kUnsupported,
       "determinism 20 is not available yet"},
      {"no type", [](Args &a) { a.q.type = 0; }, kInvalid,
       "q.type is required"},
      {"fp32", [](Args &a) { a.q.type = KILN_FP32; }, kUnsupported,
       "q.type 0x2001: bf16, fp16 and e4m3 are supported"},
      {"k's type", [](Args &a) { a.k.type = KILN_FP16; }, kUnsupported,
       "k.type=fp16"},
      {"v's type", [](Args &a) { a.v.type = KILN_E4M3; }, kUnsupported,
       "v.type 0x801 is not that of"},
      {"o's type", [](Args &a) { a.o.type = KILN_FP16; }, kUnsupported,
       "o.type=fp16"},
      {"negative", [](Args &a) { a.queries = -1; }, kInvalid, "queries is -1"},
      {"keys", [](Args &a) { a.keys = INT32_MAX; }, kUnsupported,
       "keys is 2147483647, at most 2147418111 works"},
      {"heads", [](Args &a) { a.heads = 0; }, kInvalid, "heads is 0"},
      {"groups", [](Args &a) { a.kv_heads = 3; }, kInvalid,
       "heads=4 is no multiple of kv_heads=3"},
      {"head_dim", [](Args &a) { a.head_dim = 577; }, kUnsupported,
       "head_dim is 577, at most 576 works"},
      {"mask", [](Args &a) { a.mask = 30; }, kUnsupported,
       "mask 30 is unknown"},
      {"window without its mask", [](Args &a) { a.left = 128; }, kInvalid,
       "left is 128 and right is 0, without KILN_ATTENTION_MASK_WINDOW"},
      {"left",
       [](Args &a) {
         a.mask = KILN_ATTENTION_MASK_WINDOW;
         a.left = -2;
       },
       kInvalid, "left is -2"},
      {"scale", [](Args &a) { a.scale = -1; }, kInvalid, "scale is -1"},
      {"softcap",
       [](Args &a) { a.softcap = std::numeric_limits<double>::infinity(); },
       kInvalid, "softcap is inf"},
      {"no k", [](Args &a) { a.k.data = nullptr; }, kInvalid, "k.data is null"},
      {"odd v", [](Args &a) { a.v.data = address(0x300001); }, kInvalid,
       "v.data 0x300001 is not aligned to 2 bytes"},
      {"short row", [](Args &a) { a.k.token_stride = 20; }, kInvalid,
       "k.token_stride=20 is below the row length 22"},
      {"negative stride", [](Args &a) { a.o.head_stride = -1; }, kInvalid,
       "o.head_stride is -1"},
      {"heads overlap", [](Args &a) { a.o.head_stride = 20; }, kInvalid,
       "o.head_stride=20 is below"},
      {"o is q", [](Args &a) { a.o.data = a.q.data; }, kInvalid,
       "o overlaps q"},
      {"lse is o", [](Args &a) { a.lse = static_cast<float *>(a.o.data); },
       kInvalid, "overlaps"},
      {"lse", [](Args &a) { a.flags = KILN_ATTENTION_HAS_LSE; }, kInvalid,
       "lse is null"},
      {"odd lengths", [](Args &a) { a.key_lengths = integers(0x500002); },
       kInvalid, "key_lengths 0x500002 is not aligned to 4 bytes"},
      {"two lengths",
       [](Args &a) {
         a.key_offsets = integers(0x500000);
         a.key_lengths = integers(0x600000);
       },
       kInvalid, "key_offsets and key_lengths are both given"},
      {"total", [](Args &a) { a.total_queries = 9; }, kInvalid,
       "total_queries is 9, without query_offsets"},
      {"page_size without pages", [](Args &a) { a.page_size = 16; }, kInvalid,
       "page_size is 16, page_count 0 and page_table_columns 0, without "
       "page_table"},
      {"pages without a size",
       [](Args &a) { a.page_table = integers(0x500000); }, kInvalid,
       "page_size is 0"},
      {"a list without pages",
       [](Args &a) { a.page_offsets = integers(0x500000); }, kInvalid,
       "page_offsets are given, without page_table"},
      {"few columns",
       [](Args &a) {
         a.page_table = integers(0x500000);
         a.page_size = 16;
         a.page_table_columns = 4;
       },
       kInvalid, "page_table_columns=4 is below the 5 pages of keys=70"},
      {"packed pages",
       [](Args &a) {
         a.page_table = integers(0x500000);
         a.page_size = 16;
         a.key_offsets = integers(0x600000);
       },
       kUnsupported, "give key_lengths"},
      {"a scale of bf16",
       [](Args &a) { a.k.scale = kiln_tensor_scale_init(address(0x500000)); },
       kUnsupported, "k.scale is given for type 0x1002: only e4m3 has scales"},
      {"one scale of two",
       [](Args &a) {
         a.k.type = KILN_E4M3;
         a.k.scale = kiln_tensor_scale_init(address(0x500000));
       },
       kInvalid,
       "v.scale.granularity is none: type 0x801 needs a scale of each operand"},
      {"a scale of o",
       [](Args &a) { a.o.scale = kiln_tensor_scale_init(address(0x500000)); },
       kUnsupported, "o.scale is not available yet"},
      {"a scale without a granularity",
       [](Args &a) { a.q.scale.data = address(0x500000); }, kInvalid,
       "set q.scale.granularity"},
      {"scales of rows",
       [](Args &a) {
         a.k.type = KILN_E4M3;
         a.k.scale = a.v.scale = kiln_row_scales_init(address(0x500000));
       },
       kUnsupported, "k.scale: granularity 10"},
  };
  checkBreaks(engine, attentionArgs(), kiln_attention, breaks);
}
