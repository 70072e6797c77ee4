//===- Sm90ConfigTest.cpp - rules and sizes of the wgmma config -----------===//

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
  return all;
}

/// Calls \p visit with every config that isValid() lets pass for \p signature,
/// over all tiles and roles.
template <class F> int forEachValid(const GemmSignature &signature, F visit) {
  int count = 0;
  Sm90GemmConfig c;
  c.stages = 3;
  for (c.swapAB = 0; c.swapAB < 2; ++c.swapAB)
    for (c.blockK = 64; c.blockK <= 128; c.blockK += 64)
      for (c.blockM = 8; c.blockM <= 320; c.blockM += 8)
        for (c.blockN = 8; c.blockN <= 320; c.blockN += 8)
          for (c.consumers = 1; c.consumers <= 3; ++c.consumers)
            for (int kind = 0; kind < 8; ++kind) {
              c.pingPong = kind == 1 || kind == 5;
              c.clusterM = kind == 2 || kind == 5 || kind == 7 ? 2 : 1;
              c.clusterN = kind == 3 || kind == 7 ? 2 : 1;
              c.splits = kind == 6 ? 3 : kind == 4 ? 16 : 0;
              if (!c.isValid(signature))
                continue;
              ++count;
              visit(c);
            }
  return count;
}

constexpr int kSwizzleAtom = 1024;

/// Boxes of one side's tile: whole swizzle atoms, of at most 256 rows.
bool areBoxesGood(bool kMajor, int extent, int sharers, int blockK) {
  int boxRows = kMajor ? extent / sharers : blockK;
  int boxes =
      kMajor ? blockK / Slab::kElements : extent / Slab::kElements / sharers;
  int bytes = boxes * boxRows * Slab::kBytes;
  return boxRows % 8 == 0 && boxRows <= 256 && boxes > 0 &&
         bytes * sharers == extent * blockK * 2;
}

