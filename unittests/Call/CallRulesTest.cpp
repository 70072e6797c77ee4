// Rules of single families' structs that no canonical form can check: types
// that are given once, scales, operands that are not read, sizes of tables.
#include "Call/CallChecks.h"

#include "Call/Visit.h"
#include "Families/Families.h"

#include <doctest/doctest.h>

#include <string>

using namespace kiln;
using namespace kiln::testing;

namespace {
/// A transposition whose result is fp32, whatever x is.
struct FixedTypeVisit {
  using Args = kiln_transpose_args;
  static constexpr int kFields = 6;
  static constexpr int kOperands = 2;

  template <class Visitor> static void visit(const Args &args, Visitor &v) {
    if (!v.begin(args, "kiln_transpose_args"))
      return;
    v.isEmpty(false);
    v.operand({.name = "y",
               .given = args.y,
               .index = 1,
               .type = KILN_FP32,
               .rowLength = 1,
               .isWritten = true});
  }
};
} // namespace

TEST_CASE("an operand of one type only names it") {
  const Registry registry = makeBuiltinRegistry();
  constexpr CallReader kReader =
      makeCallReader<FixedTypeVisit>(KILN_FAMILY_TRANSPOSE);
  kiln_transpose_args args = KILN_INIT(kiln_transpose_args);
  args.y.data = reinterpret_cast<void *>(0x1000000);
  auto message = [&](kiln_dtype type) {
    args.y.type = type;
    FamilyCall call;
    FieldNames names;
    return summarize(
               kReader.explain(&args, CallAddresses::Used,
                               registry.find("transpose2d")->problemSchema(),
                               call, names))
        .message;
  };
  CHECK(message(KILN_DTYPE_NONE) == "");
  CHECK(message(KILN_FP32) == "");
  CHECK(message(KILN_INT32) == "y.type 0x2011: fp32 is the only one");
}

TEST_CASE("scales without a granularity have no field set") {
  const Registry registry = makeBuiltinRegistry();
  auto *data = reinterpret_cast<void *>(0x1000000);
  // Launched and described, the struct is refused with the message, or works.
  auto check = [&](const char *family, const auto &args,
                   llvm::StringRef message) {
    CAPTURE(family);
    const CheckedCall checked(*registry.find(family), &args);
    CHECK(checked.isRead == message.empty());
    CHECK(checked.message == message);
    FamilyCall call;
    auto described = readProblem(*registry.find(family), &args,
                                 CallAddresses::Ignored, call);
    CHECK(summarize(described.takeError()).message == message);
  };
  auto each = [&](const char *family, const auto &args, kiln_scale &scale,
                  const std::string &name) {
    check(family, args, "");
    auto with = [&](auto kiln_scale::*field, auto value,
                    const std::string &message) {
      scale = {};
      scale.*field = value;
      check(family, args, name + message);
      scale = {};
    };
    const std::string fix = " without a granularity: set " + name +
                            ".granularity for it to be used";
    with(&kiln_scale::data, data, ".data is 0x1000000" + fix);
    with(&kiln_scale::type, KILN_FP32, ".type is 0x2001" + fix);
    with(&kiln_scale::block_rows, 1, ".block_rows is 1" + fix);
    with(&kiln_scale::block_columns, 128, ".block_columns is 128" + fix);
    with(&kiln_scale::row_stride, 4, ".row_stride is 4" + fix);
    with(&kiln_scale::column_stride, 4, ".column_stride is 4" + fix);
    with(&kiln_scale::batch_stride, 4, ".batch_stride is 4" + fix);
    with(&kiln_scale::reserved0, 1u, ": a reserved field is set");
    with(&kiln_scale::struct_size, 8u, ".struct_size is 8, 72 or 0 is needed");
    scale.reserved[1] = 1;
    check(family, args, name + ": a reserved field is set");
    scale = {};
  };
  kiln_gemm_scales scales = KILN_INIT(kiln_gemm_scales);
  kiln_gemm_args gemm = kiln_gemm_args_init();
  gemm.m = gemm.n = gemm.k = 64;
  gemm.a.type = KILN_E4M3;
  gemm.a.data = gemm.b.data = data;
  gemm.d.data = reinterpret_cast<void *>(0x3000000);
  gemm.scales = &scales;
  each("gemm", gemm, scales.a, "scales.a");
  each("gemm", gemm, scales.b, "scales.b");
  kiln_attention_args attention = kiln_attention_args_init();
  attention.queries = attention.keys = 64;
  attention.heads = 2, attention.head_dim = 64;
  attention.q.type = KILN_E4M3;
  attention.q.data = attention.k.data = data;
  attention.v.data = reinterpret_cast<void *>(0x2000000);
  attention.o.data = gemm.d.data;
  each("attention", attention, attention.k.scale, "k.scale");
  kiln_norm_args norm = kiln_norm_args_init();
  norm.rows = norm.cols = 64;
  norm.x.type = KILN_BF16;
  norm.x.data = norm.y.data = data;
  each("rmsnorm", norm, norm.y_scale, "y_scale");
  kiln_elementwise_args elementwise = KILN_INIT(kiln_elementwise_args);
  elementwise.rows = elementwise.cols = 64;
  elementwise.x.type = KILN_BF16;
  elementwise.x.data = elementwise.y.data = data;
  each("elementwise", elementwise, elementwise.y_scale, "y_scale");
  attention.o.scale.type = KILN_FP32;
  check("attention", attention, "o.scale is not available yet");
}

