//===- AttentionPuzzle.cpp ------------------------------------------------===//
#include "Trial/AttentionPuzzle.h"

#include "Store/StoreFixture.h"
#include "trial/IntegerValues.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace kiln::fake {

/// A page that no table may be read for.
static constexpr int32_t kNoPage = 0x7fffffff;

/// 1.m * 2^exponent, where m is of \p mantissa / 128; exact in bf16 and fp16,
/// in e4m3 for multiples of 16.
static uint16_t encode(DType type, bool isNegative, int exponent,
                       int mantissa) {
  const unsigned sign = isNegative;
  switch (type) {
  case DType::BF16:
    return static_cast<uint16_t>(
        (sign << 15) | (unsigned(exponent + 127) << 7) | unsigned(mantissa));
  case DType::FP16:
    return static_cast<uint16_t>((sign << 15) |
                                 (unsigned(exponent + 15) << 10) |
                                 (unsigned(mantissa) << 3));
  default:
    return static_cast<uint16_t>((sign << 7) | (unsigned(exponent + 7) << 3) |
                                 (unsigned(mantissa) >> 4));
  }
}

static uint16_t notANumber(DType type) {
  return type == DType::BF16 ? 0x7fc0 : type == DType::FP16 ? 0x7e00 : 0x7f;
}

static void store(Bytes &memory, DType type, int64_t element, uint16_t bits) {
  const auto bytes = static_cast<size_t>(bytesOf(type));
  const size_t at = static_cast<size_t>(element) * bytes;
  if (at + bytes > memory.size())
    FAIL("a row beyond its operand");
  std::memcpy(memory.data() + at, &bits, bytes);
}

/// The value of V's row at \p offset: any value with as few digits as \p in
/// has.
static uint16_t valueOf(DType in, DType type, int64_t offset, int64_t column) {
  const uint64_t random = mix(mix(uint64_t(offset)) + uint64_t(column));
  int mantissa = static_cast<int>(random >> 8) & 0x7f;
  if (in == DType::E4M3)
    mantissa &= 0x70;
  return encode(type, random & 1, static_cast<int>((random >> 16) & 7) - 3,
                mantissa);
}

static constexpr int kCodeExponent = 2; // +-4
static constexpr double kCodeSquare = 16;

AttentionPuzzle::AttentionPuzzle(const KernelFamily &family,
                                 const std::string &text)
    : stated(must(family.parseProblem(text + " scale=1"))),
      p(readAttentionProblem(stated.values.array().data())) {
  const OperandTable table = family.operands(stated);
  for (const OperandSpec &operand : table.operands)
    before.emplace_back(static_cast<size_t>(operand.bytes()), kPoison);
  drawLengths();
  drawPages();
  fill();
  solve();
}

void AttentionPuzzle::setIntegers(int operand,
                                  const std::vector<int32_t> &values) {
  Bytes &memory = before[static_cast<size_t>(operand)];
  REQUIRE(memory.size() == values.size() * sizeof(int32_t));
  if (!values.empty()) // memcpy takes no null
    std::memcpy(memory.data(), values.data(), memory.size());
}

/// The most, none, a third and a bit, and so on.
static int64_t drawLength(int64_t most, int64_t index) {
  const int64_t lengths[] = {most, 0, most / 3 + 1, std::max<int64_t>(most, 1)};
  return std::min(most, lengths[index % 4]);
}

void AttentionPuzzle::drawLengths() {
  std::vector<int32_t> queryOffsets = {0}, keyOffsets = {0}, keyLengths;
  for (int64_t b = 0; b < p.batch; ++b) {
    Sequence sequence{0, p.queries, 0, p.keys};
    if (p.hasPackedQueries()) {
      sequence.firstQuery = queryOffsets.back();
      sequence.queries =
          std::min(drawLength(p.queries, b), p.totalQueries - queryOffsets[b]);
    }
    if (p.keyLengths != AttentionLengths::Uniform)
      sequence.keys = drawLength(p.keys, b);
    if (p.hasPackedKeys()) {
      sequence.firstKey = keyOffsets.back();
      sequence.keys = std::min(sequence.keys, p.totalKeys - keyOffsets[b]);
    }
    queryOffsets.push_back(
        static_cast<int32_t>(sequence.firstQuery + sequence.queries));
    keyOffsets.push_back(
        static_cast<int32_t>(sequence.firstKey + sequence.keys));
    keyLengths.push_back(static_cast<int32_t>(sequence.keys));
    sequences.push_back(sequence);
  }
  if (p.hasPackedQueries())
    setIntegers(AttentionOperand::QueryOffsets, queryOffsets);
  if (p.hasPackedKeys())
    setIntegers(AttentionOperand::KeyOffsets, keyOffsets);
  if (p.keyLengths == AttentionLengths::Used)
    setIntegers(AttentionOperand::KeyLengths, keyLengths);
}

