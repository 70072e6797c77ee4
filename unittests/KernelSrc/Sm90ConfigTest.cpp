//===- Sm90ConfigTest.cpp - rules and sizes of the wgmma config -----------===//

#include "common/Swizzle.cuh"
#include "gemm/RepackConfig.h"
#include "gemm/Sm90GemmConfig.h"
#include "gemm/Sm90GemmParams.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <vector>

using namespace kiln;

namespace {

GemmSignature signatureOf(DType out, Layout layout = Layout::NT,
                          int alignD = 16) {
  GemmSignature signature;
  signature.out = out;
  signature.layout = layout;
  signature.alignD = alignD;
  return signature;
}

GemmSignature withChain(GemmSignature signature, PointwiseChain chain,
                        bool readsC = false) {
  signature.pointwise = chain;
  signature.readsC = readsC;
  return signature;
}

/// fp32 data in tf32 mode.
GemmSignature tf32Signature(Layout layout = Layout::NT, int alignD = 16) {
  GemmSignature signature = signatureOf(DType::FP32, layout, alignD);
  signature.in = DType::FP32;
  signature.compute = ComputeMode::TF32;
  return signature;
}

/// One signature of each kind that changes a size.
std::vector<GemmSignature> signatures() {
  using Op = PointwiseOp;
  std::vector<GemmSignature> all;
  for (DType out : {DType::BF16, DType::FP32}) {
    for (Layout layout : {Layout::NN, Layout::NT, Layout::TN, Layout::TT})
      all.push_back(signatureOf(out, layout));
    all.push_back(signatureOf(out, Layout::NT, bytesOf(out)));
    all.push_back(withChain(signatureOf(out), {{Op::SwiGlu}}));
    all.push_back(withChain(signatureOf(out), {{Op::Bias, Op::Residual}}));
    all.push_back(withChain(signatureOf(out), {{Op::Residual}}, true));
  }
  for (Layout layout : {Layout::NN, Layout::NT, Layout::TN, Layout::TT})
    all.push_back(tf32Signature(layout));
  all.push_back(tf32Signature(Layout::TT, 4));
  all.push_back(withChain(tf32Signature(), {{Op::Residual}}, true));
  return all;
}

/// Calls \p visit with every config that isValid() accepts for \p signature,
/// over all tiles and roles.
template <class F> int forEachValid(const GemmSignature &signature, F visit) {
  int count = 0;
  Sm90GemmConfig c;
  c.stages = 3;
  for (c.swapAB = 0; c.swapAB < 2; ++c.swapAB)
    for (c.blockK = 32; c.blockK <= 128; c.blockK *= 2)
      for (c.blockM = 8; c.blockM <= 448; c.blockM += 8)
        for (c.blockN = 8; c.blockN <= 448; c.blockN += 8)
          for (c.consumers = 1; c.consumers <= 3; ++c.consumers)
            for (int kind = 0; kind < 12; ++kind) {
              c.pingPong = kind == 1 || kind == 5;
              c.clusterM = kind == 2 || kind == 5 || kind == 7 ? 2 : 1;
              c.clusterN = kind == 3 || kind == 7 ? 2 : 1;
              c.splits = kind == 6 ? 3 : kind == 4 ? 16 : 0;
              c.columnShared = kind >= 8 && kind <= 10;
              c.staging = kind >= 9 ? kind % 2 + 1 : 0;
              if (!c.isValid(signature))
                continue;
              ++count;
              visit(c);
            }
  return count;
}

constexpr int kSwizzleAtom = 1024;

/// Boxes of one side's tile: whole swizzle atoms, of at most 256 rows.
bool areBoxesGood(bool kMajor, int extent, int sharers, int blockK,
                  int elementBytes) {
  int elements = Slab::elements(elementBytes);
  int boxRows = kMajor ? Slab::boxRows(extent / sharers) : blockK;
  int boxes = kMajor ? extent / sharers / boxRows * (blockK / elements)
                     : extent / elements / sharers;
  int bytes = boxes * boxRows * Slab::kBytes;
  return boxRows % 8 == 0 && boxRows <= 256 && boxes > 0 &&
         bytes * sharers == extent * blockK * elementBytes;
}

/// Checks that pieces cover a consumer's columns without a gap. They overlap
/// only if no operand of D's shape is read, which an earlier piece could have
/// overwritten, and if no splits keep sums of them.
bool doPiecesCover(const Sm90GemmConfig &c, const GemmSignature &s) {
  int piece = c.pieceColumns(s), covered = 0;
  bool mayOverlap = !s.readsC && !s.pointwise.contains(PointwiseOp::Residual) &&
                    c.splitK() == 1;
  for (int i = 0; i < c.unitPieces(piece); ++i) {
    int begin = c.pieceBegin(i, piece);
    if (begin < 0 || begin > covered || begin % 8 != 0 ||
        (begin < covered && !mayOverlap))
      return false;
    covered = begin + piece;
  }
  return covered == c.consumerColumns();
}

/// Pieces of 64 rows cover the columns, and their boxes fill a buffer.
bool arePiecesGood(const Sm90GemmConfig &c, const GemmSignature &s) {
  int piece = c.pieceColumns(s), joined = s.columnsPerOutput();
  int out = bytesOf(s.out);
  if (piece < 8 || !doPiecesCover(c, s) || piece % joined != 0)
    return false;
  int rowBytes = c.swapAB ? Slab::kBytes : piece / joined * out;
  int boxRows = c.swapAB ? piece : Sm90GemmConfig::kUnit;
  int boxes = c.swapAB ? Sm90GemmConfig::kUnit * out / rowBytes : 1;
  bool isSwizzled = rowBytes == 32 || rowBytes == 64 || rowBytes == 128;
  int stored = c.storedRows(s); // of D's rows at once
  return isSwizzled && boxRows % stored == 0 && stored * rowBytes % 128 == 0 &&
         boxRows <= 256 &&
         boxes * boxRows * rowBytes ==
             Sm90GemmConfig::kUnit * piece / joined * out &&
         boxes * boxRows * rowBytes <= c.pieceBytes(s) &&
         c.pieceBytes(s) % kSwizzleAtom == 0;
}

/// Checks that staging lies behind the ring, or in its place for a block with
/// one tile.
bool isStagingGood(const Sm90GemmConfig &c, const GemmSignature &s) {
  bool waits = c.fetchedOperands(s) > 0;
  if (c.staging != 0 && waits)
    return false;
  if (c.staging != 2)
    return c.tileBytes(s) == c.ringBytes(s) + c.stagingBytes(s);
  return c.tileBytes(s) == c.ringBytes(s) && !c.pingPong && c.splitK() == 1 &&
         c.multicastBlocks() == 1 && c.stagingBytes(s) <= c.ringBytes(s);
}

bool isTileGood(const Sm90GemmConfig &c, const GemmSignature &s) {
  int stacked = c.pingPong || c.columnShared ? 1 : c.consumers;
  int beside = c.columnShared ? c.consumers : 1;
  return c.units() > 0 &&
         c.units() * Sm90GemmConfig::kUnit * stacked == c.rows() &&
         c.consumerColumns() * beside == c.columns() &&
         c.consumerColumns() % 8 == 0 && c.consumerColumns() <= 256 &&
         c.rowTileBytes(s) % kSwizzleAtom == 0 &&
         c.columnTileBytes(s) % kSwizzleAtom == 0;
}

/// Checks that the registers that setmaxnreg distributes fit an SM, and that
/// they hold the sums.
bool areRegistersGood(const Sm90GemmConfig &c) {
  if (!c.tradesRegisters())
    return c.accumulators() <= 192;
  int sum = c.consumers * Sm90GemmConfig::kWarpgroup * c.consumerRegisters() +
            Sm90GemmConfig::kWarpgroup * c.producerRegisters();
  return sum <= 65536 && c.accumulators() + 40 <= c.consumerRegisters();
}

} // namespace

