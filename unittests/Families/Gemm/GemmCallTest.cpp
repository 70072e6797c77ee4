// The dispatch path's reading of a kiln_gemm_args, compared with the family's
// own canonical form.
#include "Families/Gemm/GemmCall.h"

#include "Call/CallChecks.h"
#include "Families/Families.h"
#include "Families/Gemm/GemmTemplate.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

using namespace kiln;
using namespace kiln::testing;

namespace {

/// A random call, valid or not.
struct RandomCall {
  kiln_gemm_args args = kiln_gemm_args_init();
  kiln_pointwise chain[KILN_MAX_POINTWISE];
  kiln_scale zero = KILN_INIT(kiln_scale);
  kiln_scale scales[3] = {KILN_INIT(kiln_scale), KILN_INIT(kiln_scale),
                          KILN_INIT(kiln_scale)};
  kiln_groups groups = KILN_INIT(kiln_groups);
  kiln_row_map map = KILN_INIT(kiln_row_map);
  /// Memory of the caller behind the last struct, for a struct_size that is
  /// larger than this version's.
  char later[400] = {};

  bool joins() const {
    for (uint32_t i = 0; i < args.pointwise_count; ++i)
      if (chain[i].op == KILN_POINTWISE_SWIGLU)
        return true;
    return false;
  }

  explicit RandomCall(std::mt19937 &random) {
    auto pick = [&](auto... values) {
      int64_t list[] = {static_cast<int64_t>(values)...};
      return list[random() % (sizeof(list) / sizeof(*list))];
    };
    auto place = [&](kiln_operand &operand, int64_t packed) {
      operand.data = reinterpret_cast<void *>(
          0x1000000 * (1 + random() % 4096) + pick(0, 0, 2, 4, 8, 16));
      operand.leading_dim =
          pick(0, 0, 0, packed, packed + 1, packed + 8, packed - 1);
      operand.batch_stride = pick(0, 1, 4096, 100000);
      operand.alignment = static_cast<uint32_t>(pick(0, 0, 0, 4, 16));
    };
    args.m = pick(1, 3, 64, 100);
    args.n = pick(1, 8, 96, 96);
    args.k = pick(0, 1, 32, 50);
    args.batch = pick(1, 1, 2, 5);
    args.alpha = double(pick(0, 1, -2));
    args.beta = double(pick(0, 0, 1, 3));
    args.layout = static_cast<int32_t>(pick(0, 10, 20, 30));
    args.a.type = static_cast<int32_t>(pick(KILN_BF16, KILN_FP16, KILN_FP32));
    const bool isByte = random() % 4 == 0;
    if (isByte) {
      args.a.type = static_cast<int32_t>(
          pick(KILN_E4M3, KILN_E4M3, KILN_E5M2, KILN_INT8));
      args.k = pick(1, 50, 128, 300);
    }
    args.d.type =
        static_cast<int32_t>(isByte ? pick(0, 0, KILN_FP16, KILN_FP32)
                                    : pick(0, 0, KILN_FP32, args.a.type));
    args.compute = static_cast<int32_t>(
        pick(0, 0, 0, isByte ? KILN_COMPUTE_FAST_FP8 : KILN_COMPUTE_TF32));
    auto layout = static_cast<Layout>(args.layout);
    if (isByte) {
      args.b.type = static_cast<int32_t>(pick(0, 0, KILN_E5M2));
      setScales(random);
      if (args.a.type == KILN_INT8 || random() % 16 == 0)
        setZeroPoints(random);
    }
    place(args.a, isTransposedA(layout) ? args.m : args.k);
    place(args.b, isTransposedB(layout) ? args.k : args.n);
    place(args.c, args.n);
    place(args.d, args.n);
    args.pointwise = chain;
    args.pointwise_count = random() % 4;
    for (kiln_pointwise &link : chain) {
      link = KILN_INIT(kiln_pointwise);
      link.op = static_cast<int32_t>(pick(0, 10, 20, 30, 40, 50, 60, 120));
      place(link.operand, args.n);
    }
    if (joins())
      place(args.d, args.n / 2);
    if (random() % 5 == 0)
      setGroups(random);
    if (random() % 6 == 0)
      setScalesD(random);
  }