/// Pages in no order; each sequence begins with the first page of the first
/// one. Unused entries are not valid pages.
void AttentionPuzzle::drawPages() {
  if (!p.isPaged())
    return;
  const bool isList = p.pages == AttentionPages::List;
  std::vector<int32_t> free(static_cast<size_t>(p.pageCount));
  for (size_t i = 0; i < free.size(); ++i)
    free[i] = static_cast<int32_t>(i);
  std::shuffle(free.begin(), free.end(), std::mt19937(5));
  pages.assign(
      static_cast<size_t>(isList ? p.pageTableCols : p.batch * p.pageTableCols),
      kNoPage);
  pageStarts = {0};
  const int32_t shared = free.back();
  free.pop_back();
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t count =
        (sequences[static_cast<size_t>(b)].keys + p.pageSize - 1) / p.pageSize;
    const int64_t first = isList ? pageStarts.back() : b * p.pageTableCols;
    for (int64_t i = 0; i < count; ++i) {
      int32_t page = shared;
      if (i > 0) {
        REQUIRE_FALSE(free.empty());
        page = free.back();
        free.pop_back();
      }
      pages[static_cast<size_t>(first + i)] = page;
    }
    pageStarts.push_back(static_cast<int32_t>(first + count));
  }
  setIntegers(AttentionOperand::PageTable, pages);
  if (isList)
    setIntegers(AttentionOperand::PageOffsets, pageStarts);
}

int64_t AttentionPuzzle::queryOffset(const HeadStrides &strides,
                                     int64_t sequence, int64_t head,
                                     int64_t query) const {
  const int64_t first = sequences[static_cast<size_t>(sequence)].firstQuery;
  return (p.hasPackedQueries() ? 0 : sequence * strides.batch) +
         head * strides.head + (first + query) * strides.token;
}

int64_t AttentionPuzzle::keyOffset(const HeadStrides &strides, int64_t sequence,
                                   int64_t head, int64_t key) const {
  if (p.isPaged()) {
    const bool isList = p.pages == AttentionPages::List;
    const int64_t first = isList ? pageStarts[static_cast<size_t>(sequence)]
                                 : sequence * p.pageTableCols;
    const int64_t page = pages[static_cast<size_t>(first + key / p.pageSize)];
    return page * strides.batch + head * strides.head +
           key % p.pageSize * strides.token;
  }
  const int64_t first = sequences[static_cast<size_t>(sequence)].firstKey;
  return (p.hasPackedKeys() ? 0 : sequence * strides.batch) +
         head * strides.head + (first + key) * strides.token;
}

AttentionPuzzle::Seen AttentionPuzzle::seenBy(const Sequence &sequence,
                                              int64_t query) const {
  const int64_t position = query + sequence.keys - sequence.queries;
  int64_t begin = 0, end = sequence.keys;
  if (p.mask == AttentionMask::Causal)
    end = position + 1;
  if (p.mask == AttentionMask::Window) {
    begin = position - p.left;
    end = position + p.right + 1;
  }
  begin = std::max<int64_t>(begin, 0);
  end = std::min(end, sequence.keys);
  return {begin, std::max(begin, end)};
}

/// A row of +-4 by the bits of \p code.
void AttentionPuzzle::setCodes(int operand, DType type, int64_t offset,
                               uint64_t code) {
  for (int64_t i = 0; i < p.headDim; ++i)
    store(before[static_cast<size_t>(operand)], type, offset + i,
          encode(type, (mix(code + uint64_t(i / 64)) >> (i % 64)) & 1,
                 kCodeExponent, 0));
}