TEST_CASE("every tile that is valid is cut into whole boxes and pieces") {
  for (const GemmSignature &s : signatures()) {
    CAPTURE(static_cast<int>(s.layout));
    CAPTURE(static_cast<int>(s.out));
    CAPTURE(s.pointwise.size());
    int seen = forEachValid(s, [&](const Sm90GemmConfig &c) {
      bool rows = areBoxesGood(c.isRowSideKMajor(s), c.rows(),
                               c.clusterColumns(), c.blockK, bytesOf(s.in));
      bool columns = areBoxesGood(c.isColumnSideKMajor(s), c.columns(),
                                  c.clusterRows(), c.blockK, bytesOf(s.in));
      if (rows && columns && arePiecesGood(c, s) && isTileGood(c, s) &&
          isStagingGood(c, s) && areRegistersGood(c) && c.threads() <= 512)
        return;
      FAIL_CHECK("bm" << c.blockM << " bn" << c.blockN << " bk" << c.blockK
                      << " wg" << c.consumers << " pp" << c.pingPong << " sw"
                      << c.swapAB << " cm" << c.clusterM << " cn" << c.clusterN
                      << " sk" << c.splits << " cs" << c.columnShared << " sg"
                      << c.staging);
    });
    CHECK(seen > 50);
  }
}