  /// Adds scales of an e4m3 D of all kinds, or of another type.
  void setScalesD(std::mt19937 &random) {
    kiln_scale &scale = scales[2];
    scale.data = reinterpret_cast<void *>(0x50000000 + random() % 64 * 4);
    scale.granularity = int32_t(random() % 4) * 10;
    if (scale.granularity == KILN_GRANULARITY_COLUMN)
      scale.granularity = KILN_GRANULARITY_ROW;
    if (scale.granularity == KILN_GRANULARITY_BLOCK) {
      scale.block_rows = random() % 8 ? 1 : 128;
      scale.block_columns = 128;
      if (random() % 2) {
        scale.row_stride = 1;
        scale.column_stride = args.m + int64_t(random() % 3) - 1;
      } else
        scale.row_stride = int64_t(random() % 3);
    }
    if (args.batch > 1 && random() % 4)
      scale.batch_stride = 50 << random() % 6;
    args.d.scale = &scale;
    if (random() % 8)
      args.d.type = KILN_E4M3;
    if (random() % 2) // often valid
      args.beta = 0;
  }

  /// Adds groups of both kinds, with or without the fields that belong to them.
  void setGroups(std::mt19937 &random) {
    args.groups = &groups;
    groups.kind = random() % 3 ? KILN_GROUPS_ENDS : KILN_GROUPS_MASKED;
    groups.sizes = reinterpret_cast<int32_t *>(0x20000000 + random() % 64 * 4);
    if (random() % 4 == 0)
      groups.align = 16;
    if (random() % 4 == 0)
      groups.room = args.m + int64_t(random() % 3);
    if (random() % 4 > 0) { // often valid
      args.beta = 0;
      args.layout = KILN_LAYOUT_NT;
      args.compute = 0;
      args.pointwise_count = 0;
      for (kiln_operand *operand : {&args.a, &args.d})
        operand->batch_stride = 0;
    }
    if (random() % 2)
      return;
    args.rows = &map;
    map.flags = random() % 8;
    if (map.flags & 3 || random() % 8 == 0)
      map.index = reinterpret_cast<int32_t *>(0x30000000);
    map.divisor = map.flags & 1 ? int64_t(random() % 3) : 0;
    if (map.flags & 4 || random() % 8 == 0)
      map.weights = reinterpret_cast<float *>(0x40000000);
  }

  /// Adds scales of all kinds, for rows and columns as stored or wrong ones.
  void setScales(std::mt19937 &random) {
    kiln_operand *operands[] = {&args.a, &args.b};
    for (int i = 0; i < 2; ++i) {
      if (random() % 4 == 0)
        continue;
      kiln_scale &scale = scales[i];
      scale.data = reinterpret_cast<void *>(0x10000000 + random() % 64 * 4);
      scale.granularity = int32_t(random() % 4) * 10;
      scale.batch_stride = random() % 2 * 100;
      if (scale.granularity == KILN_GRANULARITY_BLOCK) {
        scale.block_rows = i == 0 ? 1 : 128;
        scale.block_columns = 128;
        int64_t other = int64_t(random() % 3) * 70;
        (random() % 2 ? scale.row_stride : scale.column_stride) = other;
        if (other && random() % 4)
          (scale.row_stride ? scale.column_stride : scale.row_stride) = 1;
      }
      operands[i]->scale = &scale;
    }
  }

  /// Adds zero points of A, for the tensor or for rows as stored, or wrong
  /// ones.
  void setZeroPoints(std::mt19937 &random) {
    if (random() % 3 == 0)
      return;
    zero.type = random() % 8 ? KILN_INT32 : KILN_FP32;
    zero.data = reinterpret_cast<void *>(0x20000000 + random() % 64 * 4);
    zero.granularity = int32_t(random() % 3) * 10;
    zero.batch_stride = random() % 2 * 100;
    args.a.zero = &zero;
    if (random() % 8)
      args.column_sums_b = reinterpret_cast<void *>(0x30000000);
  }

