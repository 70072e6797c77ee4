// The right side where results differ: y = x by a kernel of the fake family, by
// its reference, and by the stand-in cuBLASLt as a product with a matrix that
// is the identity, or nearly so.
#include "compare/BenchJudge.h"

#include "Driver/Stream.h"
#include "Families/Families.h"
#include "Store/StoreFixture.h"
#include "Tools/PeerCase.h"
#include "Tools/Samples.h"
#include "Trial/TrialsFixture.h"
#include "compare/BenchPeer.h"
#include "compare/BenchReport.h"

#include <llvm/Support/raw_ostream.h>

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

namespace {

constexpr int64_t kRows = 48, kColumns = 32;

struct JudgeFixture : TrialsFixture {
  JudgeFixture()
      : stream(must(Stream::create(*driver))),
        tools(must(TrialTools::load(*driver, *artifacts, device))),
        loader(*driver), named{tried, makeProblem(*tried, "fake m=48 n=32")},
        product(DType::FP32, kRows, kColumns, kColumns) {
    TrialBufferOptions options;
    options.capBytes = 32 << 20;
    options.forTiming = false;
    buffers.emplace(must(TrialBuffers::create(
        *driver, tools, *tried, named.problem, options, stream.handle())));
    makePeer();
    loadKiln();
  }

  BenchVerdict judge() {
    const TimedLaunch kiln = [&](unsigned copy, CudaStream queue) {
      return plan->launch(buffers->arguments(copy), {}, queue);
    };
    return must(judgeSides({*driver, tools, device, *artifacts, loader}, named,
                           *buffers, kiln, peer->first(), stream.handle()));
  }

  /// Element (\p row, \p row) of what the peer multiplies with, else 1.
  void setPeerFactor(int64_t row, float factor) {
    matrix[row * kColumns + row] = factor;
  }

  Stream stream;
  TrialTools tools;
  KernelLoader loader;
  Registry::NamedProblem named;
  PeerCase product;
  std::optional<TrialBuffers> buffers;
  std::shared_ptr<const LoadedPlan> plan;
  std::unique_ptr<BenchPeer> peer;
  float *matrix = nullptr;
  std::vector<Arguments> arguments;

private:
  void makePeer() {
    product.fill();
    Arguments given = product.arguments();
    matrix = reinterpret_cast<float *>(given.operands[PeerCase::B].address);
    std::fill(matrix, matrix + kColumns * kColumns, 0.0f);
    for (int64_t row = 0; row < kColumns; ++row)
      setPeerFactor(row, 1);
    const Arguments own = buffers->arguments(0);
    given.operands[PeerCase::A].address = own.operands[kOperandX].address;
    given.operands[PeerCase::D].address = own.operands[kOperandY].address;
    arguments.push_back(given);
    peer = must(BenchPeer::create(*driver, fakeCublasLt(), product.product,
                                  {product.table, arguments, 0}, false));
  }
  void loadKiln() {
    const Plan made = makePlan(*tried, named.problem, "fast.t64", device);
    std::vector<ArtifactPtr> compiled;
    for (const TranslationUnit &unit : made.kernels)
      compiled.push_back(must(artifacts->get(unit)));
    plan = must(LoadedPlan::load(loader, made, compiled,
                                 static_cast<int32_t>(device.smCount),
                                 KernelLifetime::Users));
  }
};

/// A row with results that differ, as \p verdict says.
struct DifferingReport {
  explicit DifferingReport(BenchVerdict verdict) {
    BenchRow &row = report.rows.emplace_back();
    row.which = &which;
    row.kiln = row.peer = kiln::testing::takes(1000);
    row.agrees = false;
    row.correct = !verdict.isKilnWrong();
    row.verdict = std::move(verdict);
  }
  std::string text() const {
    std::string text;
    llvm::raw_string_ostream os(text);
    report.print(os);
    return os.str();
  }
  llvm::json::Object json() const {
    llvm::json::Object whole = report.toJson();
    return *whole.getArray("cases")->front().getAsObject();
  }

