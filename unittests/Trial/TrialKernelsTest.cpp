// Results of the tuner's own kernels on a real GPU, compared with the host's.
#include "Driver/DeviceMemory.h"
#include "Driver/Launcher.h"
#include "Driver/Module.h"
#include "Driver/Stream.h"
#include "Kernel/Sources.h"
#include "Trial/GpuTrials.h"
#include "Trial/TrialTools.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace kiln;
using namespace kiln::fake;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The value of a float with \p exponentBits and \p mantissaBits. In e4m3,
/// which has no infinity, only the largest code is NaN.
double decode(unsigned code, int exponentBits, int mantissaBits) {
  int bits = exponentBits + mantissaBits;
  double sign = code >> bits & 1 ? -1 : 1;
  unsigned size = code & ((1u << bits) - 1);
  int exponent = static_cast<int>(size >> mantissaBits);
  unsigned mantissa = size & ((1u << mantissaBits) - 1);
  int last = (1 << exponentBits) - 1, bias = last / 2;
  bool isE4m3 = exponentBits == 4;
  if (exponent == last && !isE4m3)
    return mantissa ? NAN : sign * kInfinity;
  if (isE4m3 && size == 0x7f)
    return NAN;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1u << mantissaBits),
                           exponent - bias - mantissaBits);
}

double decode(DType type, unsigned code) {
  switch (type) {
  case DType::FP32:
    return std::bit_cast<float>(code);
  case DType::FP16:
    return decode(code, 5, 10);
  case DType::BF16:
    return decode(code, 8, 7);
  case DType::E4M3:
    return decode(code, 4, 3);
  default:
    return static_cast<int8_t>(code);
  }
}

/// The code nearest to \p value, of two as near the even one; by search.
unsigned encode(DType type, float value) {
  if (type == DType::FP32)
    return std::bit_cast<unsigned>(value);
  if (type == DType::INT8)
    return static_cast<uint8_t>(static_cast<int8_t>(
        std::clamp(std::nearbyint(value), -127.0f, 127.0f)));
  unsigned sign = std::signbit(value) ? 1u << (bitsOf(type) - 1) : 0;
  double size = std::fabs(value);
  // Positive codes ascend; infinity stands for the next power of two.
  unsigned largest = type == DType::E4M3   ? 0x7e
                     : type == DType::FP16 ? 0x7c00
                                           : 0x7f80;
  double top = decode(type, largest);
  if (std::isinf(top))
    top = 2 * std::ldexp(1, std::ilogb(decode(type, largest - 1)));
  if (size >= top)
    return sign | largest;
  unsigned low = 0, high = largest;
  while (high - low > 1) {
    unsigned middle = (low + high) / 2;
    (decode(type, middle) <= size ? low : high) = middle;
  }
  double above = high == largest ? top : decode(type, high);
  double toLow = size - decode(type, low), toHigh = above - size;
  bool takesHigh = toHigh < toLow || (toHigh == toLow && low % 2 == 1);
  return sign | (takesHigh ? high : low);
}

constexpr DType kToolTypes[] = {DType::FP32, DType::FP16, DType::BF16,
                                DType::E4M3, DType::INT8};

struct Tools : GpuTrials {
  Tools() : GpuTrials(Registry()) {}

  std::vector<unsigned> fill(FillNormalParams params, DeviceAddress at) {
    params.data = reinterpret_cast<void *>(at);
    must(tools.fillNormal(params, stream.handle()));
    must(stream.synchronize());
    auto bytes = static_cast<size_t>(bytesOf(params.type));
    std::vector<uint8_t> raw(static_cast<size_t>(params.count) * bytes);
    must(copyToHost(*driver, raw.data(), at, raw.size()));
    std::vector<unsigned> codes(static_cast<size_t>(params.count));
    for (size_t i = 0; i < codes.size(); ++i)
      std::memcpy(&codes[i], &raw[i * bytes], bytes);
    return codes;
  }

