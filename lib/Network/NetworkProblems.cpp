//===- NetworkProblems.cpp - the problems of a language model -------------===//
#include "Network/NetworkProblems.h"

#include "Support/Error.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace kiln {

namespace {

/// The sizes of one rank.
struct RankSizes {
  int64_t heads = 0, kvHeads = 0;
  int64_t intermediate = 0, expertIntermediate = 0;
  int64_t vocab = 0;
};

class ProblemList {
public:
  ProblemList(const NetworkConfig &config, const NetworkOptions &options,
              const RankSizes &sizes)
      : config(config), options(options), sizes(sizes),
        tokens(std::max(options.maxTokens, options.maxBatch)),
        batch(options.maxBatch),
        positions(options.maxPositions
                      ? options.maxPositions
                      : std::min(config.maxPositions, kMostPositions)) {}

  std::vector<NetworkProblem> make();

private:
  using Ranges = std::vector<ProblemLine::Range>;
  /// The operand that is multiplied by a weight, and the result. A token has
  /// rowsOfToken rows.
  struct Product {
    int64_t m = 0, n = 0, k = 0;
    std::string further;
    int64_t rowsOfToken = 1;
  };

  static constexpr int64_t kMostPositions = 8192;

  void add(std::string name, std::string problem, Ranges ranges) {
    list.push_back({std::move(name), {std::move(problem), std::move(ranges)}});
  }
  bool isFp8() const { return options.weights == WeightFormat::Fp8; }
  bool addsInNorm() const { return options.ranks > 1; }
  int64_t headRow() const {
    return (sizes.heads + 2 * sizes.kvHeads) * config.headDim;
  }

  std::string typesOfProduct(int64_t k) const;
  void addProduct(const char *name, const Product &product);
  void addNorms();
  void addNorm(const char *name, bool isQuantized, bool hasResidual);
  void addRotations();
  void addAttentions();
  void addQuantization(const char *name, int64_t columns,
                       int64_t rowsOfToken = 1);
  void addOutput();
  void addDense();
  void addExperts();
  void addCombine(const char *name, bool hasNorm);
  void addSampling();

  const NetworkConfig &config;
  const NetworkOptions &options;
  const RankSizes sizes;
  const int64_t tokens, batch, positions;
  std::vector<NetworkProblem> list;
};

} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The steps of k that share a scale of packed weights: 128 where that divides
/// \p k, as checkpoints have it.
static int64_t groupOf(int64_t k) {
  for (int64_t size : {128, 64})
    if (k % size == 0)
      return size;
  return 32;
}

/// The types, layout and scales of a product over \p k with a weight of the
/// format.
std::string ProblemList::typesOfProduct(int64_t k) const {
  switch (options.weights) {
  case WeightFormat::Bf16:
    break;
  case WeightFormat::Fp8:
    return "dtype=e4m3 out=bf16 layout=NT scale_a=row scale_b=row";
  case WeightFormat::W4:
    return fmt::format("dtype=bf16 layout=NT b=int4 order_b=k64r16 "
                       "scale_b=1x{} scale_type_b=fp16",
                       groupOf(k));
  }
  return "dtype=bf16 layout=NT";
}

void ProblemList::addProduct(const char *name, const Product &product) {
  add(name,
      fmt::format("gemm m={} n={} k={} {}{}", product.m, product.n, product.k,
                  typesOfProduct(product.k), product.further),
      {{"m", product.rowsOfToken, product.m}});
}

/// Rows that a product of fp8 reads and that no kernel ahead quantises.
void ProblemList::addQuantization(const char *name, int64_t columns,
                                  int64_t rowsOfToken) {
  const int64_t rows = tokens * rowsOfToken;
  if (isFp8())
    add(name, fmt::format("rowquant rows={} cols={} dtype=bf16", rows, columns),
        {{"rows", rowsOfToken, rows}});
}

void ProblemList::addOutput() {
  const int64_t columns = sizes.heads * config.headDim;
  addQuantization("quantised attention", columns);
  addProduct("output", {tokens, config.hiddenSize, columns,
                        addsInNorm() ? "" : " beta=1"});
}

/// SwiGLU makes one column of two. Its result is quantised where down reads
/// fp8.
void ProblemList::addDense() {
  addProduct("gate and up", {tokens, 2 * sizes.intermediate, config.hiddenSize,
                             " pointwise=swiglu"});
  addQuantization("quantised gate and up", sizes.intermediate);
  addProduct("down", {tokens, config.hiddenSize, sizes.intermediate,
                      addsInNorm() ? "" : " beta=1"});
}