  Registry registry = makeBuiltinRegistry();
  Case which{"first", must(registry.parseProblem(
                          "gemm m=48 n=32 k=32 dtype=fp32 layout=NT"))};
  BenchReport report;
};

} // namespace

TEST_CASE("a peer whose results are wrong is told from Kiln") {
  JudgeFixture test;
  BenchVerdict verdict = test.judge();
  CHECK(verdict.unknown == "");
  CHECK_FALSE(verdict.isKilnWrong());
  CHECK_FALSE(verdict.isPeerWrong());
  CHECK(verdict.text().find("both are right: ") == 0);
  CHECK(verdict.details() == "");

  test.setPeerFactor(5, 1.5f);
  verdict = test.judge();
  CHECK_FALSE(verdict.isKilnWrong());
  CHECK(verdict.isPeerWrong());
  CHECK(verdict.kiln.maxErrorRatio <= 1);
  CHECK(verdict.peer.maxErrorRatio > 1);
  CHECK(verdict.text().find("peer is wrong: ") == 0);
  CHECK(verdict.text().find(" beside Kiln's ") != std::string::npos);
  CHECK(verdict.details().find("column 5") != std::string::npos);
}

TEST_CASE("Kiln is wrong where the reference is with the peer") {
  JudgeFixture test;
  test.trials.misdeeds["fast.t64"] = Misdeed::WrongValue;
  BenchVerdict verdict = test.judge();
  CHECK(verdict.isKilnWrong());
  CHECK_FALSE(verdict.isPeerWrong());
  CHECK(verdict.text().find("Kiln is wrong: ") == 0);

  test.setPeerFactor(5, 1.5f);
  CHECK(test.judge().text().find("both are wrong: ") == 0);
}

TEST_CASE("a reference that cannot be had says nothing") {
  JudgeFixture test;
  test.nvrtc.failWhen("// reference", "no such thing");
  const BenchVerdict verdict = test.judge();
  CHECK(verdict.text() == "not judged");
  CHECK(verdict.details() != "");
  CHECK_FALSE(verdict.isKilnWrong());
  CHECK_FALSE(verdict.isPeerWrong());
}

TEST_CASE("a report tells who is wrong, and fails only for Kiln") {
  BenchVerdict verdict;
  verdict.kiln.maxErrorRatio = 0.242;
  verdict.peer = {TrialStatus::Wrong, 13.4, "3 of 9 elements are wrong"};
  const DifferingReport peer(verdict);
  CHECK(peer.report.exitCode() == 0);
  CHECK(peer.text().find("peer is wrong: 13 beside Kiln's 0.24; peer: 3 of 9 "
                         "elements are wrong\n") != std::string::npos);
  CHECK(peer.json().getString("verdict") == "peer is wrong");
  CHECK(peer.json().getNumber("kiln_error") == 0.242);
  CHECK(peer.json().getNumber("peer_error") == 13.4);

  std::swap(verdict.kiln, verdict.peer);
  const DifferingReport kiln(verdict);
  CHECK(kiln.report.exitCode() == 1);
  CHECK(kiln.text().find("Kiln is wrong: 13 beside the peer's 0.24") !=
        std::string::npos);
  CHECK(kiln.json().getBoolean("correct") == false);

  // A result that was not written has no error that JSON knows.
  verdict.kiln = {TrialStatus::NotWritten,
                  std::numeric_limits<double>::infinity(), "not written"};
  CHECK(DifferingReport(verdict).json().get("kiln_error")->getAsNull());

  verdict.kiln = {};
  const DifferingReport both(verdict);
  CHECK(both.report.exitCode() == 0);
  CHECK(both.json().getString("verdict") == "both are right");

  verdict.unknown = "not validated within the time limit";
  const DifferingReport unknown(verdict);
  CHECK(unknown.text().find("yes, peer differs") != std::string::npos);
  CHECK(unknown.text().find("not judged; not validated within") !=
        std::string::npos);
  CHECK(unknown.json().getString("verdict") == "not judged");
  CHECK_FALSE(unknown.json().get("kiln_error"));
}