TEST_CASE("pieces of exchanged sides are even, or divide what is read") {
  GemmSignature bf16 = signatureOf(DType::BF16);
  GemmSignature residual = withChain(bf16, {{PointwiseOp::Residual}});
  auto piece = [&](int columns, const GemmSignature &s, int splits = 0) {
    Sm90GemmConfig c{
        .blockM = columns, .blockN = 64, .consumers = 1, .swapAB = 1};
    c.splits = splits;
    CHECK(c.isValid(s));
    return c.pieceColumns(s);
  };
  CHECK(piece(72, bf16) == 40);
  CHECK(piece(104, bf16) == 56);
  CHECK(piece(136, bf16) == 48);
  CHECK(piece(152, bf16) == 56);
  CHECK(piece(200, bf16) == 56);
  CHECK(piece(208, bf16) == 56);
  CHECK(piece(248, bf16) == 64);
  CHECK(piece(72, residual) == 24);
  CHECK(piece(80, residual) == 40);
  CHECK(piece(88, residual) == 88);
  CHECK(piece(104, residual) == 104);
  CHECK(piece(176, residual) == 88);
  CHECK(piece(160, residual) == 32);
  CHECK(piece(200, residual) == 40);
  CHECK(piece(40, bf16, 2) == 40);
  // Pieces divide one consumer's columns.
  Sm90GemmConfig shared{.blockM = 160,
                        .blockN = 128,
                        .consumers = 2,
                        .swapAB = 1,
                        .columnShared = 1};
  CHECK(shared.isValid(bf16));
  CHECK(shared.consumerColumns() == 80);
  CHECK(shared.pieceColumns(bf16) == 40);
  CHECK(shared.accumulators() == 2 * 40);
}

TEST_CASE("pieces are as wide as a line of D, and narrower for splits") {
  GemmSignature bf16 = signatureOf(DType::BF16),
                fp32 = signatureOf(DType::FP32);
  GemmSignature joined = withChain(bf16, {{PointwiseOp::SwiGlu}});
  auto piece = [](int columns, const GemmSignature &s, int splits = 0) {
    Sm90GemmConfig c;
    c.blockN = columns;
    c.splits = splits;
    CHECK(c.isValid(s));
    return c.pieceColumns(s);
  };
  CHECK(piece(256, bf16) == 64);
  CHECK(piece(192, bf16) == 64);
  CHECK(piece(96, bf16) == 32);
  CHECK(piece(160, bf16) == 32);
  CHECK(piece(176, bf16) == 64); // at 0, 64 and 112
  CHECK(piece(48, bf16) == 32);
  CHECK(piece(24, bf16) == 16);  // at 0 and 8
  CHECK(piece(232, bf16) == 64); // at 0, 64, 128 and 168
  CHECK(piece(200, fp32) == 32);
  CHECK(piece(176, withChain(bf16, {{PointwiseOp::Residual}})) == 16);
  CHECK(piece(256, bf16, 2) == 64);
  CHECK(piece(256, bf16, 16) == 32);
  CHECK(piece(128, bf16, 32) == 16);
  CHECK(piece(176, bf16, 2) == 16);
  CHECK(piece(256, fp32) == 32);
  CHECK(piece(176, fp32) == 32);
  CHECK(piece(256, joined) == 128);
  CHECK(piece(192, joined) == 64);
  CHECK(piece(224, joined) == 32);
  auto swapped = [&](int columns, int splits = 0) {
    Sm90GemmConfig c{.blockM = columns, .blockN = 128, .swapAB = 1};
    c.splits = splits;
    CHECK(c.isValid(bf16));
    return c.pieceColumns(bf16);
  };
  CHECK(swapped(8) == 8);
  CHECK(swapped(24) == 24);
  CHECK(swapped(24, 2) == 24);
  CHECK(swapped(48) == 48);
  CHECK(swapped(96) == 48);
  CHECK(swapped(112) == 56);
  CHECK(swapped(128) == 64);
  CHECK(swapped(128, 8) == 32);
}