  /// Sets one field to an invalid value, or to the edge of validity.
  void spoil(std::mt19937 &random) {
    auto pick = [&](auto... values) {
      int64_t list[] = {static_cast<int64_t>(values)...};
      return list[random() % (sizeof(list) / sizeof(*list))];
    };
    constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    kiln_operand *operands[] = {&args.a, &args.b, &args.c, &args.d,
                                &chain[0].operand};
    kiln_operand &operand = *operands[random() % 5];
    kiln_scale &scale = scales[random() % 3];
    switch (random() % 42) {
    case 0:
    case 1:
      operand.batch_stride = pick(-8, -1, -4096, kLeast, kMost);
      break;
    case 2:
      operand.leading_dim = pick(-1, kLeast, kMost, int64_t(1) << 41);
      break;
    case 3:
      operand.struct_size = static_cast<uint32_t>(pick(72, 1, 80));
      break;
    case 4:
      operand.alignment = static_cast<uint32_t>(pick(1, 3, 256, 1u << 31));
      break;
    case 5:
      operand.flags = static_cast<uint32_t>(pick(1, 2, 3, 4));
      break;
    case 6:
      operand.type =
          static_cast<kiln_dtype>(pick(KILN_FP32, KILN_E4M3, KILN_INT4, -1));
      break;
    case 7:
      operand.data = nullptr;
      break;
    case 8:
      operand.data = args.d.data;
      break;
    case 9:
      switch (random() % 4) {
      case 0:
        operand.reserved[0] = 1;
        break;
      case 1:
        operand.reserved0 = 1;
        break;
      case 2:
        operand.order = static_cast<int32_t>(pick(1, 2, -1));
        break;
      default:
        if (&operand != &args.a)
          operand.zero = reinterpret_cast<void *>(pick(8, 16));
      }
      break;
    case 10:
      args.m = pick(0, -1, kLeast, kMost, int64_t(1) << 31);
      break;
    case 11:
      args.batch = pick(0, -1, int64_t(1) << 31);
      break;
    case 12:
      args.layout = static_cast<int32_t>(pick(5, -1, 40));
      break;
    case 13:
      args.compute = static_cast<int32_t>(pick(5, -1));
      break;
    case 14:
      args.determinism = 10;
      break;
    case 15:
      args.accumulator = static_cast<int32_t>(pick(KILN_FP32, KILN_FP16));
      break;
    case 16:
      args.alpha_device = reinterpret_cast<void *>(pick(4, 5));
      break;
    case 17:
      args.beta_device = reinterpret_cast<void *>(pick(4, 6));
      break;
    case 18:
      args.pointwise_count = static_cast<uint32_t>(pick(9, 0x7fffffff));
      break;
    case 19:
      chain[0].op = static_cast<int32_t>(pick(70, 255, 256, -1, 5));
      break;
    case 20:
      chain[0].struct_size = static_cast<uint32_t>(pick(0, 8, 200));
      break;
    case 21:
      chain[0].params[2] = 1;
      break;
    case 22:
      args.beta = std::numeric_limits<double>::quiet_NaN();
      break;
    case 23:
      args.reserved[random() % 5] = 7;
      break;
    case 24:
      scale.block_rows = static_cast<int32_t>(pick(-1, 64, 128));
      break;
    case 25:
      scale.row_stride = pick(-1, kLeast, kMost);
      break;
    case 26:
      scale.column_stride = pick(-1, 3, kMost);
      break;
    case 27:
      scale.batch_stride = pick(-1, kLeast, kMost);
      break;
    case 28:
      scale.struct_size = static_cast<uint32_t>(pick(0, 8, 400));
      break;
    case 29:
      scale.data = reinterpret_cast<void *>(pick(0, 3));
      break;
    case 30:
      groups.kind = static_cast<int32_t>(pick(0, 5, -1, 30));
      break;
    case 31:
      groups.align = pick(-1, 4097, kLeast, kMost);
      break;
    case 32:
      groups.room = pick(-1, 1, kLeast, kMost);
      break;
    case 33:
      groups.sizes = reinterpret_cast<int32_t *>(pick(0, 2));
      break;
    case 34:
      map.divisor = pick(-1, kLeast, kMost);
      break;
    case 40:
      groups.struct_size = static_cast<uint32_t>(pick(0, 8, 200));
      break;
    case 41:
      map.reserved[2] = 1;
      break;
    case 35:
      map.index = reinterpret_cast<int32_t *>(pick(0, 1));
      break;
    case 36:
      args.column_sums_b = reinterpret_cast<void *>(pick(0, 6, 8));
      break;
    case 37:
      args.a.zero = &zero;
      zero.data = reinterpret_cast<void *>(pick(0, 2, 4));
      break;
    case 38:
      zero.row_stride = pick(1, 2, -1, kMost);
      zero.batch_stride = pick(0, 1, -1, kLeast);
      break;
    case 39:
      zero.granularity = static_cast<int32_t>(pick(0, 10, 30, 40, -1));
      zero.block_rows = static_cast<int32_t>(pick(0, 1, 128));
      zero.block_columns = zero.block_rows;
      break;
    }
  }
};

} // namespace

