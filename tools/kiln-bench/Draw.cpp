//===- Draw.cpp -----------------------------------------------------------===//
#include "kiln-bench/Draw.h"

#include "compare/StreamTools.h"

#include <llvm/ADT/STLExtras.h>
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

  /// A number below \p bound; the bias of the remainder does not show here.
  size_t below(size_t bound) { return engine() % bound; }
  /// In [0, 1).
  double fraction() {
    constexpr double kUnit = 0x1p-53;
    return static_cast<double>(engine() >> 11) * kUnit;
  }
  /// As likely as the logarithm of its place in \p first to \p last is long.
  double logUniform(double first, double last) {
    const double low = std::log(first);
    return std::exp(low + fraction() * (std::log(last) - low));
  }
  int64_t value(const NamedRange &range);
  int64_t fixedValue(const NamedRange &range);
  std::vector<size_t> order(size_t count);

private:
  std::mt19937_64 engine;
};

} // namespace

/// A value of a dynamic extent; one in four is made odd.
int64_t Dice::value(const NamedRange &range) {
  constexpr size_t kOddShare = 4;
  auto value = static_cast<int64_t>(logUniform(
      static_cast<double>(range.first), static_cast<double>(range.last) + 1));
  if (below(kOddShare) == 0)
    value |= 1;
  return std::clamp(value, range.first, range.last);
}

/// A value of an extent that things are stored by: odd, or a multiple of 8 or
/// of 64 where the range has one, each as often.
int64_t Dice::fixedValue(const NamedRange &range) {
  constexpr int64_t kMultiples[] = {0, 8, 64}; // 0: made odd
  auto value = static_cast<int64_t>(logUniform(
      static_cast<double>(range.first), static_cast<double>(range.last) + 1));
  const int64_t multiple = kMultiples[below(std::size(kMultiples))];
  if (multiple == 0)
    value = (value | 1) <= range.last ? value | 1 : value - 1;
  else if (const int64_t up = (value + multiple - 1) / multiple * multiple;
           up <= range.last)
    value = up;
  else
    value = value / multiple * multiple;
  return std::clamp(value, range.first, range.last);
}

/// The numbers below \p count, shuffled.
std::vector<size_t> Dice::order(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t(0));
  for (size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[below(i)]);
  return order;
}

namespace {

/// Draws values of one layer after another, each pair once.
class PairDrawer {
public:
  explicit PairDrawer(const DrawSpace &space) : space(space) {}

  /// New values of \p layer; nullopt: none were found.
  llvm::Expected<std::optional<ExtentPoint>> draw(size_t layer, Dice &dice);

private:
  ExtentPoint valuesOf(size_t layer, Dice &dice) const;
  llvm::Expected<bool> isNear(size_t layer, const ExtentPoint &values,
                              double bytes) const;

  const DrawSpace &space;
  std::set<std::pair<size_t, ExtentPoint>> met;
};

} // namespace

ExtentPoint PairDrawer::valuesOf(size_t layer, Dice &dice) const {
  ExtentPoint values;
  for (auto [i, range] : llvm::enumerate(space.ranges)) {
    const int64_t own = space.own.empty() ? 0 : space.own[layer][i];
    const bool isFixed = !space.fixed.empty() && space.fixed[i];
    values.push_back(own != 0  ? own
                     : isFixed ? dice.fixedValue(range)
                               : dice.value(range));
  }
  return values;
}

/// Whether \p layer has about as many \p bytes at \p values, and not more or
/// less than it may have.
llvm::Expected<bool> PairDrawer::isNear(size_t layer, const ExtentPoint &values,
                                        double bytes) const {
  constexpr double kNear = 1.5;
  auto moved = space.bytesOf(layer, values);
  if (!moved)
    return moved.takeError();
  const auto [least, most] = *space.bytes;
  const auto has = static_cast<double>(*moved);
  return has >= static_cast<double>(least) &&
         has <= static_cast<double>(most) && has < bytes * kNear &&
         bytes < has * kNear;
}