TEST_CASE("the wgmma config's sizes") {
  GemmSignature bf16 = signatureOf(DType::BF16);
  Sm90GemmConfig c;
  CHECK(c.threads() == 384);
  CHECK(c.accumulators() == 128);
  CHECK(c.stageBytes(bf16) == (128 + 256) * 64 * 2);
  // Two consumers with two buffers of 64 x 64; 2 * 4 + 8 + 2 barriers.
  CHECK(c.stagingBytes(bf16) == 4 * 64 * 64 * 2);
  CHECK(c.sharedBytes(bf16) == 1024 + 4 * 49152 + 32768 + 18 * 8);
  // C and the residual are loaded to where pieces are staged, with three
  // buffers each; a single operand has one buffer for each of four pieces.
  GemmSignature both = withChain(bf16, {{PointwiseOp::Residual}}, true);
  CHECK(c.fetchedOperands(both) == 2);
  CHECK(c.stagingBuffers(both) == 3);
  CHECK(c.stagingBytes(both) == 3 * 32768);
  GemmSignature one = withChain(bf16, {{PointwiseOp::Residual}});
  CHECK(c.stagingBuffers(one) == 4);
  CHECK(c.stagingBytes(one) == 2 * 32768);
  CHECK(c.barrierBytes(one) == (2 * 4 + 2 * 2 * 4 + 2) * 8);
  // One buffer, or two in the place of the ring, leave more room for stages.
  c.staging = 1;
  CHECK(c.sharedBytes(bf16) == 1024 + 4 * 49152 + 16384 + 14 * 8);
  CHECK_FALSE(c.isValid(one));
  c.staging = 2;
  CHECK(c.sharedBytes(bf16) == 1024 + 4 * 49152 + 18 * 8);
  c.staging = 0;
  Sm90GemmConfig small{.blockM = 64, .blockN = 64, .consumers = 1};
  CHECK(small.pieces(one) == 1);
  CHECK(small.stagingBuffers(one) == 2);
  both.alignD = 8;
  CHECK(c.fetchedOperands(both) == 0);
  CHECK(c.fetchedOperands(withChain(
            bf16, {{PointwiseOp::SwiGlu, PointwiseOp::Residual}})) == 0);
  // Half a swizzle atom is rounded up to one.
  Sm90GemmConfig thin{.blockM = 8, .blockN = 64, .consumers = 1, .swapAB = 1};
  CHECK(thin.pieceBytes(bf16) == 1024);
  CHECK(thin.threads() == 192);
  CHECK(thin.rows() == 64);
  CHECK(thin.columns() == 8);

  // Clusters round up to whole ones, persistent or not.
  c.clusterM = 2;
  CHECK(c.groups(129, 256, 3) == 3);
  CHECK(c.groups(257, 257, 1) == 2 * 2);
  CHECK(c.blocks(257, 257, 1) == 2 * 2 * 2);
  CHECK(c.partialBytes(257, 257, 1) == 0);
  CHECK(c.zeroedBytes(257, 257, 1) == 0);
  c.clusterM = 1;
  c.splits = 3;
  CHECK(c.blocks(257, 257, 2) == 3 * 2 * 2 * 3);
  CHECK(c.zeroedBytes(257, 257, 2) == 36ll * 128 * 256 * 4);
  CHECK(c.partialBytes(257, 257, 2) == 0);
}

