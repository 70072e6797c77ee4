//===- Draw.cpp -----------------------------------------------------------===//
#include "kiln/Draw.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

namespace kiln::cli {

namespace {

/// Draws values of one seed. The standard's distributions differ from library
/// to library, its engines do not.
class Dice {
public:
  explicit Dice(uint64_t seed) : engine(seed) {}

  /// A number below \p bound; what the remainder favours is not seen here.
  size_t below(size_t bound) { return engine() % bound; }
  /// In [0, 1).
  double fraction() {
    constexpr double kUnit = 0x1p-53;
    return static_cast<double>(engine() >> 11) * kUnit;
  }
  int64_t value(const NamedRange &range);
  ExtentPoint values(const NamedRanges &ranges);
  std::vector<size_t> order(size_t count);

private:
  std::mt19937_64 engine;
};

} // namespace

/// Each value as likely as the logarithm of its place is long; one in four is
/// made odd.
int64_t Dice::value(const NamedRange &range) {
  constexpr size_t kOddShare = 4;
  const double low = std::log(static_cast<double>(range.first));
  const double high = std::log(static_cast<double>(range.last) + 1);
  auto value = static_cast<int64_t>(std::exp(low + fraction() * (high - low)));
  if (below(kOddShare) == 0)
    value |= 1;
  return std::clamp(value, range.first, range.last);
}

ExtentPoint Dice::values(const NamedRanges &ranges) {
  ExtentPoint values;
  for (const NamedRange &range : ranges)
    values.push_back(value(range));
  return values;
}

/// The numbers below \p count, shuffled.
std::vector<size_t> Dice::order(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t(0));
  for (size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[below(i)]);
  return order;
}

llvm::Expected<std::vector<Drawn>> drawPairs(size_t layers,
                                             const NamedRanges &ranges,
                                             unsigned count,
                                             llvm::ArrayRef<uint64_t> seeds) {
  // A layer whose likely values are used up goes on to unlikely ones.
  constexpr unsigned kMostTries = 100'000;
  std::vector<Drawn> drawn;
  std::set<std::pair<size_t, ExtentPoint>> met;
  for (uint64_t seed : seeds) {
    Dice dice(seed);
    std::vector<size_t> turns;
    for (unsigned i = 0; i < count; ++i) {
      if (turns.empty())
        turns = dice.order(layers);
      const size_t layer = turns.back();
      turns.pop_back();
      ExtentPoint values = dice.values(ranges);
      for (unsigned tries = 1; !met.insert({layer, values}).second; ++tries) {
        if (tries == kMostTries)
          return makeError(ErrorCode::InvalidArgument,
                           "--draw={} with {} layers and {} seeds uses up "
                           "the values of --range={}",
                           count, layers, seeds.size(), textOf(ranges));
        values = dice.values(ranges);
      }
      drawn.push_back({layer, std::move(values), seed});
    }
  }
  return drawn;
}

std::string DrawRequest::text(llvm::StringRef suite) const {
  return fmt::format("{} problems of {}, {}, seed{} {}", drawn.size(), suite,
                     textOf(ranges), seeds.size() == 1 ? "" : "s",
                     fmt::join(seeds, ", "));
}

static llvm::Expected<std::vector<uint64_t>> readSeeds(llvm::StringRef text) {
  std::vector<uint64_t> seeds;
  for (llvm::StringRef part : llvm::split(text, ','))
    if (part.getAsInteger(10, seeds.emplace_back()))
      return makeError(ErrorCode::InvalidArgument,
                       "--seed={} is not a list of numbers such as 1,2,3",
                       text);
  std::set<uint64_t> distinct(seeds.begin(), seeds.end());
  if (distinct.size() < seeds.size())
    return makeError(ErrorCode::InvalidArgument, "--seed={} has a seed twice",
                     text);
  return seeds;
}

llvm::Expected<std::optional<DrawRequest>>
readDraw(const ParsedOptions &options, const Registry &registry) {
  if (!options.has("--draw")) {
    for (const OptionSpec &option : {kRangeOption, kSeedOption})
      if (options.has(option.name))
        return makeError(ErrorCode::InvalidArgument, "{} is for --draw",
                         option.name);
    return std::nullopt;
  }
  DrawRequest request;
  auto count = options.number("--draw", 0);
  if (!count)
    return count.takeError();
  request.count = *count;
  auto ranges = readNamedRanges(options, "m=1..8192");
  if (!ranges)
    return ranges.takeError();
  request.ranges = std::move(*ranges);
  auto seeds = readSeeds(options.value("--seed").value_or("1"));
  if (!seeds)
    return seeds.takeError();
  request.seeds = std::move(*seeds);
  auto layers = readLayers(options, request.ranges, registry);
  if (!layers)
    return layers.takeError();
  request.layers = std::move(*layers);
  auto drawn = drawPairs(request.layers.size(), request.ranges, request.count,
                         request.seeds);
  if (!drawn)
    return drawn.takeError();
  request.drawn = std::move(*drawn);
  for (const Drawn &one : request.drawn) {
    auto made = request.layers[one.layer].at(request.ranges, one.values);
    if (!made)
      return made.takeError();
    request.cases.push_back(std::move(*made));
  }
  return request;
}

} // namespace kiln::cli
