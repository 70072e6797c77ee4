// The dispatch path's reading of a kiln_gemm_args, compared with the family's
// own canonical form.
#include "Families/Gemm/GemmFamily.h"

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
  kiln_gemm_scales scales = KILN_INIT(kiln_gemm_scales);
  kiln_gemm_packed_b packed = KILN_INIT(kiln_gemm_packed_b);
  kiln_gemm_quantized_d quantized = KILN_INIT(kiln_gemm_quantized_d);
  kiln_gemm_groups groups = KILN_INIT(kiln_gemm_groups);
  /// Memory of the caller's behind the last struct, for a struct_size that says
  /// more than this version knows.
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

  static kiln_granularity anyGranularity(std::mt19937 &random) {
    constexpr kiln_granularity kAll[] = {
        KILN_GRANULARITY_TENSOR, KILN_GRANULARITY_ROW, KILN_GRANULARITY_COLUMN,
        KILN_GRANULARITY_BLOCK};
    return kAll[random() % 4];
  }

  /// Scales of an e4m3 D of all kinds, or of another.
  void setScalesD(std::mt19937 &random) {
    kiln_scale &scale = quantized.scale;
    scale.data = reinterpret_cast<void *>(0x50000000 + random() % 64 * 4);
    scale.granularity = anyGranularity(random);
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
    args.quantized_d = &quantized;
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
    groups.flags = random() % 8;
    if (groups.flags & 3 || random() % 8 == 0)
      groups.index = reinterpret_cast<int32_t *>(0x30000000);
    groups.divisor = groups.flags & 1 ? int64_t(random() % 3) : 0;
    if (groups.flags & 4 || random() % 8 == 0)
      groups.weights = reinterpret_cast<float *>(0x40000000);
  }

  /// Adds scales of all kinds, for rows and columns as stored or wrong ones.
  void setScales(std::mt19937 &random) {
    args.scales = &scales;
    for (int i = 0; i < 2; ++i) {
      if (random() % 4 == 0)
        continue;
      kiln_scale &scale = i == 0 ? scales.a : scales.b;
      scale.data = reinterpret_cast<void *>(0x10000000 + random() % 64 * 4);
      scale.granularity = anyGranularity(random);
      scale.batch_stride = random() % 2 * 100;
      if (scale.granularity == KILN_GRANULARITY_BLOCK) {
        scale.block_rows = i == 0 ? 1 : 128;
        scale.block_columns = 128;
        int64_t other = int64_t(random() % 3) * 70;
        (random() % 2 ? scale.row_stride : scale.column_stride) = other;
        if (other && random() % 4)
          (scale.row_stride ? scale.column_stride : scale.row_stride) = 1;
      }
    }
  }

  /// Adds zero points of A, for the tensor or for rows as stored, or wrong
  /// ones.
  void setZeroPoints(std::mt19937 &random) {
    if (random() % 3 == 0)
      return;
    kiln_scale &zeros = scales.a_zeros;
    zeros.type = random() % 8 ? KILN_INT32 : KILN_FP32;
    zeros.data = reinterpret_cast<void *>(0x20000000 + random() % 64 * 4);
    do
      zeros.granularity = anyGranularity(random);
    while (zeros.granularity == KILN_GRANULARITY_BLOCK);
    zeros.batch_stride = random() % 2 * 100;
    if (random() % 8)
      scales.column_sums_b = reinterpret_cast<int32_t *>(0x30000000);
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
    kiln_scale *const given[] = {&scales.a, &scales.b, &quantized.scale};
    kiln_scale &scale = *given[random() % 3];
    kiln_scale &zeros = scales.a_zeros;
    switch (random() % 42) {
    case 0:
    case 1:
      operand.batch_stride = pick(-8, -1, -4096, kLeast, kMost);
      break;
    case 2:
      operand.leading_dim = pick(-1, kLeast, kMost, int64_t(1) << 41);
      break;
    case 3:
      operand.struct_size = static_cast<uint32_t>(pick(56, 1, 72));
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
      if (random() % 2) {
        operand.reserved[random() % 2] = 1;
        break;
      }
      args.packed_b = &packed;
      packed.order = static_cast<int32_t>(pick(0, 1, 1, 2, -1));
      packed.scale.granularity = static_cast<int32_t>(pick(0, 10, 30));
      packed.scale.data = reinterpret_cast<void *>(pick(0, 8, 16));
      packed.zeros.granularity = static_cast<int32_t>(pick(0, 10));
      packed.zeros.type = static_cast<int32_t>(pick(0, KILN_INT8, KILN_FP32));
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
      args.batch = 0;
      args.alpha = args.beta = 0;
      break;
    case 16:
      args.alpha_device = reinterpret_cast<float *>(pick(4, 5));
      break;
    case 17:
      args.beta_device = reinterpret_cast<float *>(pick(4, 6));
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
      args.reserved[random() % 8] = 7;
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
      groups.divisor = pick(-1, kLeast, kMost);
      break;
    case 40:
      groups.struct_size = static_cast<uint32_t>(pick(0, 8, 200));
      break;
    case 41:
      (random() % 2 ? groups.reserved[2] : scales.reserved[1]) = 1;
      break;
    case 35:
      groups.index = reinterpret_cast<int32_t *>(pick(0, 1));
      break;
    case 36:
      scales.column_sums_b = reinterpret_cast<int32_t *>(pick(0, 6, 8));
      break;
    case 37:
      args.scales = &scales;
      zeros.data = reinterpret_cast<void *>(pick(0, 2, 4));
      break;
    case 38:
      zeros.row_stride = pick(1, 2, -1, kMost);
      zeros.batch_stride = pick(0, 1, -1, kLeast);
      break;
    case 39:
      zeros.granularity = static_cast<int32_t>(pick(0, 5, 10, 30, 40, -1));
      zeros.block_rows = static_cast<int32_t>(pick(0, 1, 128));
      zeros.block_columns = zeros.block_rows;
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
  args.beta_device = reinterpret_cast<float *>(0x600000);
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
  args.b.alignment = 4; // promises less than the address has
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
  args.b.data = reinterpret_cast<void *>(0x300000);
  kiln_gemm_packed_b packed = KILN_INIT(kiln_gemm_packed_b);
  packed.order = KILN_ORDER_K64R16;
  packed.scale.type = KILN_BF16;
  packed.scale.data = reinterpret_cast<void *>(0x400000);
  packed.scale.granularity = KILN_GRANULARITY_BLOCK;
  packed.scale.block_rows = 1, packed.scale.block_columns = 64;
  packed.zeros = packed.scale;
  packed.zeros.type = KILN_INT8;
  packed.zeros.data = reinterpret_cast<void *>(0x500000);
  args.packed_b = &packed;
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  CheckedCall checked(family, &args);
  REQUIRE(checked.problem);
  CHECK(checked.problem->text() ==
        "gemm m=3 n=96 k=256 dtype=bf16 layout=NT b=int4 scale_b=1x64 "
        "order_b=k64r16 scale_type_b=bf16 zero_b=1");
  auto refusal = [&](auto breakIt) {
    kiln_gemm_args other = args;
    kiln_gemm_packed_b otherPacked = packed;
    other.packed_b = &otherPacked;
    breakIt(other, otherPacked);
    CheckedCall refused(family, &other);
    CHECK(!refused.problem);
    return refused.message;
  };
  using Args = kiln_gemm_args;
  using Packed = kiln_gemm_packed_b;
  auto contains = [](const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(contains(refusal([](Args &, Packed &p) { p.scale.granularity = 0; }),
                 "packed_b.scale.granularity is none"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.scale.block_columns = 48; }),
                 "packed_b.scale: granularity"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.scale.row_stride = 1; }),
                 "packed_b.scale: a stride"));
  CHECK(contains(refusal([](Args &, Packed &p) {
                   p.zeros.data = reinterpret_cast<void *>(0x500004);
                 }),
                 "packed_b.zeros.data 0x500004"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.zeros.granularity = 0; }),
                 "set packed_b.zeros.granularity"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.zeros.block_columns = 32; }),
                 "is not that of the scales"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.zeros.type = KILN_FP16; }),
                 "packed_b.zeros: type 0x1001"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.order = 0; }),
                 "packed_b.order is required"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.order = 2; }), "value 0x2"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.struct_size = 8; }),
                 "packed_b: struct_size is 8"));
  CHECK(contains(refusal([](Args &, Packed &p) { p.reserved[3] = 1; }),
                 "packed_b: a reserved field is set"));
  CHECK(contains(refusal([](Args &a, Packed &) { a.b.type = KILN_BF16; }),
                 "k64r16 is for"));
  kiln_gemm_scales scales = KILN_INIT(kiln_gemm_scales);
  scales.b = kiln_row_scales_init(reinterpret_cast<void *>(0x600000));
  args.scales = &scales;
  CHECK(contains(refusal([](Args &, Packed &) {}),
                 "scales.b is given with packed_b"));
}