TEST_CASE("an operand that is not read has no unknown byte set") {
  const Registry registry = makeBuiltinRegistry();
  auto *data = reinterpret_cast<void *>(0x1000000);
  auto *result = reinterpret_cast<void *>(0x3000000);
  auto check = [&](const char *family, const auto &args, auto &operand,
                   const std::string &name) {
    CAPTURE(family);
    auto message = [&] {
      const CheckedCall checked(*registry.find(family), &args);
      CHECK(checked.isRead == checked.message.empty());
      return checked.message;
    };
    operand.batch_stride = 3; // a field that is ignored
    CHECK(message() == "");
    operand.reserved[1] = 1;
    CHECK(message() == name + ": a reserved field is set");
    operand.reserved[1] = 0;
    operand.flags = 2;
    CHECK(message() == name + ".flags 0x2 are unknown");
    operand.flags = 0;
    operand.struct_size = 8;
    CHECK(message() == name + ".struct_size is 8, " +
                           std::to_string(sizeof(operand)) + " or 0 is needed");
    operand = {};
  };
  kiln_gemm_args gemm = kiln_gemm_args_init();
  gemm.m = gemm.n = gemm.k = 64;
  gemm.a.type = KILN_BF16;
  gemm.a.data = gemm.b.data = data;
  gemm.d.data = result;
  check("gemm", gemm, gemm.c, "c");
  kiln_pointwise links[] = {KILN_INIT(kiln_pointwise),
                            KILN_INIT(kiln_pointwise)};
  links[1].op = KILN_POINTWISE_RELU;
  gemm.pointwise = links, gemm.pointwise_count = 2;
  check("gemm", gemm, links[0].operand, "pointwise[0].operand");
  check("gemm", gemm, links[1].operand, "pointwise[1].operand");
  kiln_elementwise_args elementwise = KILN_INIT(kiln_elementwise_args);
  elementwise.rows = elementwise.cols = 64;
  elementwise.x.type = KILN_BF16;
  elementwise.x.data = data, elementwise.y.data = result;
  elementwise.pointwise = links, elementwise.pointwise_count = 2;
  check("elementwise", elementwise, links[1].operand, "pointwise[1].operand");
  kiln_softmax_args softmax = kiln_softmax_args_init();
  softmax.rows = softmax.cols = 64;
  softmax.x.type = KILN_BF16;
  softmax.x.data = data, softmax.y.data = result;
  check("softmax", softmax, softmax.mask, "mask");
  kiln_norm_args norm = kiln_norm_args_init();
  norm.rows = norm.cols = 64;
  norm.x.type = KILN_BF16;
  norm.x.data = data, norm.y.data = result;
  check("rmsnorm", norm, norm.bias, "bias");
  kiln_attention_args attention = kiln_attention_args_init();
  attention.queries = attention.keys = attention.head_dim = 64;
  attention.heads = 2;
  attention.q.type = KILN_BF16;
  attention.q.data = attention.k.data = data, attention.o.data = result;
  attention.flags = KILN_ATTENTION_LATENT;
  check("attention", attention, attention.v, "v");
}