TEST_CASE("what is looked up is the family's canonical problem") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  std::mt19937 random(7);
  int good = 0, joined = 0, scaled = 0, ofBlocks = 0, ofGroups = 0, mapped = 0;
  int shifted = 0, quantized = 0;
  for (int i = 0; i < 20000; ++i) {
    CAPTURE(i);
    RandomCall call(random);
    CheckedCall checked(family, &call.args);
    if (!checked.problem)
      continue;
    const GemmProduct product(*checked.problem);
    const GemmSignature signature = product.signature;
    REQUIRE(signature.isWellFormed());
    quantized += product.quantizes;
    scaled += signature.scaleA != ScaleKind::None;
    ofBlocks += signature.hasBlockScales();
    ofGroups += signature.hasGroups();
    mapped += signature.mapsRows();
    shifted += signature.hasZeroPointsA();
    ++good;
    joined += call.joins();
  }
  CHECK(good > 200);
  CHECK(joined > 20);
  CHECK(scaled > 20);
  CHECK(ofBlocks > 5);
  CHECK(ofGroups > 20);
  CHECK(mapped > 5);
  CHECK(shifted > 5);
  CHECK(quantized > 20);
}

TEST_CASE("S14a: a call that is refused would not have hit either") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  std::mt19937 random(11);
  int refused = 0, read = 0, negative = 0;
  for (int i = 0; i < 40000; ++i) {
    CAPTURE(i);
    RandomCall call(random);
    call.spoil(random);
    CheckedCall checked(family, &call.args);
    if (checked.problem)
      continue;
    ++refused;
    negative +=
        checked.message.find("may not be negative") != std::string::npos;
    read += checked.isRead && !checked.call.isEmpty;
  }
  CHECK(refused > 1000);
  CHECK(read > 100);
  CHECK(negative > 100);
}

TEST_CASE("a swiglu makes d half as wide, or is refused by name") {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.m = args.n = args.k = 64;
  args.a.type = KILN_BF16;
  kiln_pointwise links[3] = {KILN_INIT(kiln_pointwise),
                             KILN_INIT(kiln_pointwise),
                             KILN_INIT(kiln_pointwise)};
  links[0].op = KILN_POINTWISE_BIAS;
  links[1].op = KILN_POINTWISE_SWIGLU;
  links[2].op = KILN_POINTWISE_RESIDUAL;
  args.pointwise = links;
  args.pointwise_count = 3;
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  FamilyCall call;
  auto message = [&] {
    auto problem = readProblem(family, &args, CallAddresses::Ignored, call);
    return problem ? "" : summarize(problem.takeError()).message;
  };
  CHECK(message() == "");
  args.d.leading_dim = links[2].operand.leading_dim = 40;
  REQUIRE(message() == "");
  CHECK(call.values[GemmField::Ldd] == 40);
  CHECK(call.arguments.operands[GemmOperand::Bias].leadingDimension == 64);
  CHECK(call.arguments.operands[GemmOperand::Residual].leadingDimension == 40);
  args.d.leading_dim = links[2].operand.leading_dim = 32;
  REQUIRE(message() == "");
  // Another extent of a range may need them: only the problem is canonical.
  CHECK(call.values[GemmField::Ldd] == 32);
  auto canonical = readProblem(family, &args, CallAddresses::Ignored, call);
  REQUIRE(static_cast<bool>(canonical));
  CHECK(canonical->values[GemmField::Ldd] == 0);
  CHECK(canonical->values[GemmField::LdResidual] == 0);
  auto problem = registry.parseProblem(
      "gemm m=64 n=64 k=64 dtype=bf16 pointwise=bias,swiglu,residual");
  REQUIRE(static_cast<bool>(problem));
  OperandTable table = problem->family->operands(problem->problem);
  CHECK(table.operands[GemmOperand::Residual].slot == KILN_GEMM_POINTWISE + 2);

  args.beta = 2;
  CHECK(message() == "beta is set with swiglu, which takes no C");
  args.beta = 0;
  args.beta_device = &args;
  CHECK(message() == "beta_device is set with swiglu, which takes no C");
  args.beta_device = nullptr;
  args.n = 63;
  CHECK(message() == "n=63 is odd, swiglu joins columns in pairs");
  args.n = 64;
  links[0].op = KILN_POINTWISE_SWIGLU;
  CHECK(message() == "pointwise has more than one swiglu");
  links[0].op = KILN_POINTWISE_RESIDUAL;
  links[0].operand.leading_dim = 32;
  args.pointwise_count = 2;
  CHECK(message() ==
        "pointwise[0].operand.leading_dim=32 is below the row length 64");
}

