#include "compare/CublasLt.h"

#include "Tools/PeerCase.h"

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

namespace {

struct LibraryFixture {
  LibraryFixture() : library(fakeCublasLt()) {
    kilnFakeCublasLtSetVersion(130002);
  }
  ~LibraryFixture() { kilnFakeCublasLtSetVersion(130002); }

  std::unique_ptr<CublasLtMatmul> make(PeerCase &test) {
    return must(CublasLtMatmul::create(library, test.product, test.table, 0));
  }
  /// Why the library, or what is known of it, refuses.
  std::string refusal(PeerCase &test) {
    auto matmul = CublasLtMatmul::create(library, test.product, test.table, 0);
    if (!matmul)
      return summarize(matmul.takeError()).message;
    auto algorithms = (*matmul)->algorithms(1);
    return algorithms ? "" : summarize(algorithms.takeError()).message;
  }
  /// Runs it and compares every element with Kiln's definition.
  void run(PeerCase &test) {
    test.fill();
    auto matmul = make(test);
    auto algorithms = must(matmul->algorithms(1));
    REQUIRE(algorithms.size() == 1);
    must(matmul->launch(algorithms.front(), test.arguments(), 0, nullptr));
    for (int64_t row = 0; row < test.product.m; ++row)
      for (int64_t col = 0; col < test.product.n; ++col) {
        const double expected = test.expected(row, col);
        const double found = test.at(PeerCase::D, row * test.product.n + col);
        if (found != doctest::Approx(expected).epsilon(1e-5)) {
          CAPTURE(row);
          CAPTURE(col);
          REQUIRE(found == doctest::Approx(expected).epsilon(1e-5));
        }
      }
  }
  static const KilnFakeMatmul &last() { return *kilnFakeCublasLtLast(); }

  std::shared_ptr<const CublasLt> library;
};

} // namespace