TEST_CASE("the wgmma config refuses what the template cannot do") {
  GemmSignature bf16 = signatureOf(DType::BF16);
  auto valid = [&](auto change, const GemmSignature *signature = nullptr) {
    Sm90GemmConfig c;
    change(c);
    return c.isValid(signature ? *signature : bf16);
  };
  CHECK(valid([](auto &) {}));
  CHECK_FALSE(valid([](auto &c) { c.stages = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.stages = 17; }));
  CHECK_FALSE(valid([](auto &c) { c.blockK = 96; }));
  CHECK_FALSE(valid([](auto &c) { c.consumers = 0; }));
  CHECK_FALSE(valid([](auto &c) { c.consumers = 4; }));
  CHECK_FALSE(valid([](auto &c) { c.rasterGroup = 0; }));
  CHECK_FALSE(valid([](auto &c) { c.tilesFirst = 1; })); // no splits
  CHECK_FALSE(valid([](auto &c) { c.splits = -1; }));
  // Turns need two consumers; each has the whole tile's sums.
  CHECK_FALSE(valid([](auto &c) { c.pingPong = 1, c.consumers = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.pingPong = 1; }));
  CHECK(valid([](auto &c) { c.pingPong = 1, c.blockN = 192; }));
  // Rows in units of 64 for each consumer, sums within its registers.
  CHECK_FALSE(valid([](auto &c) { c.blockM = 64; }));
  CHECK(valid([](auto &c) { c.blockM = 64, c.consumers = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.blockM = 256; }));
  CHECK(valid([](auto &c) { c.blockM = 256, c.blockN = 192; }));
  CHECK(valid([](auto &c) { c.blockM = c.blockN = 192, c.consumers = 3; }));
  CHECK(
      valid([](auto &c) { c.blockM = 192, c.blockN = 200, c.consumers = 3; }));
  CHECK_FALSE(
      valid([](auto &c) { c.blockM = 192, c.blockN = 208, c.consumers = 3; }));
  CHECK(valid([](auto &c) { c.blockM = 192, c.blockN = 128, c.pingPong = 1; }));
  CHECK_FALSE(
      valid([](auto &c) { c.blockM = 192, c.blockN = 136, c.pingPong = 1; }));
  CHECK(valid([](auto &c) { c.blockM = 256, c.blockN = 96, c.consumers = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.blockM = 320, c.blockN = 64; }));
  // Columns in steps of 8, of 16 where pieces of lines may not overlap.
  CHECK_FALSE(valid([](auto &c) { c.blockN = 8; }));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 264; }));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 100; }));
  CHECK(valid([](auto &c) { c.blockN = 104; }));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 104, c.splits = 2; }));
  GemmSignature residual = withChain(bf16, {{PointwiseOp::Residual}});
  CHECK_FALSE(valid([](auto &c) { c.blockN = 104; }, &residual));
  CHECK(valid([](auto &c) { c.blockN = 176; }, &residual));
  CHECK(valid([](auto &c) { c.blockM = 8, c.blockN = 128, c.swapAB = 1; }));
  CHECK(valid([](auto &c) { c.blockM = 104, c.blockN = 128, c.swapAB = 1; },
              &residual));
  CHECK_FALSE(
      valid([](auto &c) { c.blockM = 136, c.blockN = 128, c.swapAB = 1; },
            &residual));
  auto split = [&](int columns) {
    return valid([&](auto &c) {
      c.blockM = columns, c.blockN = 128, c.swapAB = 1, c.splits = 2;
    });
  };
  CHECK(split(56));
  CHECK_FALSE(split(72));
  CHECK(split(80));
  // Shared columns: two or three consumers, each with all rows.
  auto shared = [&](int rows, int columns, int consumers) {
    return valid([&](auto &c) {
      c.blockM = rows, c.blockN = columns, c.consumers = consumers;
      c.columnShared = 1;
    });
  };
  CHECK(shared(64, 256, 2));
  CHECK(shared(320, 144, 2));
  CHECK(shared(384, 128, 2));
  CHECK(shared(128, 144, 3));
  CHECK_FALSE(shared(384, 144, 2));
  CHECK_FALSE(shared(448, 64, 2));
  CHECK_FALSE(shared(192, 104, 1));
  CHECK_FALSE(shared(192, 104, 2)); // 52 columns each
  CHECK_FALSE(
      valid([](auto &c) { c.blockN = 128, c.pingPong = c.columnShared = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.columnShared = 1, c.splits = 2; }));
  // The place of the ring has room for one tile's results.
  CHECK(valid([](auto &c) { c.staging = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.staging = 3; }));
  CHECK_FALSE(valid([](auto &c) { c.staging = 2, c.clusterM = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.staging = c.splits = 2; }));
  CHECK_FALSE(
      valid([](auto &c) { c.blockN = 128, c.staging = 2, c.pingPong = 1; }));
  CHECK(valid([](auto &c) { c.blockN = 128, c.staging = c.pingPong = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.staging = 1; }, &residual));
  // Clusters of two, without splits; each block loads whole boxes.
  CHECK(valid([](auto &c) { c.clusterM = 2; }));
  CHECK(valid([](auto &c) { c.clusterN = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.clusterM = c.clusterN = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.clusterM = 2, c.splits = 2; }));
  CHECK_FALSE(
      valid([](auto &c) { c.blockN = 128, c.pingPong = 1, c.splits = 2; }));
  CHECK(valid([](auto &c) { c.splits = 2; }));

  // Along n a tile of B is loaded in slabs of 64 columns, shared ones in pairs.
  GemmSignature nn = signatureOf(DType::BF16, Layout::NN);
  CHECK(valid([](auto &c) { c.blockN = 192; }, &nn));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 176; }, &nn));
  CHECK(valid([](auto &c) { c.blockN = 256, c.clusterM = 2; }, &nn));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 192, c.clusterM = 2; }, &nn));
  // With exchanged sides it is A that has to be.
  CHECK(
      valid([](auto &c) { c.blockM = 16, c.blockN = 128, c.swapAB = 1; }, &nn));
  GemmSignature tn = signatureOf(DType::BF16, Layout::TN);
  CHECK_FALSE(
      valid([](auto &c) { c.blockM = 16, c.blockN = 128, c.swapAB = 1; }, &tn));
  // Joined columns are in one thread's sums of one row.
  GemmSignature joined = withChain(bf16, {{PointwiseOp::SwiGlu}});
  CHECK(valid([](auto &c) { c.blockN = 224; }, &joined));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 176; }, &joined));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 128, c.swapAB = 1; }, &joined));

  GemmSignature fp32 = bf16;
  fp32.in = fp32.out = DType::FP32;
  CHECK_FALSE(valid([](auto &) {}, &fp32));
  CHECK_FALSE(valid([](auto &c) { c.blockK = 32; }, &fp32));
}