TEST_CASE("alignment is that of all addresses and strides together") {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.m = args.n = args.k = 64;
  args.a.type = KILN_BF16;
  auto alignment = [&] {
    FamilyCall call;
    REQUIRE(kGemmCall.read(&args, call));
    return call.values[GemmField::Align];
  };
  args.a.data = reinterpret_cast<void *>(0x1000);
  args.b.data = reinterpret_cast<void *>(0x2000);
  args.d.data = reinterpret_cast<void *>(0x3000);
  CHECK(alignment() == 16);
  args.b.data = reinterpret_cast<void *>(0x2008);
  CHECK(alignment() == 8);
  args.d.data = reinterpret_cast<void *>(0x3002);
  CHECK(alignment() == 2);
  args.d.data = reinterpret_cast<void *>(0x3000);
  args.b.alignment = 4; // promises less than there is
  CHECK(alignment() == 4);
  args.b.alignment = 0;
  args.c.data = reinterpret_cast<void *>(0x4002); // not read
  CHECK(alignment() == 8);
  args.a.batch_stride = 3; // no batch
  CHECK(alignment() == 8);
  args.batch = 2;
  args.d.batch_stride = 4096;
  CHECK(alignment() == 2);
  FamilyCall described;
  FieldNames names;
  CHECK(llvm::toString(kGemmCall.explain(&args, CallAddresses::Ignored,
                                         gemmProblemSchema(), described,
                                         names)) == "");
  CHECK(described.values[GemmField::Align] == 2); // because of the stride
}

