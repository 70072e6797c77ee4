#include "compare/BenchPeer.h"

#include "Driver/Stream.h"
#include "Store/FakeDevice.h"
#include "Tools/PeerCase.h"

using namespace kiln;
using namespace kiln::cli;
using namespace kiln::fake;

TEST_CASE("int8 is summed into results of the peer's own, one for each copy") {
  FakeDevice device;
  PeerCase test(DType::INT8, 12, 20, 64);
  // As a problem has it: scales, and a result that cuBLASLt does not know.
  test.setOut(DType::BF16);
  test.scaleA(ScaleKind::Row);
  test.scaleB(ScaleKind::Row);
  test.product.alpha = 0.5;
  test.fill();
  const std::vector<Arguments> arguments(2, test.arguments());
  auto peer = must(BenchPeer::create(*device.driver, fakeCublasLt(),
                                     test.product, {test.table, arguments, 0},
                                     /*allAlgorithms=*/true));
  CHECK(peer->otherKind().find("int32 sums without scales") !=
        std::string::npos);
  CHECK(peer->algorithmCount() == 2);
  Stream stream = must(Stream::create(*device.driver));
  must(peer->first()(0, stream.handle()));
  must(peer->first()(1, stream.handle()));
  CHECK(kilnFakeCublasLtLast()->scaleA == nullptr);
  CHECK(kilnFakeCublasLtLastLayout(3)->type == 10);
  CHECK(kilnFakeCublasLtLastLayout(3)->ld == 20);
}

TEST_CASE("fp8 runs on the problem's own operands") {
  FakeDevice device;
  PeerCase test(DType::E4M3, 8, 16, 128);
  test.scaleBlocks();
  test.fill();
  const std::vector<Arguments> arguments(1, test.arguments());
  auto peer = must(BenchPeer::create(*device.driver, fakeCublasLt(),
                                     test.product, {test.table, arguments, 0},
                                     /*allAlgorithms=*/false));
  CHECK(peer->otherKind() == "");
  Stream stream = must(Stream::create(*device.driver));
  must(peer->first()(0, stream.handle()));
  CHECK(test.at(PeerCase::D, 17) ==
        doctest::Approx(test.expected(1, 1)).epsilon(1e-5));
}

TEST_CASE("what the library refuses is why there is no peer") {
  FakeDevice device;
  PeerCase test(DType::E4M3, 8, 16, 128);
  test.scaleA(ScaleKind::Block1x128);
  test.scaleB(ScaleKind::Block128x128);
  const std::vector<Arguments> arguments(1, test.arguments());
  auto peer = BenchPeer::create(*device.driver, fakeCublasLt(), test.product,
                                {test.table, arguments, 0}, false);
  REQUIRE_FALSE(peer);
  CHECK(summarize(peer.takeError()).code == ErrorCode::Unsupported);
}
