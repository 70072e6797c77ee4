// Planes, integers and elements that are not defined, in trials.
#include "Trial/TrialsFixture.h"

#include "Driver/Stream.h"
#include "Trial/TrialBuffers.h"

using namespace kiln;
using namespace kiln::fake;

namespace {

/// z has 4 planes of 12 rows, which interleave.
struct PlanesFixture : TrialsFixture {
  PlanesFixture() {
    options->second = DType::FP32;
    options->planes = 4;
  }
};

bool isWithin(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("rows of planes that interleave are no gaps") {
  for (DType type : {DType::FP32, DType::INT8})
    for (bool accumulates : {false, true}) {
      PlanesFixture f;
      f.options->second = type;
      f.options->accumulates = accumulates && type == DType::FP32;
      TrialResult result = f.tryMisdeed(Misdeed::None);
      CAPTURE(result.message);
      CHECK(result.status == TrialStatus::Ok);
      CHECK(result.validated);
    }
}

TEST_CASE("gaps between planes are guarded") {
  PlanesFixture f;
  TrialResult result = f.tryMisdeed(Misdeed::PadsSecond);
  CHECK(result.status == TrialStatus::OutOfBounds);
  CHECK(result.message == "8 bytes outside of the operands changed");
}

TEST_CASE("a wrong element of a plane is named by its plane") {
  PlanesFixture f;
  TrialResult result = f.tryMisdeed(Misdeed::WrongSecond);
  CAPTURE(result.message);
  CHECK(result.status == TrialStatus::Wrong);
  CHECK(isWithin(result.message,
                 "z: 1 of 1584 elements are wrong, the first in row 11, "
                 "column 32 of plane 3,"));
  result = f.tryMisdeed(Misdeed::LeavesSecond);
  CHECK(result.status == TrialStatus::NotWritten);
  CHECK(isWithin(result.message, "the first in row 0, column 0 of plane 0"));
}

TEST_CASE("planes come in slabs as rows do") {
  PlanesFixture f;
  f.runnerOptions.scratchBytes = 120 << 10;
  CHECK(f.tryMisdeed(Misdeed::None).status == TrialStatus::Ok);
  CHECK(f.trials.references > 2);
  TrialResult result = f.tryMisdeed(Misdeed::WrongSecond);
  CHECK(isWithin(result.message, "row 11, column 32 of plane 3"));
}

TEST_CASE("what is not defined has to be left as it was") {
  for (int64_t planes : {1, 4})
    for (bool accumulates : {false, true}) {
      CAPTURE(planes);
      CAPTURE(accumulates);
      TrialsFixture f;
      f.options->second = DType::FP32;
      f.options->planes = planes;
      f.options->accumulates = accumulates;
      f.options->undefinedRows = 5;
      TrialResult result = f.tryMisdeed(Misdeed::None);
      CAPTURE(result.message);
      CHECK(result.status == TrialStatus::Ok);
      result = f.tryMisdeed(Misdeed::FillsSecond);
      CHECK(result.status == TrialStatus::Wrong);
      CHECK(result.message ==
            std::string("z: 165 elements that are not defined were written, "
                        "the first in row ") +
                (planes == 1 ? "43, column 0" : "7, column 0 of plane 3"));
      // Defined elements are checked first.
      result = f.tryMisdeed(Misdeed::LeavesSecond);
      CHECK(result.status ==
            (accumulates ? TrialStatus::Wrong : TrialStatus::NotWritten));
      CHECK(isWithin(result.message, "z: 1419 of 1584 elements are "));
    }
}

TEST_CASE("operands of integers are filled with what they mean") {
  TrialsFixture f;
  f.options->integers = IntegerInit{IntegerData::Offsets, 0, 40, 60};
  f.options->integerCount = 4;
  TrialRequest request = f.request({"fast.t64"});
  request.options.measure = false;
  CHECK(f.run(request)[0].status == TrialStatus::Ok);
  auto lastFill = [&] {
    REQUIRE_FALSE(f.trials.integerFills.empty());
    const FillIntegersParams &fill = f.trials.integerFills.back();
    CHECK(fill.layout.rowCount() * fill.layout.cols == 4);
    CHECK(fill.type == DType::INT32);
    const auto *data = static_cast<const int *>(fill.data);
    return std::vector<int>(data, data + 4);
  };
  CHECK(lastFill() == std::vector<int>{0, 20, 40, 60});
  request.options.data = TrialData::Outliers;
  CHECK(f.run(request)[0].status == TrialStatus::Ok);
  CHECK(lastFill()[1] == 40);
  CHECK(lastFill()[2] == 40);
  CHECK(lastFill()[3] <= 60);
}

TEST_CASE("integers that nobody described are an error") {
  TrialsFixture f;
  f.options->integers = IntegerInit{};
  f.options->integerCount = 4;
  CHECK(codeOf(f.runner().run(f.request({"fast.t64"}))) ==
        ErrorCode::Unsupported);
}

TEST_CASE("copies are counted by what operands occupy") {
  auto copiesFor = [](int64_t gap) {
    TrialsFixture f;
    TrialTools tools =
        must(TrialTools::load(*f.driver, *f.artifacts, f.device));
    Stream stream = must(Stream::create(*f.driver));
    FakeOptions options;
    options.second = DType::FP32;
    options.gapZ = gap;
    FakeFamily family(options);
    Problem problem = makeProblem(family, "fake m=48 n=33");
    TrialBufferOptions bufferOptions;
    bufferOptions.capBytes = 32 << 20;
    bufferOptions.l2Bytes = 8 << 10;
    return must(TrialBuffers::create(*f.driver, tools, family, problem,
                                     bufferOptions, stream.handle()))
        .copies();
  };
  CHECK(copiesFor(0) > 2);
  CHECK(copiesFor(100) == copiesFor(0));
}