TEST_CASE("packed weights are those of the text, or are refused by name") {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.layout = KILN_LAYOUT_NT;
  args.m = 3, args.n = 96, args.k = 256;
  args.a.type = KILN_BF16;
  args.a.data = reinterpret_cast<void *>(0x100000);
  args.d.data = reinterpret_cast<void *>(0x200000);
  args.b.type = KILN_INT4;
  args.b.order = KILN_ORDER_K64R16;
  args.b.data = reinterpret_cast<void *>(0x300000);
  args.b.zero = reinterpret_cast<void *>(0x500000);
  kiln_scale scale = KILN_INIT(kiln_scale);
  scale.type = KILN_BF16;
  scale.data = reinterpret_cast<void *>(0x400000);
  scale.granularity = KILN_GRANULARITY_BLOCK;
  scale.block_rows = 1, scale.block_columns = 64;
  args.b.scale = &scale;
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  CheckedCall checked(family, &args);
  REQUIRE(checked.problem);
  CHECK(checked.problem->text() ==
        "gemm m=3 n=96 k=256 dtype=bf16 layout=NT b=int4 scale_b=1x64 "
        "order_b=k64r16 scale_type_b=bf16 zero_b=1");
  auto refusal = [&](auto breakIt) {
    kiln_gemm_args other = args;
    kiln_scale otherScale = scale;
    other.b.scale = &otherScale;
    breakIt(other, otherScale);
    CheckedCall refused(family, &other);
    CHECK(!refused.problem);
    return refused.message;
  };
  using Args = kiln_gemm_args;
  using Scale = kiln_scale;
  auto contains = [](const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(contains(refusal([](Args &a, Scale &) { a.b.scale = nullptr; }),
                 "b.scale is null"));
  CHECK(contains(refusal([](Args &, Scale &s) { s.block_columns = 48; }),
                 "b.scale: granularity"));
  CHECK(contains(refusal([](Args &, Scale &s) { s.row_stride = 1; }),
                 "b.scale: an order or a stride"));
  CHECK(contains(refusal([](Args &a, Scale &) {
                   a.b.zero = reinterpret_cast<void *>(0x500004);
                 }),
                 "b.zero"));
  CHECK(
      contains(refusal([](Args &a, Scale &) { a.b.order = 2; }), "value 0x2"));
  CHECK(contains(refusal([](Args &a, Scale &) { a.b.type = KILN_BF16; }),
                 "k64r16 is for"));
}

TEST_CASE("zero points of A are those of the text, or are refused by name") {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.layout = KILN_LAYOUT_NT;
  args.m = 3, args.n = 96, args.k = 256;
  args.a.type = KILN_INT8;
  args.a.data = reinterpret_cast<void *>(0x100000);
  args.b.data = reinterpret_cast<void *>(0x300000);
  args.d.data = reinterpret_cast<void *>(0x200000);
  kiln_scale zero = KILN_INIT(kiln_scale);
  zero.type = KILN_INT32;
  zero.data = reinterpret_cast<void *>(0x500004);
  zero.granularity = KILN_GRANULARITY_ROW;
  args.a.zero = &zero;
  args.column_sums_b = reinterpret_cast<void *>(0x600004);
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  auto isText = [&](const char *text) {
    CheckedCall checked(family, &args);
    REQUIRE(checked.problem);
    CHECK(checked.problem->text() == text);
    const OperandArgument *operands = checked.call.arguments.operands;
    CHECK(operands[GemmOperand::ZeroA].address == 0x500004);
    CHECK(operands[GemmOperand::ColumnSumsB].address == 0x600004);
    return operands[GemmOperand::ColumnSumsB].batchStride;
  };
  CHECK(isText("gemm m=3 n=96 k=256 dtype=int8 layout=NT zero_a=row") == 0);
  zero.granularity = KILN_GRANULARITY_TENSOR;
  CHECK(isText("gemm m=3 n=96 k=256 dtype=int8 layout=NT zero_a=tensor") == 0);
  // A matrix of B has its own sums.
  args.batch = 2;
  args.a.batch_stride = 3 * 256, args.d.batch_stride = 3 * 96;
  args.b.batch_stride = 96 * 256;
  CHECK(isText("gemm m=3 n=96 k=256 dtype=int8 layout=NT batch=2 "
               "zero_a=tensor") == 96);
  args.batch = 1;
  auto refusal = [&](auto breakIt) {
    kiln_gemm_args other = args;
    kiln_scale otherZero = zero;
    other.a.zero = &otherZero;
    breakIt(other, otherZero);
    CheckedCall refused(family, &other);
    CHECK(!refused.problem);
    return refused.message;
  };
  using Args = kiln_gemm_args;
  using Scale = kiln_scale;
  CHECK(refusal([](Args &, Scale &s) { s.type = KILN_FP32; }) ==
        "a.zero: type 0x2001, int32 is supported");
  CHECK(refusal([](Args &, Scale &s) { s.type = 0; }) ==
        "a.zero: type 0x0, int32 is supported");
  CHECK(refusal([](Args &, Scale &s) {
          s.granularity = KILN_GRANULARITY_BLOCK;
          s.block_rows = 1, s.block_columns = 128;
        }) == "a.zero: granularity 30 with blocks of 1 x 128 is not available");
  CHECK(refusal([](Args &a, Scale &) { a.column_sums_b = nullptr; }) ==
        "column_sums_b is null");
  CHECK(refusal([](Args &a, Scale &) { a.a.zero = nullptr; }) ==
        "column_sums_b is given without a.zero");
  CHECK(refusal([](Args &a, Scale &) { a.a.type = KILN_E4M3; }) ==
        "a.zero is for a.type=int8 and rows of elements");
  CHECK(refusal([](Args &a, Scale &s) { a.b.zero = &s; }) ==
        "b.zero without an order is not available yet");
}