TEST_CASE("a dependent merge writes logarithms only where it is told to") {
  const Registry registry = makeBuiltinRegistry();
  kiln_attention_merge_args merge = kiln_attention_merge_args_init();
  merge.queries = merge.heads = 2, merge.value_dim = 64;
  merge.o1.type = merge.o2.type = KILN_BF16;
  merge.o1.data = reinterpret_cast<void *>(0x1000000);
  merge.o2.data = reinterpret_cast<void *>(0x2000000);
  merge.o.data = reinterpret_cast<void *>(0x3000000);
  merge.lse1 = reinterpret_cast<float *>(0x4000000);
  merge.lse2 = reinterpret_cast<float *>(0x5000000);
  merge.flags = KILN_CALL_DEPENDENT;
  const CheckedCall checked(*registry.find("attention_merge"), &merge);
  CHECK(checked.message == "");
  CHECK(checked.call.arguments.operands[KILN_ATTENTION_MERGE_LSE].address == 0);
}

TEST_CASE("latent values have the scales of their keys") {
  const Registry registry = makeBuiltinRegistry();
  auto *k = reinterpret_cast<float *>(0x1000000);
  auto *v = reinterpret_cast<float *>(0x2000000);
  kiln_attention_args args = kiln_attention_args_init();
  args.queries = 1, args.keys = 64, args.heads = 16, args.kv_heads = 1;
  args.head_dim = 576, args.value_dim = 512;
  args.q.type = KILN_BF16, args.k.type = KILN_E4M3;
  args.q.data = args.k.data = reinterpret_cast<void *>(0x3000000);
  args.o.data = reinterpret_cast<void *>(0x4000000);
  args.k.scale = kiln_tensor_scale_init(k);
  args.flags = KILN_ATTENTION_LATENT;
  auto scaleOfValues = [&] {
    const CheckedCall checked(*registry.find("attention"), &args);
    CHECK(checked.message == "");
    return checked.call.arguments.operands[KILN_ATTENTION_V_SCALE].address;
  };
  CHECK(scaleOfValues() == reinterpret_cast<uintptr_t>(k));
  args.v.scale = kiln_tensor_scale_init(v);
  CHECK(scaleOfValues() == reinterpret_cast<uintptr_t>(v));
}

TEST_CASE("the tables of a rope say how large they are") {
  const Registry registry = makeBuiltinRegistry();
  auto *data = reinterpret_cast<void *>(0x1000000);
  kiln_rope_args args = KILN_INIT(kiln_rope_args);
  args.tokens = 8, args.heads = args.kv_heads = 1;
  args.head_dim = args.rotary_dim = 64;
  args.q.type = args.k.type = args.k_cache.type = KILN_BF16;
  args.q.data = reinterpret_cast<void *>(0x2000000);
  args.k.data = reinterpret_cast<void *>(0x3000000);
  args.k_cache.data = reinterpret_cast<void *>(0x4000000);
  args.page_size = args.page_count = 16;
  args.page_table_rows = args.page_table_columns = 2;
  args.positions = data;
  args.page_table = args.sequences = static_cast<int32_t *>(data);
  args.table.data = data;
  args.table_rows = 32;
  auto message = [&] {
    return CheckedCall(*registry.find("rope"), &args).message;
  };
  CHECK(message() == "");
  args.table.leading_dim = 64;
  CHECK(message() == "");
  args.table.leading_dim = 128;
  CHECK(message() ==
        "table.leading_dim is 128, rotary_dim 64: tables are packed");
  args.table.leading_dim = 0;
  args.table_rows = 0;
  CHECK(message() == "table_rows is 0: the table has one position at least");
  args.table_rows = 32;
  args.page_table_rows = 0;
  CHECK(message() == "page_table_rows is 0, with sequences: it says how many "
                     "sequences there are");
  args.sequences = nullptr;
  CHECK(message() == "");
}