static bool says(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("fp8 without scales is one product, summed in full") {
  LibraryFixture f;
  PeerCase test(DType::E4M3, 12, 20, 64);
  f.run(test);
  CHECK(f.last().computeType == 68);
  CHECK(f.last().scaleType == 0);
  CHECK(f.last().transA == 1);
  CHECK(f.last().transB == 0);
  CHECK(f.last().fastAccumulation == 0);
  CHECK(f.last().scaleA == nullptr);
  CHECK(f.last().scaleModeA == 0);
  // Its A is Kiln's B.
  CHECK(kilnFakeCublasLtLastLayout(0)->cols == 20);
  CHECK(kilnFakeCublasLtLastLayout(0)->type == 28);
  CHECK(kilnFakeCublasLtLastLayout(1)->cols == 12);
}

TEST_CASE("e5m2 changes places with its operand") {
  LibraryFixture f;
  PeerCase test(DType::E5M2, 12, 20, 64);
  test.setTypeB(DType::E4M3);
  f.run(test);
  CHECK(kilnFakeCublasLtLastLayout(0)->type == 28);
  CHECK(kilnFakeCublasLtLastLayout(1)->type == 29);
}

TEST_CASE("sums are fast where the problem's are, and nowhere else") {
  LibraryFixture f;
  PeerCase test(DType::E4M3, 12, 20, 64);
  test.product.compute = ComputeMode::FastFp8;
  f.run(test);
  CHECK(f.last().fastAccumulation == 1);
}

TEST_CASE("scales of tensors are the other operand's") {
  LibraryFixture f;
  PeerCase test(DType::E4M3, 12, 20, 64);
  test.scaleA(ScaleKind::Tensor);
  test.scaleB(ScaleKind::Tensor);
  f.run(test);
  auto address = [&](int operand) {
    return reinterpret_cast<const float *>(
        test.arguments().operands[operand].address);
  };
  CHECK(f.last().scaleA == address(PeerCase::ScaleB));
  CHECK(f.last().scaleB == address(PeerCase::ScaleA));
  CHECK(f.last().scaleModeA == 0);
  CHECK(f.last().scaleModeB == 0);
  // One of them is enough, and needs no new library.
  kilnFakeCublasLtSetVersion(120600);
  PeerCase one(DType::E4M3, 12, 20, 64);
  one.scaleB(ScaleKind::Tensor);
  f.run(one);
  CHECK(f.last().scaleA != nullptr);
  CHECK(f.last().scaleB == nullptr);
}

TEST_CASE("scales of rows are vectors") {
  LibraryFixture f;
  PeerCase test(DType::E4M3, 13, 20, 64);
  test.scaleA(ScaleKind::Row);
  test.scaleB(ScaleKind::Row);
  f.run(test);
  CHECK(f.last().scaleModeA == 3);
  CHECK(f.last().scaleModeB == 3);
  test.scaleB(ScaleKind::Tensor);
  CHECK(says(f.refusal(test), "for both operands"));
}

TEST_CASE("block scales lie where the library reads them") {
  LibraryFixture f;
  // Three steps of k, the last of them a part; blocks of columns likewise.
  PeerCase test(DType::E4M3, 8, 264, 304);
  test.scaleBlocks();
  CHECK(test.product.scalesB.ld == 4);
  f.run(test);
  CHECK(f.last().scaleModeA == 5);
  CHECK(f.last().scaleModeB == 4);
  PeerCase larger(DType::E4M3, 132, 132, 640);
  larger.scaleBlocks();
  CHECK(larger.product.scalesB.ld == 8);
  f.run(larger);
}

TEST_CASE("block scales that lie elsewhere are refused, with the place") {
  LibraryFixture f;
  PeerCase test(DType::E4M3, 8, 264, 304);
  test.scaleBlocks();
  CHECK(f.refusal(test) == "");
  test.scaleA(ScaleKind::Block1x128);
  CHECK(says(f.refusal(test), "scale_order_a=rows ldsa=8"));
  test.scaleA(ScaleKind::Block1x128, true, 12);
  CHECK(says(f.refusal(test), "scale_order_a=rows ldsa=8"));
  test.scaleA(ScaleKind::Block1x128, true);
  test.scaleB(ScaleKind::Block128x128);
  CHECK(says(f.refusal(test), "scale_order_b=k ldsb=4"));
  test.scaleB(ScaleKind::Block128x128, true);
  CHECK(says(f.refusal(test), "scale_order_b=k ldsb=4"));
  // One line of blocks has no step to the next.
  PeerCase narrow(DType::E4M3, 8, 64, 304);
  narrow.scaleBlocks();
  narrow.scaleB(ScaleKind::Block128x128);
  f.run(narrow);
  PeerCase odd(DType::E4M3, 1, 256, 256);
  odd.scaleBlocks();
  CHECK(says(f.refusal(odd), "multiples of 4, not m=1 n=256"));
}

TEST_CASE("scales of rows and blocks need a library that knows them") {
  LibraryFixture f;
  kilnFakeCublasLtSetVersion(120803);
  PeerCase rows(DType::E4M3, 16, 32, 64);
  rows.scaleA(ScaleKind::Row);
  rows.scaleB(ScaleKind::Row);
  CHECK(says(f.refusal(rows), "from 12.9 on"));
  PeerCase blocks(DType::E4M3, 16, 32, 128);
  blocks.scaleBlocks();
  CHECK(says(f.refusal(blocks), "from 12.9 on"));
  kilnFakeCublasLtSetVersion(120900);
  CHECK(f.refusal(rows) == "");
  CHECK(f.refusal(blocks) == "");
}

TEST_CASE("what the library does not multiply is refused") {
  LibraryFixture f;
  PeerCase test(DType::E5M2, 16, 32, 64);
  CHECK(says(f.refusal(test), "e5m2 with e4m3 alone"));
  PeerCase turned(DType::E4M3, 16, 32, 64);
  turned.product.layout = Layout::NN;
  CHECK(says(f.refusal(turned), "layout NT"));
  PeerCase biased(DType::E4M3, 16, 32, 64);
  biased.product.epilogue.ops[0] = PointwiseOp::Bias;
  CHECK(says(f.refusal(biased), "fp32 bias"));
  biased.setOut(DType::BF16);
  CHECK(f.refusal(biased) == "");
  PeerCase batch(DType::E4M3, 16, 32, 64);
  batch.scaleA(ScaleKind::Tensor);
  batch.product.batch = 2;
  CHECK(says(f.refusal(batch), "of a batch"));
  // An error of the library itself: rows that do not divide by 16 bytes.
  PeerCase ragged(DType::E4M3, 16, 32, 72);
  CHECK(says(f.refusal(ragged), "CUBLAS_STATUS_NOT_SUPPORTED"));
}

TEST_CASE("the least alignment of all operands is promised") {
  LibraryFixture f;
  PeerCase test(DType::E4M3, 16, 32, 64);
  test.table.operands[PeerCase::A].misalignment = 8;
  CHECK(says(f.refusal(test), "CUBLAS_STATUS_NOT_SUPPORTED"));
}

TEST_CASE("int8 becomes int32 with factors of its type") {
  LibraryFixture f;
  PeerCase test(DType::INT8, 12, 20, 68);
  f.run(test);
  CHECK(f.last().computeType == 72);
  CHECK(f.last().scaleType == 10);
  CHECK(kilnFakeCublasLtLastLayout(3)->type == 10);
  test.setOut(DType::BF16);
  CHECK(says(f.refusal(test), "int8 to int32, not to bf16"));
  test.setOut(DType::INT32);
  test.scaleA(ScaleKind::Row);
  CHECK(says(f.refusal(test), "scales with fp8, not with int8"));
}

TEST_CASE("wider types are asked for as before") {
  LibraryFixture f;
  PeerCase test(DType::FP32, 5, 7, 9);
  f.run(test);
  CHECK(f.last().computeType == 68);
  test.product.compute = ComputeMode::TF32;
  f.run(test);
  CHECK(f.last().computeType == 77);
  test.scaleA(ScaleKind::Tensor);
  CHECK(says(f.refusal(test), "scales with fp8, not with fp32"));
}