void AttentionPuzzle::fill() {
  const std::pair<int, DType> inputs[] = {{AttentionOperand::Q, p.dtype},
                                          {AttentionOperand::K, p.kv},
                                          {AttentionOperand::V, p.kv}};
  for (auto [operand, type] : inputs) {
    Bytes &memory = before[static_cast<size_t>(operand)];
    for (size_t i = 0; i < memory.size() / size_t(bytesOf(type)); ++i)
      store(memory, type, static_cast<int64_t>(i), notANumber(type));
  }
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.kvHeads; ++h)
      for (int64_t j = 0; j < sequences[static_cast<size_t>(b)].keys; ++j) {
        const int64_t key = keyOffset(p.k, b, h, j),
                      value = keyOffset(p.v, b, h, j);
        setCodes(AttentionOperand::K, p.kv, key, mix(uint64_t(key)));
        for (int64_t i = 0; i < p.valueDim; ++i)
          store(before[AttentionOperand::V], p.kv, value + i,
                valueOf(p.kv, p.kv, value, i));
      }
}

/// Chooses a key for each query. Queries that share their memory are looked for
/// in the last of their sequences.
void AttentionPuzzle::solve() {
  wantedO = before[AttentionOperand::O];
  const int64_t rows = p.hasPackedQueries() ? p.totalQueries : p.queries;
  wantedLse.assign(before[AttentionOperand::Lse].size() / sizeof(float),
                   std::numeric_limits<double>::quiet_NaN());
  for (int64_t b = 0; b < p.batch; ++b) {
    const Sequence &sequence = sequences[static_cast<size_t>(b)];
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t i = 0; i < sequence.queries; ++i) {
        const Seen seen = seenBy(sequence, i);
        const bool isSolved = seen.end > seen.begin;
        const int64_t kvHead = h / p.group();
        const uint64_t random = mix(mix(uint64_t(h)) + uint64_t(i));
        // Includes the first and the last key. Sequences that share queries and
        // keys take the same one.
        int64_t key = seen.begin;
        if (isSolved && random % 4 == 1)
          key = seen.end - 1;
        else if (isSolved && random % 4 > 1)
          key += static_cast<int64_t>(random / 4 %
                                      uint64_t(seen.end - seen.begin));
        setCodes(AttentionOperand::Q, p.dtype, queryOffset(p.q, b, h, i),
                 isSolved ? mix(uint64_t(keyOffset(p.k, b, kvHead, key))) : 7);
        const int64_t to = queryOffset(p.o, b, h, i);
        for (int64_t column = 0; column < p.valueDim; ++column)
          store(wantedO, p.out, to + column,
                isSolved ? valueOf(p.kv, p.out, keyOffset(p.v, b, kvHead, key),
                                   column)
                         : 0);
        solved += isSolved;
        if (!p.lse)
          continue;
        const int64_t row = (p.hasPackedQueries() ? 0 : b * p.heads * rows) +
                            h * rows + sequence.firstQuery + i;
        wantedLse[static_cast<size_t>(row)] =
            isSolved ? kCodeSquare * double(p.headDim)
                     : -std::numeric_limits<double>::infinity();
      }
  }
}

std::string AttentionPuzzle::faultOfLse(const Bytes &lse) const {
  constexpr double kRelative = 1e-6; // of a product and a sum in fp32
  for (size_t i = 0; i < wantedLse.size(); ++i) {
    float value;
    std::memcpy(&value, lse.data() + i * sizeof(float), sizeof(float));
    const double wanted = wantedLse[i];
    const Bytes untouched(sizeof(float), kPoison);
    const bool isRight =
        std::isnan(wanted)
            ? std::memcmp(&value, untouched.data(), sizeof(float)) == 0
        : std::isinf(wanted)
            ? value == wanted
            : std::abs(double(value) - wanted) <= kRelative * wanted;
    if (!isRight)
      return fmt::format("lse[{}] is {}, expected {}", i, value, wanted);
  }
  return "";
}

} // namespace kiln::fake