llvm::Expected<std::optional<ExtentPoint>> PairDrawer::draw(size_t layer,
                                                            Dice &dice) {
  // A layer that has used up its likely values goes on to unlikely ones; one
  // that does not reach its bytes leaves its turn to others.
  constexpr unsigned kMostTries = 100'000, kTriesOfBytes = 1'000;
  double bytes = 0;
  for (unsigned tries = 0; tries < kMostTries; ++tries) {
    if (space.bytes && tries % kTriesOfBytes == 0)
      bytes = dice.logUniform(static_cast<double>(space.bytes->first),
                              static_cast<double>(space.bytes->second));
    ExtentPoint values = valuesOf(layer, dice);
    if (space.bytes) {
      auto near = isNear(layer, values, bytes);
      if (!near)
        return near.takeError();
      if (!*near)
        continue;
    }
    if (met.insert({layer, values}).second)
      return values;
  }
  return std::nullopt;
}

llvm::Expected<std::vector<Drawn>> drawPairs(const DrawSpace &space,
                                             unsigned count,
                                             llvm::ArrayRef<uint64_t> seeds) {
  std::vector<Drawn> drawn;
  PairDrawer drawer(space);
  for (uint64_t seed : seeds) {
    Dice dice(seed);
    std::vector<size_t> turns;
    for (unsigned i = 0; i < count; ++i) {
      if (turns.empty())
        turns = dice.order(space.layers);
      const size_t layer = turns.back();
      turns.pop_back();
      auto values = drawer.draw(layer, dice);
      if (!values)
        return values.takeError();
      if (!*values)
        return makeError(ErrorCode::InvalidArgument,
                         "{} problems of {} layers for each of {} seeds use up "
                         "the values of --range={}{}",
                         count, space.layers, seeds.size(),
                         textOf(space.ranges),
                         space.bytes ? " within --bytes" : "");
      drawn.push_back({layer, std::move(**values), seed});
    }
  }
  return drawn;
}

std::string DrawRequest::text(llvm::StringRef suite) const {
  const std::string size =
      bytes ? fmt::format(", {} to {} bytes", bytes->first, bytes->second) : "";
  return fmt::format("{} problems of {}, {}{}, seed{} {}", drawn.size(), suite,
                     textOf(ranges), size, seeds.size() == 1 ? "" : "s",
                     fmt::join(seeds, ", "));
}

std::vector<bool> DrawRequest::fixed() const {
  std::vector<bool> fixed;
  for (const NamedRange &range : ranges)
    fixed.push_back(llvm::any_of(
        layers, [&](const Layer &layer) { return layer.isFixed(range); }));
  return fixed;
}

const NamedRange *DrawRequest::fixedRange() const {
  for (auto [range, isFixed] : llvm::zip(ranges, fixed()))
    if (isFixed)
      return &range;
  return nullptr;
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

/// The space that \p request draws from; it refers to the request.
static DrawSpace spaceOf(const DrawRequest &request) {
  DrawSpace space{request.layers.size(), request.ranges, request.fixed()};
  for (const Layer &layer : request.layers)
    space.own.push_back(layer.own);
  space.bytes = request.bytes;
  space.bytesOf =
      [&request](size_t layer,
                 const ExtentPoint &values) -> llvm::Expected<int64_t> {
    auto made = request.layers[layer].at(request.ranges, values);
    if (!made)
      return made.takeError();
    const auto &[family, problem] = made->named;
    return streamBytesOf(*family, problem).total();
  };
  return space;
}

llvm::Expected<DrawRequest> readDraw(const ParsedOptions &options,
                                     unsigned count, const Registry &registry) {
  DrawRequest request;
  request.count = count;
  auto ranges = readNamedRanges(options, "m=1..8192");
  if (!ranges)
    return ranges.takeError();
  request.ranges = std::move(*ranges);
  auto seeds = readSeeds(options.value("--seed").value_or("1"));
  if (!seeds)
    return seeds.takeError();
  request.seeds = std::move(*seeds);
  auto bytes = options.bytesRange("--bytes");
  if (!bytes)
    return bytes.takeError();
  request.bytes = *bytes;
  auto layers =
      readLayers(options, request.ranges, RangedExtents::All, registry);
  if (!layers)
    return layers.takeError();
  request.layers = std::move(*layers);
  auto drawn = drawPairs(spaceOf(request), request.count, request.seeds);
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