/// The sum over a token's rows, which the padding of a batch does not have: its
/// weights are 0. One rank alone also adds the residual.
void ProblemList::addCombine(const char *name, bool hasNorm) {
  std::string problem =
      fmt::format("combine tokens={} cols={} topk={} dtype=bf16 "
                  "weights=present",
                  tokens, config.hiddenSize, config.experts.perToken);
  if (!addsInNorm())
    problem += " residual=1";
  if (hasNorm)
    problem += fmt::format(" norm=1 eps={}", config.rmsNormEps);
  add(name, std::move(problem), {{"tokens", 1, tokens}});
}

/// A token has a row for each of its experts; rows lie by expert. The router
/// reads bf16 in all formats. The sum over a token's rows has the norm of the
/// next product, unless that product reads fp8.
void ProblemList::addExperts() {
  const NetworkExperts &experts = config.experts;
  const int64_t rows = tokens * experts.perToken;
  add("router",
      fmt::format("gemm m={} n={} k={} dtype=bf16 out=fp32 layout=NT", tokens,
                  experts.count, config.hiddenSize),
      {{"m", 1, tokens}});
  add("routing",
      fmt::format("route tokens={} experts={} topk={} dtype=fp32 renorm={:d} "
                  "count=1",
                  tokens, experts.count, experts.perToken, experts.normalizes),
      {{"tokens", 1, tokens}});
  addQuantization("quantised norm of experts", config.hiddenSize);
  const std::string groups =
      fmt::format(" batch={} groups=ends", experts.count);
  addProduct("gate and up of experts",
             {rows, 2 * sizes.expertIntermediate, config.hiddenSize,
              fmt::format("{} gather=1 divisor={} pointwise=swiglu", groups,
                          experts.perToken),
              experts.perToken});
  addQuantization("quantised gate and up of experts", sizes.expertIntermediate,
                  experts.perToken);
  addProduct("down of experts",
             {rows, config.hiddenSize, sizes.expertIntermediate,
              groups + " scatter=1 row_weights=1", experts.perToken});
  if (isFp8() || addsInNorm())
    addCombine("sum of experts", false);
  if (!addsInNorm())
    addCombine("sum of experts with norm", true);
}

//===----------------------------------------------------------------------===//
// The rest of a layer
//===----------------------------------------------------------------------===//

void ProblemList::addNorm(const char *name, bool isQuantized,
                          bool hasResidual) {
  std::string problem =
      fmt::format("rmsnorm rows={} cols={} dtype=bf16 weight=1 eps={}", tokens,
                  config.hiddenSize, config.rmsNormEps);
  if (isQuantized)
    problem += " out=fp8_e4m3";
  if (hasResidual)
    problem += " residual=1";
  add(name, std::move(problem), {{"rows", 1, tokens}});
}

/// The first norm has no residual ahead of it. The last one is read by the
/// head.
void ProblemList::addNorms() {
  addNorm(isFp8() ? "quantised norm" : "norm", isFp8(), false);
  if (addsInNorm())
    addNorm(isFp8() ? "quantised norm with residual" : "norm with residual",
            isFp8(), true);
  if (isFp8())
    addNorm(addsInNorm() ? "norm with residual" : "norm", false, addsInNorm());
}

/// Decodes have one token each, so they need not say whose it is.
void ProblemList::addRotations() {
  const int64_t row = headRow();
  std::string problem =
      fmt::format("heads={} kvheads={} d={} dtype=bf16 rotary={} tablerows={} "
                  "kcache=1 vcache=1 slots=table page={} pagerows={} "
                  "pagecols={} ldq={} ldk={} ldv={} ldqo={}",
                  sizes.heads, sizes.kvHeads, config.headDim, config.rotaryDim,
                  positions, options.pageTokens, batch,
                  (positions + options.pageTokens - 1) / options.pageTokens,
                  row, row, row, row);
  if (config.qkNorm)
    problem += fmt::format(" qnorm=1 knorm=1 eps={}", config.rmsNormEps);
  if (options.cache == CacheFormat::E4m3)
    problem += " kv=e4m3 scales=tensor";
  add("rope of decodes", fmt::format("rope tokens={} {}", batch, problem),
      {{"tokens", 1, batch}});
  add("rope", fmt::format("rope tokens={} seqs=1 {}", tokens, problem),
      {{"tokens", 1, tokens}});
}

void ProblemList::addAttentions() {
  std::string problem =
      fmt::format("heads={} kvheads={} d={} dtype=bf16 kvlen=used pages=table "
                  "page={} ldq={}",
                  sizes.heads, sizes.kvHeads, config.headDim,
                  options.pageTokens, headRow());
  if (options.cache == CacheFormat::E4m3)
    problem += " kv=e4m3 scales=tensor";
  add("attention of decodes",
      fmt::format("attention batch={} sq=1 sk={} {}", batch, positions,
                  problem),
      {{"batch", 1, batch}, {"sk", 1, positions}});
  add("attention of prefills",
      fmt::format("attention sq={} sk={} mask=causal qlen=packed {}", tokens,
                  positions, problem),
      {{"batch", 1, batch}, {"sq", 1, tokens}, {"sk", 1, positions}});
}