TEST_CASE("zero points of A are those of the text, or are refused by name") {
  kiln_gemm_args args = kiln_gemm_args_init();
  args.layout = KILN_LAYOUT_NT;
  args.m = 3, args.n = 96, args.k = 256;
  args.a.type = KILN_INT8;
  args.a.data = reinterpret_cast<void *>(0x100000);
  args.b.data = reinterpret_cast<void *>(0x300000);
  args.d.data = reinterpret_cast<void *>(0x200000);
  kiln_gemm_scales scales = KILN_INIT(kiln_gemm_scales);
  scales.a_zeros.type = KILN_INT32;
  scales.a_zeros.data = reinterpret_cast<void *>(0x500004);
  scales.a_zeros.granularity = KILN_GRANULARITY_ROW;
  scales.column_sums_b = reinterpret_cast<int32_t *>(0x600004);
  args.scales = &scales;
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
  scales.a_zeros.granularity = KILN_GRANULARITY_TENSOR;
  CHECK(isText("gemm m=3 n=96 k=256 dtype=int8 layout=NT zero_a=tensor") == 0);
  // Their only type need not be named.
  scales.a_zeros.type = KILN_DTYPE_NONE;
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
    kiln_gemm_scales otherScales = scales;
    other.scales = &otherScales;
    breakIt(other, otherScales);
    CheckedCall refused(family, &other);
    CHECK(!refused.problem);
    return refused.message;
  };
  using Args = kiln_gemm_args;
  using Scales = kiln_gemm_scales;
  CHECK(refusal([](Args &, Scales &s) { s.a_zeros.type = KILN_FP32; }) ==
        "scales.a_zeros: type 0x2001, int32 is supported");
  CHECK(refusal([](Args &, Scales &s) {
          s.a_zeros.granularity = KILN_GRANULARITY_BLOCK;
          s.a_zeros.block_rows = 1, s.a_zeros.block_columns = 128;
        }) == "scales.a_zeros: granularity 30 with blocks of 1 x 128 is not "
              "available");
  CHECK(refusal([](Args &, Scales &s) { s.column_sums_b = nullptr; }) ==
        "scales.column_sums_b is null");
  CHECK(refusal([](Args &, Scales &s) { s.a_zeros = {}; }) ==
        "scales.column_sums_b is given without scales.a_zeros");
  CHECK(refusal([](Args &, Scales &s) { s.a_zeros.granularity = 0; }) ==
        "scales.a_zeros.data is 0x500004 without a granularity: set "
        "scales.a_zeros.granularity for it to be used");
  CHECK(refusal([](Args &, Scales &s) { s.a_zeros.reserved[1] = 1; }) ==
        "scales.a_zeros: a reserved field is set");
  CHECK(refusal([](Args &, Scales &s) { s.a_zeros.struct_size = 8; }) ==
        "scales.a_zeros.struct_size is 8, 72 or 0 is needed");
  CHECK(refusal([](Args &, Scales &s) { s.reserved0 = 1; }) ==
        "scales: a reserved field is set");
  CHECK(refusal([](Args &a, Scales &) { a.a.type = KILN_E4M3; }) ==
        "scales.a_zeros is for a.type=int8 and rows of elements");
}