TEST_CASE("tf32 comes along k, from registers or transposed") {
  GemmSignature nt = tf32Signature(), nn = tf32Signature(Layout::NN),
                tt = tf32Signature(Layout::TT), tn = tf32Signature(Layout::TN);
  Sm90GemmConfig c;
  c.blockK = 128; // four slabs
  CHECK_FALSE(c.isValid(nt));
  c.blockK = 64;
  CHECK(c.isValid(nt));
  c.blockK = 32;
  CHECK(c.isValid(nt));
  CHECK(c.stageBytes(nt) == (128 + 256) * 128);
  CHECK_FALSE(c.isValid(signatureOf(DType::BF16)));
  Sm90GemmConfig swapped{
      .blockM = 128, .blockN = 128, .blockK = 32, .consumers = 2, .swapAB = 1};
  struct Case {
    const GemmSignature &signature;
    const Sm90GemmConfig &config;
    bool fromRegisters, copies;
  };
  for (const Case &at :
       {Case{nt, c, false, false}, Case{nt, swapped, false, false},
        Case{nn, c, false, true}, Case{nn, swapped, true, false},
        Case{tt, c, true, false}, Case{tt, swapped, false, true},
        Case{tn, c, true, true}, Case{tn, swapped, true, true}}) {
    CAPTURE(static_cast<int>(at.signature.layout));
    CAPTURE(at.config.swapAB);
    CHECK(at.config.isValid(at.signature));
    CHECK(at.config.rowsFromRegisters(at.signature) == at.fromRegisters);
    CHECK(at.config.copiesColumns(at.signature) == at.copies);
    CHECK(at.config.isColumnSideKMajor(at.signature));
    CHECK(at.config.isRowSideKMajor(at.signature) == !at.fromRegisters);
  }
  // Both sides of one-byte types are transposed.
  for (const Sm90GemmConfig *config : {&c, &swapped})
    for (Layout layout : {Layout::NT, Layout::NN, Layout::TT, Layout::TN}) {
      Sm90GemmConfig bytes = *config;
      bytes.blockK = 128;
      GemmSignature e4m3 = signatureOf(DType::BF16, layout);
      e4m3.in = DType::E4M3;
      CHECK(bytes.isValid(e4m3));
      CHECK(bytes.transposesA(e4m3) == isTransposedA(layout));
      CHECK(bytes.transposesB(e4m3) == !isTransposedB(layout));
      CHECK(bytes.isColumnSideKMajor(e4m3));
      CHECK(bytes.isRowSideKMajor(e4m3));
      CHECK_FALSE(bytes.rowsFromRegisters(e4m3));
    }
  // bf16 is transposed by wgmma.
  GemmSignature bf16 = signatureOf(DType::BF16, Layout::TN);
  CHECK_FALSE(c.rowsFromRegisters(bf16));
  CHECK_FALSE(c.copiesColumns(bf16));
}