/// A step that feeds itself advances positions and lengths.
void ProblemList::addSampling() {
  add("last rows",
      fmt::format("gather rows={} cols={} dtype=bf16 xrows={}", batch,
                  config.hiddenSize, tokens),
      {{"rows", 1, batch}});
  add("head",
      fmt::format("gemm m={} n={} k={} dtype=bf16 out=fp32 layout=NT", batch,
                  sizes.vocab, config.hiddenSize),
      {{"m", 1, batch}});
  for (const auto &[name, further] :
       {std::pair("sampling", " advance=1 lengths=1"),
        std::pair("sampling of prefills", "")})
    add(name,
        fmt::format("sample rows={} vocab={} dtype=fp32 temperature=1 topk=1 "
                    "topp=1{}",
                    batch, config.vocabSize, further),
        {{"rows", 1, batch}});
}

std::vector<NetworkProblem> ProblemList::make() {
  add("embedding",
      fmt::format("gather rows={} cols={} dtype=bf16 xrows={}", tokens,
                  config.hiddenSize, config.vocabSize),
      {{"rows", 1, tokens}});
  addNorms();
  addProduct("qkv", {tokens, headRow(), config.hiddenSize,
                     config.qkvBias ? " pointwise=bias" : ""});
  addRotations();
  addAttentions();
  addOutput();
  if (config.hasDenseLayers)
    addDense();
  if (config.hasExperts())
    addExperts();
  addSampling();
  return std::move(list);
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

static llvm::Error requireWithin(const char *what, int64_t value, int64_t least,
                                 int64_t most) {
  if (value >= least && value <= most)
    return llvm::Error::success();
  return makeError(ErrorCode::InvalidArgument, "{} is {}, expected {} to {}",
                   what, value, least, most);
}

static llvm::Error checkOptions(const NetworkConfig &config,
                                const NetworkOptions &options) {
  constexpr int64_t kMostRanks = 1024, kMostTokens = 1 << 20;
  if (auto error =
          requireWithin("the number of ranks", options.ranks, 1, kMostRanks))
    return error;
  if (auto error =
          requireWithin("the largest step", options.maxTokens, 1, kMostTokens))
    return error;
  if (auto error =
          requireWithin("the largest batch", options.maxBatch, 1, kMostTokens))
    return error;
  if (auto error = requireWithin("the longest sequence", options.maxPositions,
                                 0, config.maxPositions))
    return error;
  return requireWithin("the size of a page", options.pageTokens, 1,
                       kMostTokens);
}

/// Divides \p size among the ranks.
static llvm::Error share(const char *what, int64_t size, int64_t ranks,
                         int64_t &ofRank) {
  if (size % ranks != 0)
    return makeError(ErrorCode::InvalidArgument, "{} ranks do not divide {} {}",
                     ranks, size, what);
  ofRank = size / ranks;
  return llvm::Error::success();
}

/// Ranks beyond the heads of K and V share them. Each has the whole head where
/// they do not divide the vocabulary in vectors of four logits, as parts of
/// other sizes are aligned in another way on each rank.
static llvm::Expected<RankSizes> sizesOfRank(const NetworkConfig &config,
                                             int64_t ranks) {
  RankSizes sizes;
  sizes.kvHeads = 1;
  if (auto error = share("heads", config.heads, ranks, sizes.heads))
    return error;
  if (config.kvHeads > ranks || ranks % config.kvHeads != 0)
    if (auto error =
            share("heads of K and V", config.kvHeads, ranks, sizes.kvHeads))
      return error;
  if (auto error = share("intermediate columns", config.intermediateSize, ranks,
                         sizes.intermediate))
    return error;
  if (auto error = share("intermediate columns of an expert",
                         config.experts.intermediateSize, ranks,
                         sizes.expertIntermediate))
    return error;
  constexpr int64_t kVector = 4;
  const bool isShared = config.vocabSize % (kVector * ranks) == 0;
  sizes.vocab = isShared ? config.vocabSize / ranks : config.vocabSize;
  return sizes;
}

llvm::Expected<std::vector<NetworkProblem>>
problemsOf(const NetworkConfig &config, const NetworkOptions &options) {
  if (auto error = checkOptions(config, options))
    return error;
  auto sizes = sizesOfRank(config, options.ranks);
  if (!sizes)
    return sizes.takeError();
  return ProblemList(config, options, *sizes).make();
}

} // namespace kiln
