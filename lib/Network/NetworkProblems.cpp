//===- NetworkProblems.cpp - the problems of a language model -------------===//
#include "Network/NetworkProblems.h"

#include "Support/Error.h"

#include <llvm/ADT/STLExtras.h>

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

  /// Packed weights have whole groups of k.
  llvm::Error requireGroups() const;
  std::vector<NetworkProblem> make();

private:
  using Ranges = std::vector<ProblemLine::Range>;
  /// The operand that is multiplied by a weight, and the result. A token has
  /// rowsOfToken rows.
  struct Product {
    int64_t m = 0, n = 0, k = 0;
    std::string further;
    int64_t rowsOfToken = 1;
    bool isTransposed = false;
  };

  static constexpr int64_t kMostPositions = 8192;

  void add(std::string name, std::string problem, Ranges ranges) {
    list.push_back({std::move(name), {std::move(problem), std::move(ranges)}});
  }
  bool isFp8() const { return options.weights == WeightFormat::Fp8; }
  bool hasRanks() const { return options.ranks > 1; }
  bool addsInNorm() const {
    return hasRanks() && options.sums == RankSums::Nccl;
  }
  bool addsInSum() const {
    return hasRanks() && options.sums == RankSums::Kiln;
  }
  /// In gpt-oss, which alone has such biases, only experts are quantised.
  WeightFormat formatOfLayers() const {
    return config.experts.hasBias ? WeightFormat::Bf16 : options.weights;
  }
  WeightFormat formatOfExperts() const {
    return config.experts.isMxfp4 ? WeightFormat::Mxfp4 : options.weights;
  }
  int64_t headRow() const {
    return (sizes.heads + 2 * sizes.kvHeads) * config.headDim;
  }

  void addProduct(const char *name, WeightFormat format,
                  const Product &product);
  void addNorms();
  void addNorm(const char *name, bool isQuantized, bool hasResidual);
  void addRotations();
  void addAttentions(int64_t window);
  void addQuantization(const char *name, int64_t columns,
                       int64_t rowsOfToken = 1);
  void addOutput();
  void addDense();
  void addExperts();
  void addCombine(const char *name, bool hasNorm);
  void addSums();
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

/// The fewest steps of k that share a scale of packed weights.
static constexpr int64_t kLeastGroup = 32;

/// The steps of k that share a scale of W4: 128 where that divides \p k, as
/// checkpoints have it.
static int64_t groupOf(int64_t k) {
  for (int64_t size : {128, 64})
    if (k % size == 0)
      return size;
  return kLeastGroup;
}

llvm::Error ProblemList::requireGroups() const {
  struct Extent {
    const char *name;
    int64_t k;
    WeightFormat format;
    bool isDivided; ///< among the ranks
  };
  std::vector<Extent> extents = {
      {"hidden_size", config.hiddenSize, formatOfLayers(), false},
      {"num_attention_heads * head_dim", sizes.heads * config.headDim,
       formatOfLayers(), true}};
  if (config.hasDenseLayers())
    extents.push_back(
        {"intermediate_size", sizes.intermediate, formatOfLayers(), true});
  if (config.hasExperts()) {
    extents.push_back(
        {"hidden_size", config.hiddenSize, formatOfExperts(), false});
    extents.push_back({config.kind == NetworkKind::Qwen3Moe
                           ? "moe_intermediate_size"
                           : "intermediate_size",
                       sizes.expertIntermediate, formatOfExperts(), true});
  }
  for (const Extent &extent : extents) {
    const bool isW4 = extent.format == WeightFormat::W4;
    if ((isW4 || extent.format == WeightFormat::Mxfp4) &&
        extent.k % kLeastGroup != 0)
      return makeError(ErrorCode::InvalidArgument,
                       "{}{} is {}, not a multiple of the {} that share a "
                       "scale in {}",
                       extent.name,
                       extent.isDivided && hasRanks() ? " of a rank" : "",
                       extent.k, kLeastGroup, isW4 ? "w4" : "mxfp4");
  }
  return llvm::Error::success();
}

/// The types, layout and scales of a product over \p k with a weight of
/// \p format. Only weights of bf16 are transposed.
static std::string typesOfProduct(WeightFormat format, int64_t k,
                                  bool isTransposed) {
  switch (format) {
  case WeightFormat::Bf16:
    break;
  case WeightFormat::Fp8:
    return "dtype=e4m3 out=bf16 layout=NT scale_a=row scale_b=row";
  case WeightFormat::W4:
    return fmt::format("dtype=bf16 layout=NT b=int4 order_b=k64r16 "
                       "scale_b=1x{} scale_type_b=fp16",
                       groupOf(k));
  case WeightFormat::Mxfp4:
    return "dtype=bf16 layout=NT b=e2m1 order_b=k64r16 scale_b=1x32 "
           "scale_type_b=e8m0";
  }
  return isTransposed ? "dtype=bf16 layout=NN" : "dtype=bf16 layout=NT";
}