TEST_CASE("rows from registers are each the first or second of a thread") {
  std::vector<int> lanes(64);
  for (unsigned thread = 0; thread < 128; ++thread) {
    unsigned row = Sm90GemmConfig::rowFromRegisters(thread);
    REQUIRE(row + Sm90GemmConfig::kSecondFromRegisters < 64);
    ++lanes[row];
    ++lanes[row + Sm90GemmConfig::kSecondFromRegisters];
  }
  for (int count : lanes)
    CHECK(count == 4);
  // The rows and k of a warp's load use all banks of 4 bytes.
  for (unsigned first : {0u, 32u, 64u, 96u}) {
    std::vector<int> banks(32);
    for (unsigned lane = 0; lane < 32; ++lane) {
      unsigned row = Sm90GemmConfig::rowFromRegisters(first + lane);
      ++banks[swizzledOffset<Slab::kBytes, SwizzleFor::Ldmatrix>(lane % 4,
                                                                 row % 32 * 4) /
              4 % 32];
    }
    for (int count : banks)
      CHECK(count == 1);
  }
}

TEST_CASE("parameters of the wgmma kernel cross as plain bytes") {
  CHECK(std::is_trivially_copyable_v<Sm90GemmParams>);
  CHECK(std::is_standard_layout_v<Sm90GemmParams>);
  CHECK(sizeof(TensorMap) == 128);
  // The hardware reads maps in place in the parameters.
  for (size_t at : {offsetof(Sm90GemmParams, a), offsetof(Sm90GemmParams, b),
                    offsetof(Sm90GemmParams, c), offsetof(Sm90GemmParams, d),
                    offsetof(Sm90GemmParams, residual)})
    CHECK(at % 64 == 0);
  CHECK(sizeof(Sm90GemmParams) == 1088);
  CHECK(sizeof(RepackParams) == 64);
}