/// Pieces cover the columns without a gap. They overlap only where nothing of
/// D's shape is read, which a piece before could have written, where TMA stores
/// them, and where no splits keep sums of them.
bool doPiecesCover(const Sm90GemmConfig &c, const GemmSignature &s) {
  int piece = c.pieceColumns(s), covered = 0;
  bool mayOverlap = !s.readsC && !s.pointwise.contains(PointwiseOp::Residual) &&
                    c.storesByTma(s) && c.splitK() == 1 && !c.swapAB;
  for (int i = 0; i < c.unitPieces(piece); ++i) {
    int begin = c.pieceBegin(i, piece);
    if (begin < 0 || begin > covered || (begin < covered && !mayOverlap))
      return false;
    covered = begin + piece;
  }
  return covered == c.columns();
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

bool isTileGood(const Sm90GemmConfig &c) {
  int stacked = c.pingPong ? 1 : c.consumers;
  return c.units() > 0 &&
         c.units() * Sm90GemmConfig::kUnit * stacked == c.rows() &&
         c.rowTileBytes() % kSwizzleAtom == 0 &&
         c.columnTileBytes() % kSwizzleAtom == 0;
}

/// What setmaxnreg hands out is what an SM has, and the sums fit in.
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
                               c.clusterColumns(), c.blockK);
      bool columns = areBoxesGood(c.isColumnSideKMajor(s), c.columns(),
                                  c.clusterRows(), c.blockK);
      if (rows && columns && arePiecesGood(c, s) && isTileGood(c) &&
          areRegistersGood(c) && c.threads() <= 512)
        return;
      FAIL_CHECK("bm" << c.blockM << " bn" << c.blockN << " bk" << c.blockK
                      << " wg" << c.consumers << " pp" << c.pingPong << " sw"
                      << c.swapAB << " cm" << c.clusterM << " cn" << c.clusterN
                      << " sk" << c.splits);
    });
    CHECK(seen > 50);
  }
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
  CHECK(c.stageBytes() == (128 + 256) * 64 * 2);
  // Two consumers with two buffers of 64 x 64; 2 * 4 + 8 + 2 barriers.
  CHECK(c.stagingBytes(bf16) == 4 * 64 * 64 * 2);
  CHECK(c.sharedBytes(bf16) == 1024 + 4 * 49152 + 32768 + 18 * 8);
  // C and the residual come in where pieces are staged, three buffers each;
  // what comes alone has one for each of four pieces.
  GemmSignature both = withChain(bf16, {{PointwiseOp::Residual}}, true);
  CHECK(c.fetchedOperands(both) == 2);
  CHECK(c.stagingBuffers(both) == 3);
  CHECK(c.stagingBytes(both) == 3 * 32768);
  GemmSignature one = withChain(bf16, {{PointwiseOp::Residual}});
  CHECK(c.stagingBuffers(one) == 4);
  CHECK(c.stagingBytes(one) == 2 * 32768);
  CHECK(c.barrierBytes(one) == (2 * 4 + 2 * 2 * 4 + 2) * 8);
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
  // Turns are between two; each has the whole tile's sums.
  CHECK_FALSE(valid([](auto &c) { c.pingPong = 1, c.consumers = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.pingPong = 1; }));
  CHECK(valid([](auto &c) { c.pingPong = 1, c.blockN = 192; }));
  // Rows in units of 64 for each consumer, sums within its registers.
  CHECK_FALSE(valid([](auto &c) { c.blockM = 64; }));
  CHECK(valid([](auto &c) { c.blockM = 64, c.consumers = 1; }));
  CHECK_FALSE(valid([](auto &c) { c.blockM = 256; }));
  CHECK(valid([](auto &c) { c.blockM = 256, c.blockN = 192; }));
  CHECK(valid([](auto &c) { c.blockM = c.blockN = 192, c.consumers = 3; }));
  CHECK_FALSE(valid([](auto &c) { c.blockM = 192, c.consumers = 3; }));
  // Columns in steps of 16; 8 and 24 with swapped sides.
  CHECK_FALSE(valid([](auto &c) { c.blockN = 8; }));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 272; }));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 104; }));
  CHECK(valid([](auto &c) { c.blockN = 176; }));
  CHECK(valid([](auto &c) { c.blockM = 24, c.blockN = 128, c.swapAB = 1; }));
  CHECK_FALSE(
      valid([](auto &c) { c.blockM = 40, c.blockN = 128, c.swapAB = 1; }));
  // Clusters of two, not with splits, and each block brings whole boxes.
  CHECK(valid([](auto &c) { c.clusterM = 2; }));
  CHECK(valid([](auto &c) { c.clusterN = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.clusterM = c.clusterN = 2; }));
  CHECK_FALSE(valid([](auto &c) { c.clusterM = 2, c.splits = 2; }));
  CHECK_FALSE(
      valid([](auto &c) { c.blockN = 128, c.pingPong = 1, c.splits = 2; }));
  CHECK(valid([](auto &c) { c.splits = 2; }));

  // Along n a tile of B comes in slabs of 64 columns, shared ones in twos.
  GemmSignature nn = signatureOf(DType::BF16, Layout::NN);
  CHECK(valid([](auto &c) { c.blockN = 192; }, &nn));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 176; }, &nn));
  CHECK(valid([](auto &c) { c.blockN = 256, c.clusterM = 2; }, &nn));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 192, c.clusterM = 2; }, &nn));
  // With swapped sides it is A that has to be.
  CHECK(
      valid([](auto &c) { c.blockM = 16, c.blockN = 128, c.swapAB = 1; }, &nn));
  GemmSignature tn = signatureOf(DType::BF16, Layout::TN);
  CHECK_FALSE(
      valid([](auto &c) { c.blockM = 16, c.blockN = 128, c.swapAB = 1; }, &tn));
  // Joined columns lie in one thread's sums of one row.
  GemmSignature joined = withChain(bf16, {{PointwiseOp::SwiGlu}});
  CHECK(valid([](auto &c) { c.blockN = 224; }, &joined));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 176; }, &joined));
  CHECK_FALSE(valid([](auto &c) { c.blockN = 128, c.swapAB = 1; }, &joined));

  GemmSignature fp32 = bf16;
  fp32.in = fp32.out = DType::FP32;
  CHECK_FALSE(valid([](auto &) {}, &fp32));
}

TEST_CASE("parameters of the wgmma kernel cross as plain bytes") {
  CHECK(std::is_trivially_copyable_v<Sm90GemmParams>);
  CHECK(std::is_standard_layout_v<Sm90GemmParams>);
  CHECK(sizeof(TensorMap) == 128);
  // The hardware reads maps where they lie in the parameters.
  for (size_t at : {offsetof(Sm90GemmParams, a), offsetof(Sm90GemmParams, b),
                    offsetof(Sm90GemmParams, c), offsetof(Sm90GemmParams, d),
                    offsetof(Sm90GemmParams, residual)})
    CHECK(at % 64 == 0);
  CHECK(sizeof(Sm90GemmParams) == 896);
  CHECK(sizeof(RepackParams) == 64);
}

TEST_CASE("the grid of repack is bounded") {
  RepackConfig config;
  CHECK(config.blocks(1, 16) == 1);
  CHECK(config.blocks(257, 16) == 2);
  CHECK(config.blocks(1000, 5328) == (1000 * 333 + 255) / 256);
  CHECK(config.blocks(1ll << 31, 4096) == RepackConfig::kMaxBlocks);
}