  CompareResult compare(CompareToleranceParams params) {
    DeviceMemory memory =
        must(DeviceMemory::allocate(*driver, sizeof(CompareResult)));
    CompareResult result;
    must(copyToDevice(*driver, memory.address(), &result, sizeof(result)));
    params.result = reinterpret_cast<CompareResult *>(memory.address());
    must(tools.compare(params, stream.handle()));
    must(stream.synchronize());
    must(copyToHost(*driver, &result, memory.address(), sizeof(result)));
    return result;
  }

  /// Elements of \p grid's gaps that are not 0xff.
  unsigned long long gapsThatDiffer(DeviceAddress at, DType type,
                                    const RowGrid &grid) {
    DeviceMemory counter = must(DeviceMemory::allocate(*driver, 8));
    unsigned long long count = 0;
    must(copyToDevice(*driver, counter.address(), &count, sizeof(count)));
    CheckGapsParams params;
    params.data = reinterpret_cast<const void *>(at);
    params.type = type;
    params.grid = grid;
    params.pattern = ~0u;
    params.differing =
        reinterpret_cast<unsigned long long *>(counter.address());
    must(tools.checkGaps(params, stream.handle()));
    must(stream.synchronize());
    must(copyToHost(*driver, &count, counter.address(), sizeof(count)));
    return count;
  }

  TrialTools tools = must(TrialTools::load(*driver, *artifacts, device));
  Stream stream = must(Stream::create(*driver));
};

constexpr int64_t kRows = 256, kToolColumns = 96;

FillNormalParams fillParams() {
  FillNormalParams params;
  params.count = kRows * kToolColumns;
  params.seed = 5;
  return params;
}

} // namespace