TEST_CASE("a call has what gemm.h offers, and no more") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  kiln_gemm_args plain = kiln_gemm_args_init();
  plain.layout = KILN_LAYOUT_NT;
  plain.m = plain.n = plain.k = 128;
  plain.a.type = KILN_BF16;
  plain.a.data = reinterpret_cast<void *>(0x100000);
  plain.b.data = reinterpret_cast<void *>(0x300000);
  plain.d.data = reinterpret_cast<void *>(0x200000);
  // The call works, or the message has \p part.
  auto check = [&](const kiln_gemm_args &args, const std::string &part) {
    CAPTURE(part);
    const std::string message = CheckedCall(family, &args).message;
    CAPTURE(message);
    CHECK(message.empty() == part.empty());
    CHECK(message.find(part) != std::string::npos);
  };

  kiln_gemm_packed_b packed = KILN_INIT(kiln_gemm_packed_b);
  packed.order = KILN_ORDER_K64R16;
  packed.scale = kiln_row_scales_init(reinterpret_cast<void *>(0x400000));
  packed.scale.type = KILN_FP16;
  kiln_gemm_args w4 = plain;
  w4.b.type = KILN_INT4;
  w4.packed_b = &packed;
  check(w4, "");
  w4.a.type = KILN_FP16;
  check(w4, "");
  w4.a.type = KILN_FP32;
  check(w4, "k64r16 is for a.type=bf16 or fp16");
  w4.a.type = KILN_BF16, w4.layout = KILN_LAYOUT_NN;
  check(w4, "needs layout=NT");
  w4.layout = KILN_LAYOUT_NT, w4.batch = 2;
  w4.a.batch_stride = w4.d.batch_stride = 128 * 128;
  check(w4, "batch=2 without groups");
  kiln_gemm_groups groups = KILN_INIT(kiln_gemm_groups);
  groups.kind = KILN_GROUPS_ENDS;
  groups.sizes = reinterpret_cast<const int32_t *>(0x500000);
  w4.groups = &groups;
  w4.a.batch_stride = w4.d.batch_stride = 0;
  check(w4, "");
  packed.zeros = packed.scale;
  packed.zeros.type = KILN_INT8;
  check(w4, "");
  w4.b.type = KILN_INT8;
  check(w4, "int4 alone zero points");

  kiln_gemm_quantized_d quantized = KILN_INIT(kiln_gemm_quantized_d);
  quantized.scale = kiln_tensor_scale_init(reinterpret_cast<void *>(0x600000));
  kiln_gemm_args fp8 = plain;
  fp8.quantized_d = &quantized;
  fp8.d.type = KILN_E4M3;
  fp8.groups = &groups;
  check(fp8, "");
  groups.kind = KILN_GROUPS_MASKED;
  fp8.a.batch_stride = fp8.d.batch_stride = 128 * 128;
  check(fp8, "not available with groups");
  groups.kind = KILN_GROUPS_ENDS;

  kiln_gemm_scales scales = KILN_INIT(kiln_gemm_scales);
  scales.a_zeros = kiln_tensor_scale_init(reinterpret_cast<void *>(0x700000));
  scales.column_sums_b = reinterpret_cast<const int32_t *>(0x800000);
  kiln_gemm_args int8 = plain;
  int8.a.type = KILN_INT8;
  int8.scales = &scales;
  check(int8, "");
  int8.groups = &groups;
  check(int8, "not available with groups");

  kiln_gemm_args half = plain;
  half.d.type = KILN_FP16;
  check(half, "d.type is neither a.type nor fp32");
  half.a.type = KILN_E4M3;
  check(half, "");
}