void ProblemList::addProduct(const char *name, WeightFormat format,
                             const Product &product) {
  add(name,
      fmt::format("gemm m={} n={} k={} {}{}", product.m, product.n, product.k,
                  typesOfProduct(format, product.k, product.isTransposed),
                  product.further),
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
  addProduct("output", formatOfLayers(),
             {tokens, config.hiddenSize, columns,
              fmt::format("{}{}", hasRanks() ? "" : " beta=1",
                          config.outputBias ? " pointwise=bias" : "")});
}

/// SwiGLU makes one column of two. Its result is quantised where down reads
/// fp8.
void ProblemList::addDense() {
  addProduct(
      "gate and up", formatOfLayers(),
      {tokens, 2 * sizes.intermediate, config.hiddenSize, " pointwise=swiglu"});
  addQuantization("quantised gate and up", sizes.intermediate);
  addProduct("down", formatOfLayers(),
             {tokens, config.hiddenSize, sizes.intermediate,
              hasRanks() ? "" : " beta=1"});
}

/// The sum over a token's rows, which the padding of a batch does not have: its
/// weights are 0. One rank alone also adds the residual.
void ProblemList::addCombine(const char *name, bool hasNorm) {
  std::string problem =
      fmt::format("combine tokens={} cols={} topk={} dtype=bf16 "
                  "weights=present",
                  tokens, config.hiddenSize, config.experts.perToken);
  if (!hasRanks())
    problem += " residual=1";
  if (hasNorm)
    problem += fmt::format(" norm=1 eps={}", config.rmsNormEps);
  add(name, std::move(problem), {{"tokens", 1, tokens}});
}

/// A token has a row for each of its experts; rows lie by expert. The router
/// reads bf16 in all formats. The sum over a token's rows has the norm of the
/// next product, unless that product reads fp8: behind the last layer it is the
/// head, which never does.
void ProblemList::addExperts() {
  const NetworkExperts &experts = config.experts;
  const int64_t rows = tokens * experts.perToken;
  add("router",
      fmt::format("gemm m={} n={} k={} dtype=bf16 out=fp32 layout=NT", tokens,
                  experts.count, config.hiddenSize),
      {{"m", 1, tokens}});
  add("routing",
      fmt::format("route tokens={} experts={} topk={} dtype=fp32 renorm={:d} "
                  "count=1{}",
                  tokens, experts.count, experts.perToken, experts.normalizes,
                  experts.hasBias ? " logit_bias=1" : ""),
      {{"tokens", 1, tokens}});
  addQuantization("quantised norm of experts", config.hiddenSize);
  const std::string groups =
      fmt::format(" batch={} groups=ends", experts.count);
  const bool isTransposed = experts.hasBias; // as gpt-oss stores bf16
  addProduct("gate and up of experts", formatOfExperts(),
             {rows, 2 * sizes.expertIntermediate, config.hiddenSize,
              fmt::format("{} gather=1 divisor={} pointwise={}{}", groups,
                          experts.perToken, experts.hasBias ? "bias," : "",
                          experts.isClamped ? "swiglu_clamped" : "swiglu"),
              experts.perToken, isTransposed});
  addQuantization("quantised gate and up of experts", sizes.expertIntermediate,
                  experts.perToken);
  addProduct("down of experts", formatOfExperts(),
             {rows, config.hiddenSize, sizes.expertIntermediate,
              fmt::format("{} scatter=1 row_weights=1{}", groups,
                          experts.hasBias ? " pointwise=bias" : ""),
              experts.perToken, isTransposed});
  const bool isLast = experts.layers.back(),
             isEarlier =
                 llvm::is_contained(llvm::drop_end(experts.layers), true);
  if (hasRanks() || (isFp8() && isEarlier))
    addCombine("sum of experts", false);
  if (!hasRanks() && (!isFp8() || isLast))
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
/// head. Norms behind sums of kiln_allreduce are in addSums().
void ProblemList::addNorms() {
  addNorm(isFp8() ? "quantised norm" : "norm", isFp8(), false);
  if (addsInNorm())
    addNorm(isFp8() ? "quantised norm with residual" : "norm with residual",
            isFp8(), true);
  if (isFp8() && !addsInSum())
    addNorm(addsInNorm() ? "norm with residual" : "norm", false, addsInNorm());
}

/// A row of logits is summed as several rows, each the longest that a block of
/// the kernel takes in one pass, of whole vectors.
void ProblemList::addSums() {
  const auto sum = [&](const char *name, int64_t rows, int64_t columns,
                       const std::string &further, int64_t rowsOfToken) {
    add(name,
        fmt::format("allreduce rows={} cols={} ranks={} {}", rows, columns,
                    options.ranks, further),
        {{"rows", rowsOfToken, rows}});
  };
  sum("sum over the ranks", tokens, config.hiddenSize,
      fmt::format("dtype=bf16 norm=1 residual=1 eps={}", config.rmsNormEps), 1);
  addQuantization("quantised sum over the ranks", config.hiddenSize);
  if (sizes.vocab == config.vocabSize)
    return;
  constexpr int64_t kVector = 4, kMost = 2048;
  int64_t parts = (config.vocabSize + kMost - 1) / kMost;
  while (config.vocabSize % (parts * kVector) != 0)
    ++parts;
  sum("logits of the ranks", batch * parts, config.vocabSize / parts,
      "dtype=fp32", parts);
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

void ProblemList::addAttentions(int64_t window) {
  std::string problem =
      fmt::format("heads={} kvheads={} d={} dtype=bf16 kvlen=used pages=table "
                  "page={} ldq={}",
                  sizes.heads, sizes.kvHeads, config.headDim,
                  options.pageTokens, headRow());
  if (options.cache == CacheFormat::E4m3)
    problem += " kv=e4m3 scales=tensor";
  if (config.hasSinks)
    problem += " sinks=1";
  const std::string ofWindow = window ? " in a window" : "";
  const std::string mask =
      window ? fmt::format("mask=window left={} right=0", window - 1) : "";
  add("attention of decodes" + ofWindow,
      fmt::format("attention batch={} sq=1 sk={} {} {}", batch, positions, mask,
                  problem),
      {{"batch", 1, batch}, {"sk", 1, positions}});
  add("attention of prefills" + ofWindow,
      fmt::format("attention sq={} sk={} {} qlen=packed {}", tokens, positions,
                  window ? mask : "mask=causal", problem),
      {{"batch", 1, batch}, {"sq", 1, tokens}, {"sk", 1, positions}});
}

/// A step that feeds itself advances positions and lengths.
void ProblemList::addSampling() {
  add("last rows",
      fmt::format("gather rows={} cols={} dtype=bf16 xrows={}", batch,
                  config.hiddenSize, tokens),
      {{"rows", 1, batch}});
  add("head",
      fmt::format("gemm m={} n={} k={} dtype=bf16 out=fp32 layout=NT{}", batch,
                  sizes.vocab, config.hiddenSize,
                  addsInSum() ? fmt::format(" ldd={}", config.vocabSize) : ""),
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
  if (addsInSum())
    addSums();
  addProduct("qkv", formatOfLayers(),
             {tokens, headRow(), config.hiddenSize,
              config.qkvBias ? " pointwise=bias" : ""});
  addRotations();
  for (int64_t window : config.windows)
    addAttentions(window);
  addOutput();
  if (config.hasDenseLayers())
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
  constexpr int64_t kMostNcclRanks = 1024, kMostTokens = 1 << 20;
  const bool isNccl = options.sums == RankSums::Nccl;
  if (auto error = requireWithin(
          isNccl ? "the number of ranks" : "the number of ranks without NCCL",
          options.ranks, 1, isNccl ? kMostNcclRanks : kMostSummedRanks))
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
  if (auto error = requireWithin("the size of a page", options.pageTokens, 1,
                                 kMostTokens))
    return error;
  if (options.ranks > 1 && (config.hasSinks || config.outputBias))
    return makeError(ErrorCode::Unsupported,
                     "ranks divide neither sinks nor biases of the output "
                     "projection");
  if (config.experts.hasBias && options.weights != WeightFormat::Bf16 &&
      options.weights != WeightFormat::Mxfp4)
    return makeError(ErrorCode::Unsupported,
                     "the experts of gpt-oss are bf16 or mxfp4");
  return llvm::Error::success();
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
  if (config.hasDenseLayers())
    if (auto error = share("intermediate columns", config.intermediateSize,
                           ranks, sizes.intermediate))
      return error;
  if (config.hasExperts())
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
  ProblemList list(config, options, *sizes);
  if (auto error = list.requireGroups())
    return error;
  return list.make();
}

} // namespace kiln