TEST_SUITE("gpu") {

  TEST_CASE("fills replace elements and rows as they are told") {
    Tools gpu;
    FillNormalParams params = fillParams();
    params.type = DType::FP32;
    params.mean = 3;
    params.deviation = 0.25;
    params.outlierPeriod = 16;
    params.outlier = 1000;
    params.minusInfinityPeriod = 32;
    params.rowPeriod = 4;
    params.rowLength = kToolColumns;
    params.rowValue = 0.5;
    DeviceMemory memory = must(DeviceMemory::allocate(
        *gpu.driver, static_cast<uint64_t>(params.count) * sizeof(float)));
    std::vector<unsigned> codes = gpu.fill(params, memory.address());
    double counts[4] = {}; // outliers above and below, infinities, others
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < params.count; ++i) {
      double value = decode(DType::FP32, codes[static_cast<size_t>(i)]);
      if (i / kToolColumns % 4 == 3) {
        CHECK(value == 0.5);
        continue;
      }
      bool isOther = std::fabs(value) != 1000 && value != -kInfinity;
      ++counts[isOther ? 3 : value == 1000 ? 0 : value == -1000 ? 1 : 2];
      sum += isOther ? value - 3 : 0;
      squares += isOther ? (value - 3) * (value - 3) : 0;
    }
    double elements = static_cast<double>(params.count) * 3 / 4;
    CHECK(counts[0] == doctest::Approx(elements / 32).epsilon(0.2));
    CHECK(counts[1] == doctest::Approx(elements / 32).epsilon(0.2));
    CHECK(counts[2] == doctest::Approx(elements / 32).epsilon(0.2));
    CHECK(std::fabs(sum / counts[3]) < 0.01);
    CHECK(squares / counts[3] == doctest::Approx(0.0625).epsilon(0.05));
  }

  TEST_CASE("fills and comparisons round as the host does") {
    Tools gpu;
    auto elements = static_cast<size_t>(kRows * kToolColumns);
    DeviceMemory memory =
        must(DeviceMemory::allocate(*gpu.driver, elements * sizeof(float)));
    DeviceMemory reference = must(
        DeviceMemory::allocate(*gpu.driver, 2 * elements * sizeof(double)));
    // Around the largest of e4m3 and of int8, and among subnormals.
    struct Data {
      float deviation, outlier;
    };
    for (Data data : {Data{1.0f, 448.0f}, {200.0f, 1e5f}, {0.004f, 1e-3f}})
      for (DType type : kToolTypes) {
        CAPTURE(data.deviation);
        CAPTURE(static_cast<int>(type));
        FillNormalParams params = fillParams();
        params.deviation = data.deviation;
        params.outlierPeriod = 64;
        params.outlier = data.outlier;
        params.minusInfinityPeriod = 128;
        params.type = DType::FP32;
        std::vector<unsigned> exact = gpu.fill(params, memory.address());
        params.type = type;
        std::vector<unsigned> codes = gpu.fill(params, memory.address());
        int differing = 0;
        std::vector<double> values(2 * elements, 1.0); // and bounds
        for (size_t i = 0; i < elements; ++i) {
          values[i] = decode(DType::FP32, exact[i]);
          differing += codes[i] != encode(type, std::bit_cast<float>(exact[i]));
        }
        CHECK(differing == 0);

        CompareToleranceParams compare;
        compare.d = reinterpret_cast<const void *>(memory.address());
        compare.type = type;
        compare.layout = {kToolColumns, {kRows, kToolColumns}, {}, {}};
        compare.rowEnd = kRows;
        compare.reference =
            reinterpret_cast<const double *>(reference.address());
        compare.bound = compare.reference + elements;
        auto check = [&] {
          must(copyToDevice(*gpu.driver, reference.address(), values.data(),
                            values.size() * sizeof(double)));
          return gpu.compare(compare);
        };
        CompareResult result = check();
        CHECK(result.checked == elements);
        CHECK(result.mismatches == 0);
        CHECK(result.maxRatio == 0);
        // One that is off by 3, more than any rounding but that of 448.
        size_t at = 0;
        while (std::fabs(values[at]) > 2)
          ++at;
        values[at] += 3;
        result = check();
        CHECK(result.mismatches == 1);
        CHECK(result.firstBad == at);
        compare.absolute = 4;
        CHECK(gpu.compare(compare).mismatches == 0);
        values[at] = NAN;
        CHECK(check().mismatches == 1);
      }
  }

  TEST_CASE("NaN is right only where the reference has it") {
    Tools gpu;
    for (auto [type, code] : {std::pair(DType::E4M3, 0x7fu),
                              {DType::E4M3, 0xffu},
                              {DType::FP16, 0x7e00u},
                              {DType::BF16, 0xffffu}}) {
      DeviceMemory memory = must(DeviceMemory::allocate(*gpu.driver, 64));
      for (double value : {1.0, static_cast<double>(NAN), kInfinity}) {
        double values[2] = {value, 1.0};
        must(copyToDevice(*gpu.driver, memory.address(), values, 16));
        must(copyToDevice(*gpu.driver, memory.address() + 16, &code, 4));
        CompareToleranceParams compare;
        compare.d = reinterpret_cast<const void *>(memory.address() + 16);
        compare.type = type;
        compare.layout = {1, {1, 1}, {}, {}};
        compare.rowEnd = 1;
        compare.reference = reinterpret_cast<const double *>(memory.address());
        compare.bound = compare.reference + 1;
        compare.absolute = 1e9;
        CHECK(gpu.compare(compare).mismatches == (std::isnan(value) ? 0 : 1));
      }
    }
  }

  TEST_CASE("integers and gaps between rows are as the host has them") {
    Tools gpu;
    // Planes that interleave within rows, with gaps.
    const RowLayout layout{5, {3, 40}, {4, 7}, {2, 131}};
    const RowGrid grid = gridOf(layout);
    const auto elements = static_cast<size_t>(grid.span());
    DeviceMemory memory =
        must(DeviceMemory::allocate(*gpu.driver, elements * sizeof(int)));
    std::vector<int> data(elements);
    auto upload = [&] {
      must(copyToDevice(*gpu.driver, memory.address(), data.data(),
                        elements * sizeof(int)));
    };
    for (IntegerData kind :
         {IntegerData::Lengths, IntegerData::Offsets, IntegerData::Indices})
      for (bool differ : {false, true}) {
        std::fill(data.begin(), data.end(), -1);
        upload();
        FillIntegersParams params;
        params.data = reinterpret_cast<int *>(memory.address());
        params.layout = layout;
        params.values = {{kind, 0, 1000, 30000}, differ, 120, /*seed=*/4};
        must(gpu.tools.fillIntegers(params, gpu.stream.handle()));
        must(gpu.stream.synchronize());
        must(copyToHost(*gpu.driver, data.data(), memory.address(),
                        elements * sizeof(int)));
        int wrong = 0;
        for (long long i = 0; i < 120; ++i)
          wrong += data[static_cast<size_t>(layout.offsetOf(i / 5) + i % 5)] !=
                   params.values.at(i);
        CHECK(wrong == 0);
        CHECK(std::count(data.begin(), data.end(), -1) ==
              static_cast<long>(elements) - 120);
        CHECK(gpu.gapsThatDiffer(memory.address(), DType::INT32, grid) == 0);
      }
    for (size_t at : {size_t(5), size_t(34), size_t(130), elements - 6}) {
      REQUIRE_FALSE(grid.isOfRow(static_cast<long long>(at)));
      data[at] = 0x00ffff01;
    }
    upload();
    CHECK(gpu.gapsThatDiffer(memory.address(), DType::INT32, grid) == 8);
  }

  TEST_CASE("what is not defined is compared with what was there") {
    Tools gpu;
    // 4 elements, of which 2 are not defined, before and after.
    constexpr uint64_t kBefore = 64, kReference = 128;
    DeviceMemory memory = must(DeviceMemory::allocate(*gpu.driver, 256));
    const double reference[8] = {1, 0, 0, 1, 1, -1, -1, 1};
    must(copyToDevice(*gpu.driver, memory.address() + kReference, reference,
                      sizeof(reference)));
    CompareToleranceParams params;
    params.type = DType::FP32;
    params.layout = {2, {2, 2}, {}, {}};
    params.rowEnd = 2;
    params.pattern = ~0u;
    params.d = reinterpret_cast<const void *>(memory.address());
    params.reference =
        reinterpret_cast<const double *>(memory.address() + kReference);
    params.bound = params.reference + 4;
    auto check = [&](std::vector<unsigned> codes) {
      must(copyToDevice(*gpu.driver, memory.address(), codes.data(), 16));
      return gpu.compare(params);
    };
    constexpr unsigned kOne = 0x3f800000;
    CompareResult result = check({kOne, ~0u, ~0u, kOne});
    CHECK(result.checked == 4);
    CHECK(result.mismatches == 0);
    CHECK(result.disturbed == 0);
    result = check({kOne, ~0u, 0xfeffffff, kOne});
    CHECK(result.mismatches == 0);
    CHECK(result.disturbed == 1);
    CHECK(result.firstDisturbed == 2);
    const unsigned before[4] = {0, 17, 18, 0};
    must(copyToDevice(*gpu.driver, memory.address() + kBefore, before,
                      sizeof(before)));
    params.before = reinterpret_cast<const void *>(memory.address() + kBefore);
    CHECK(check({kOne, 17, 18, kOne}).disturbed == 0);
    result = check({kOne, ~0u, 18, 0});
    CHECK(result.disturbed == 1);
    CHECK(result.firstDisturbed == 1);
    CHECK(result.mismatches == 1);
    CHECK(result.firstBad == 3);
  }

  TEST_CASE("vectors of every width convert alike, and so does software") {
    Tools gpu;
    struct Params {
      DeviceAddress codes, floats, back, wrong;
    };
    UnitParts unit;
    unit.name = "kiln_convert_test";
    unit.headers = kernelSources();
    unit.arch = gpu.device.archName();
    unit.entry = "kilnConvertTest";
    unit.source = R"(#include "common/Convert.cuh"
using namespace kiln;
template <DType kType, int kCount>
void move(const unsigned char *codes, float *floats, unsigned char *back) {
  for (int i = 0; i < 256; i += kCount) {
    float values[kCount];
    loadFloats<kType, kCount>(values, codes + i);
    for (int j = 0; j < kCount; ++j)
      floats[i + j] = values[j];
    storeFloats<kType, kCount>(back + i, values);
  }
}
template <DType kType>
void moveAll(const unsigned char *codes, float *floats, unsigned char *back) {
  move<kType, 1>(codes, floats, back);
  move<kType, 2>(codes, floats + 256, back + 256);
  move<kType, 4>(codes, floats + 512, back + 512);
  move<kType, 8>(codes, floats + 768, back + 768);
  move<kType, 16>(codes, floats + 1024, back + 1024);
}
struct Params {
  unsigned char *codes;
  float *floats;
  unsigned char *back;
  unsigned *wrong;
};
extern "C" __global__ void
kilnConvertTest(const __grid_constant__ Params params) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread == 0) {
    moveAll<DType::E4M3>(params.codes, params.floats, params.back);
    moveAll<DType::INT8>(params.codes, params.floats + 1280,
                         params.back + 1280);
  }
  // All of fp32.
  unsigned wrong = 0;
  for (unsigned i = 0; i < 4096; ++i) {
    float value = __uint_as_float(thread * 4096 + i);
    wrong += fromFloat<DType::E4M3>(value) != softE4m3OfFloat(value);
  }
  if (thread < 256)
    wrong += !isnan(softFloatOfE4m3(thread))
                 ? softFloatOfE4m3(thread) != toFloat<DType::E4M3>(thread)
                 : !isnan(toFloat<DType::E4M3>(thread));
  atomicAdd(params.wrong, wrong);
}
)";
    ArtifactPtr artifact = must(gpu.artifacts->get(TranslationUnit(unit)));
    Module module = must(Module::load(*gpu.driver, artifact->cubin));
    CudaFunction function = must(module.function("kilnConvertTest"));
    constexpr size_t kCodes = 256, kAll = 2 * 5 * kCodes;
    DeviceMemory memory =
        must(DeviceMemory::allocate(*gpu.driver, 5 * kAll + 2 * kCodes));
    Params params;
    params.floats = memory.address();
    params.back = params.floats + 4 * kAll;
    params.codes = params.back + kAll;
    params.wrong = params.codes + kCodes;
    uint8_t codes[kCodes];
    for (size_t i = 0; i < kCodes; ++i)
      codes[i] = static_cast<uint8_t>(i);
    unsigned wrong = 0;
    must(copyToDevice(*gpu.driver, params.codes, codes, sizeof(codes)));
    must(copyToDevice(*gpu.driver, params.wrong, &wrong, sizeof(wrong)));
    LaunchSpec spec;
    KernelStep &step = spec.addKernel(params);
    step.grid.x = 4096;
    step.block.x = 256;
    must(launch(*gpu.driver, spec, function, gpu.stream.handle()));
    must(gpu.stream.synchronize());
    std::vector<float> floats(kAll);
    std::vector<uint8_t> back(kAll);
    must(copyToHost(*gpu.driver, &wrong, params.wrong, sizeof(wrong)));
    must(copyToHost(*gpu.driver, floats.data(), params.floats, 4 * kAll));
    must(copyToHost(*gpu.driver, back.data(), params.back, kAll));
    CHECK(wrong == 0);
    for (size_t i = 0; i < kAll; ++i) {
      CAPTURE(i);
      DType type = i < kAll / 2 ? DType::E4M3 : DType::INT8;
      unsigned code = i % kCodes;
      double value = decode(type, code);
      // One NaN stands for both, and -128 is never stored.
      unsigned stored = std::isnan(value) ? 0x7f : code;
      if (type == DType::INT8 && value == -128)
        stored = 0x81;
      CHECK((std::isnan(value) ? std::isnan(floats[i]) : floats[i] == value));
      CHECK(back[i] == stored);
    }
  }

} // TEST_SUITE