TEST_CASE("a struct that was zeroed and not initialised is refused") {
  const Registry registry = makeBuiltinRegistry();
  const KernelFamily &family = *registry.find("gemm");
  kiln_gemm_args args = KILN_INIT(kiln_gemm_args);
  args.m = args.n = args.k = 64;
  args.a.type = KILN_BF16;
  args.a.data = reinterpret_cast<void *>(0x100000);
  args.b.data = reinterpret_cast<void *>(0x200000);
  args.c.data = args.d.data = reinterpret_cast<void *>(0x300000);
  const char *const refusal =
      "batch, alpha and beta are 0: kiln_gemm_args_init() sets batch and alpha "
      "to 1";
  CHECK(CheckedCall(family, &args).message == refusal);
  FamilyCall described;
  auto problem = readProblem(family, &args, CallAddresses::Ignored, described);
  REQUIRE_FALSE(static_cast<bool>(problem));
  CHECK(summarize(problem.takeError()).message == refusal);
  // With a batch or a scalar that is meant, each call works.
  args.alpha = 1;
  CHECK(CheckedCall(family, &args).message == "");
  args.alpha = 0, args.beta = 1;
  CHECK(CheckedCall(family, &args).message == "");
  args.beta = 0, args.alpha_device = static_cast<float *>(args.a.data);
  CHECK(CheckedCall(family, &args).message == "");
  args.alpha_device = nullptr, args.batch = 1;
  CHECK(CheckedCall(family, &args).message == "");
}