TEST_CASE("the grid of repack is bounded") {
  RepackConfig config;
  CHECK(config.blocks(1, 16) == 1);
  CHECK(config.blocks(257, 16) == 2);
  CHECK(config.blocks(1000, 5328) == (1000 * 333 + 255) / 256);
  CHECK(config.blocks(1ll << 31, 4096) == RepackConfig::kMaxBlocks);
  CHECK(config.blocksOfTiles({2}, 64, 65, 3) == 2 * 3);
  CHECK(config.blocksOfTiles({1}, 128, 129, 3) == 2 * 3);
  CHECK(config.blocksOfTiles({4}, 1ll << 20, 1 << 20, 1) ==
        RepackConfig::kMaxBlocks);
}

namespace {

/// fp8 with promoted sums.
constexpr GemmSignature kPromoted{.in = DType::E4M3};

constexpr Sm90GemmConfig tileOf(int blockM, int blockN, int consumers,
                                int blockK = 128) {
  return {.blockM = blockM,
          .blockN = blockN,
          .blockK = blockK,
          .stages = 2,
          .consumers = consumers};
}

} // namespace

TEST_CASE("sums that are promoted have parts that fit registers") {
  struct Case {
    Sm90GemmConfig config;
    int parts, sums;
  };
  const Case cases[] = {
      {tileOf(64, 64, 1), 1, 96},      // 32 + two sets of 32
      {tileOf(64, 64, 1, 256), 1, 96}, //
      {tileOf(128, 96, 2), 1, 144},    //
      {tileOf(128, 128, 2), 1, 192},   // 64 + two sets of 64
      {tileOf(128, 192, 2), 2, 192},   // 96 + two sets of 48
      {tileOf(128, 256, 2), 4, 192},   // 128 + two sets of 32
      {tileOf(256, 96, 2), 1, 192},    // a unit each
      {tileOf(256, 128, 2), 2, 192},   //
      {tileOf(192, 128, 3), 2, 128},   //
  };
  for (const Case &one : cases) {
    CAPTURE(one.config.blockM);
    CAPTURE(one.config.blockN);
    CHECK(one.config.isValid(kPromoted));
    CHECK(one.config.promotedParts(kPromoted) == one.parts);
    CHECK(one.config.sums(kPromoted) == one.sums);
  }
  // With block scales a wide group for each stage would spill.
  GemmSignature blocks = kPromoted;
  blocks.scaleA = ScaleKind::Block1x128;
  blocks.scaleB = ScaleKind::Block128x128;
  CHECK(tileOf(128, 128, 2).promotedParts(blocks) == 2);
  CHECK(tileOf(128, 256, 2).columnsOfOneScale() == 128);
  CHECK(tileOf(128, 64, 2).columnsOfOneScale() == 64);
  CHECK(tileOf(128, 248, 2).promotedParts(kPromoted) == 0);
  CHECK(!tileOf(128, 248, 2).isValid(kPromoted));
  GemmSignature fast = kPromoted;
  fast.compute = ComputeMode::FastFp8;
  CHECK(tileOf(128, 248, 2).isValid(fast));
  CHECK(tileOf(128, 256, 2).sums(fast) == 128);
}

TEST_CASE("a part of columns has one scale where it divides a block") {
  GemmSignature blocks = kPromoted;
  blocks.scaleA = ScaleKind::Block1x128;
  blocks.scaleB = ScaleKind::Block128x128;
  CHECK(tileOf(128, 256, 2).columnsHaveOneScale(blocks));
  CHECK(tileOf(128, 128, 2).columnsHaveOneScale(blocks));
  CHECK(!tileOf(128, 192, 2).columnsHaveOneScale(blocks));
  CHECK(!tileOf(128, 128, 2).columnsHaveOneScale(kPromoted));
}

TEST_CASE("wgmma of int8 has widths of 16 columns beyond 24") {
  const GemmSignature bytes{.in = DType::INT8};
  CHECK(tileOf(64, 48, 1).isValid(bytes));
  CHECK(tileOf(64, 24, 1).isValid(bytes));
  CHECK(!tileOf(64, 40, 1).isValid(bytes));
  CHECK(tileOf(64, 40, 1).isValid(kPromoted));
  GemmSignature across = bytes;
  across.layout = Layout::NN; // transposed by a step before
  CHECK(tileOf(64, 48, 1).isValid(across));
  CHECK(!tileOf(64, 40, 1).isValid(across));
}
