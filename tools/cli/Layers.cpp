//===- Layers.cpp ---------------------------------------------------------===//
#include "cli/Layers.h"

#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

llvm::Expected<NamedRange> NamedRange::parse(llvm::StringRef text) {
  NamedRange range;
  auto [key, values] = text.split('=');
  auto [first, last] = values.split("..");
  range.key = key.str();
  if (key.empty() || first.getAsInteger(10, range.first) ||
      last.getAsInteger(10, range.last) || range.first < 1 ||
      range.last < range.first)
    return makeError(ErrorCode::InvalidArgument,
                     "--range={} is not a range such as m=1..8192", text);
  return range;
}

std::string NamedRange::text() const {
  return fmt::format("{}={}..{}", key, first, last);
}

llvm::Expected<NamedRanges> readNamedRanges(const ParsedOptions &options,
                                            llvm::StringRef otherwise) {
  std::vector<std::string> texts = options.values("--range");
  if (texts.empty())
    texts.push_back(otherwise.str());
  NamedRanges ranges;
  for (const std::string &text : texts) {
    auto range = NamedRange::parse(text);
    if (!range)
      return range.takeError();
    for (const NamedRange &known : ranges)
      if (known.key == range->key)
        return makeError(ErrorCode::InvalidArgument,
                         "--range={}: {} is given twice", text, known.key);
    ranges.push_back(std::move(*range));
  }
  return ranges;
}

std::string textOf(const NamedRanges &ranges) {
  std::string text;
  for (const NamedRange &range : ranges)
    text += fmt::format("{}{}", text.empty() ? "" : " ", range.text());
  return text;
}

std::vector<kiln_range> givenRanges(const NamedRanges &ranges) {
  std::vector<kiln_range> given;
  for (const NamedRange &range : ranges) {
    kiln_range &added = given.emplace_back(KILN_INIT(kiln_range));
    added.name = range.key.c_str();
    added.first = range.first;
    added.last = range.last;
  }
  return given;
}

llvm::Expected<Case> Layer::at(const NamedRanges &ranges,
                               llvm::ArrayRef<int64_t> extents) const {
  Values values = described;
  std::string place;
  for (auto [range, value, given] : llvm::zip_equal(ranges, extents, own)) {
    if (given != 0)
      continue;
    values.set(range.key, value);
    place += fmt::format("{}{}{}", place.empty() ? "" : "-", range.key, value);
  }
  auto problem = family->canonicalise(std::move(values));
  if (!problem)
    return addContext(problem.takeError(), name);
  return Case{fmt::format("{}/{}", name, place), {family, std::move(*problem)}};
}

llvm::Expected<Case> Layer::atLast(const NamedRanges &ranges) const {
  ExtentPoint last;
  for (const NamedRange &range : ranges)
    last.push_back(range.last);
  return at(ranges, last);
}

/// The field that \p range names; null: the family has no such field.
static const Field *fieldOf(const KernelFamily &family,
                            const NamedRange &range) {
  const Schema &schema = family.problemSchema();
  const int field = schema.find(range.key);
  return field < 0 ? nullptr : &schema.fields()[static_cast<size_t>(field)];
}

bool Layer::isFixed(const NamedRange &range) const {
  return !fieldOf(*family, range)->mayVary();
}

/// Gives \p fields the first value of \p range, unless they may have and have
/// one; answers that.
static llvm::Expected<int64_t> addExtent(const KernelFamily &family,
                                         llvm::json::Object &fields,
                                         const NamedRange &range,
                                         RangedExtents extents) {
  const Field *field = fieldOf(family, range);
  const bool isFixed = field && extents == RangedExtents::All &&
                       field->role == FieldRole::Extent;
  if (!field || (!isFixed && !field->mayVary()))
    return makeError(ErrorCode::InvalidArgument, "{} is not an extent of {}{}",
                     range.key, family.name(),
                     extents == RangedExtents::All ? "" : " that may vary");
  if (fields.try_emplace(range.key, range.first).second)
    return 0;
  std::optional<int64_t> given = fields.getInteger(range.key);
  if (!isFixed || given.value_or(0) < 1)
    return makeError(ErrorCode::InvalidArgument,
                     "{} is given, which --range={} varies", range.key,
                     range.text());
  return *given;
}

llvm::Expected<std::vector<Layer>> parseLayers(const llvm::json::Value &json,
                                               llvm::StringRef path,
                                               const NamedRanges &ranges,
                                               RangedExtents extents,
                                               const Registry &registry) {
  ExtentPoint own; // of the entry that is read
  auto complete = [&](const KernelFamily &family,
                      llvm::json::Object &fields) -> llvm::Error {
    own.clear();
    for (const NamedRange &range : ranges) {
      auto given = addExtent(family, fields, range, extents);
      if (!given)
        return given.takeError();
      own.push_back(*given);
    }
    return llvm::Error::success();
  };
  std::vector<Layer> layers;
  llvm::Error error =
      readEntries(json, path, {"layers", "", complete}, registry,
                  [&](SuiteEntry entry) -> llvm::Error {
                    Layer layer{std::move(entry.name), entry.family,
                                std::move(entry.values), own};
                    // The largest problem tells whether all can be described.
                    if (auto largest = layer.atLast(ranges); !largest)
                      return largest.takeError();
                    layers.push_back(std::move(layer));
                    return llvm::Error::success();
                  });
  if (error)
    return error;
  return layers;
}

llvm::Expected<std::vector<Layer>> readLayers(const ParsedOptions &options,
                                              const NamedRanges &ranges,
                                              RangedExtents extents,
                                              const Registry &registry) {
  if (!options.operands().empty())
    return makeError(ErrorCode::InvalidArgument,
                     "layers are those of --suite, got the problem '{}'",
                     options.operands().front());
  std::optional<std::string> path = options.value("--suite");
  if (!path)
    return makeError(ErrorCode::InvalidArgument,
                     "there are no layers: --suite FILE has them");
  auto json = readJsonFile(*path);
  if (!json)
    return json.takeError();
  auto layers = parseLayers(*json, *path, ranges, extents, registry);
  if (!layers)
    return layers.takeError();
  std::string filter = options.value("--filter").value_or("");
  std::vector<Layer> chosen;
  for (Layer &layer : *layers)
    if (llvm::StringRef(layer.name).contains(filter))
      chosen.push_back(std::move(layer));
  if (chosen.empty())
    return makeError(
        ErrorCode::InvalidArgument, "{}: no layer{}", *path,
        filter.empty() ? "" : fmt::format(" has '{}' in its name", filter));
  return chosen;
}

} // namespace kiln::cli
