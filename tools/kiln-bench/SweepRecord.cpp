//===- SweepRecord.cpp ----------------------------------------------------===//
#include "kiln-bench/SweepRecord.h"

#include "Support/Error.h"
#include "Support/Hash.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/raw_ostream.h>

#include <cmath>

namespace kiln::cli {

bool RecordedSpace::isTest() const {
  constexpr unsigned kTestShare = 3;
  return strongHash(problem).bytes[0] % kTestShare == 0;
}

double RecordedSpace::bestNs() const {
  // As SweepResult::best(): the least of many noisy times is too low.
  const bool hasPlayoff =
      llvm::any_of(configs, [](const auto &one) { return one.inPlayoff; });
  double best = 0;
  for (const TimedConfig &one : configs)
    if (one.inPlayoff >= hasPlayoff && (best == 0 || one.ns < best))
      best = one.ns;
  return best;
}

RecordedSpace RecordedSpace::of(llvm::StringRef name, llvm::StringRef problem,
                                const SweepResult &result) {
  RecordedSpace space{name.str(), problem.str(), result.spaceSize, {}};
  for (const SweptConfig &one : result.configs)
    if (one.isMeasured())
      space.configs.push_back(
          {one.result.config, one.rank, one.result.medianNs, one.inPlayoff});
  return space;
}

static llvm::json::Value toJson(const TimedConfig &one) {
  llvm::json::Array row{one.config, one.rank,
                        static_cast<int64_t>(std::llround(one.ns))};
  if (one.inPlayoff)
    row.push_back(1);
  return row;
}

/// \p value in one line.
static std::string lineOf(const llvm::json::Value &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

std::string SweepRecord::text() const {
  std::string text = "{";
  for (auto [key, value] :
       {std::pair("what", &what), std::pair("commit", &commit),
        std::pair("gpu", &gpu), std::pair("driver", &driver),
        std::pair("toolchain", &toolchain), std::pair("mode", &mode),
        std::pair("device", &device)})
    if (value != &commit || !commit.empty())
      text += fmt::format("\"{}\": {},\n ", key, lineOf(jsonText(*value)));
  text += "\"spaces\": [";
  llvm::ListSeparator betweenSpaces(",");
  for (const RecordedSpace &space : spaces) {
    text += fmt::format(
        "{}\n {{\"name\": {}, \"problem\": {}, \"split\": \"{}\", \"size\": "
        "{}, \"configs\": [",
        llvm::StringRef(betweenSpaces), lineOf(jsonText(space.name)),
        lineOf(jsonText(space.problem)), space.isTest() ? "test" : "fit",
        space.size);
    llvm::ListSeparator betweenConfigs(",");
    for (const TimedConfig &one : space.configs)
      text += fmt::format("{}\n{}", llvm::StringRef(betweenConfigs),
                          lineOf(toJson(one)));
    text += "]}";
  }
  return text + "]}\n";
}

static llvm::Expected<TimedConfig> parseConfig(const llvm::json::Value &json) {
  const llvm::json::Array *row = json.getAsArray();
  constexpr size_t kLeast = 3;
  if (row && row->size() >= kLeast) {
    auto config = (*row)[0].getAsString();
    auto rank = (*row)[1].getAsInteger();
    auto ns = (*row)[2].getAsNumber();
    if (config && rank && ns && *ns > 0)
      return TimedConfig{config->str(), static_cast<int>(*rank), *ns,
                         row->size() > kLeast};
  }
  return makeError(ErrorCode::InvalidArgument, "{} is not [config, rank, ns]",
                   lineOf(json));
}

static llvm::Expected<RecordedSpace> parseSpace(const llvm::json::Value &json) {
  const llvm::json::Object *object = json.getAsObject();
  auto name = object ? object->getString("name") : std::nullopt;
  auto problem = object ? object->getString("problem") : std::nullopt;
  const llvm::json::Array *configs =
      object ? object->getArray("configs") : nullptr;
  if (!name || !problem || !configs)
    return makeError(ErrorCode::InvalidArgument,
                     "it has no name, problem or configs");
  RecordedSpace space{name->str(), problem->str(), 0, {}};
  space.size = static_cast<size_t>(object->getInteger("size").value_or(0));
  for (const llvm::json::Value &row : *configs) {
    auto one = parseConfig(row);
    if (!one)
      return addContext(one.takeError(), *name);
    space.configs.push_back(std::move(*one));
  }
  return space;
}

llvm::Expected<SweepRecord> SweepRecord::parse(const llvm::json::Value &json,
                                               llvm::StringRef path) {
  const llvm::json::Object *object = json.getAsObject();
  const llvm::json::Array *list = object ? object->getArray("spaces") : nullptr;
  if (!list)
    return makeError(ErrorCode::InvalidArgument,
                     "{}: there is no array 'spaces': not a record of sweeps",
                     path);
  SweepRecord record;
  for (auto [key, value] :
       {std::pair("what", &record.what), std::pair("commit", &record.commit),
        std::pair("gpu", &record.gpu), std::pair("driver", &record.driver),
        std::pair("toolchain", &record.toolchain),
        std::pair("mode", &record.mode), std::pair("device", &record.device)})
    *value = object->getString(key).value_or("").str();
  for (auto [i, value] : llvm::enumerate(*list)) {
    auto space = parseSpace(value);
    if (!space)
      return addContext(space.takeError(),
                        fmt::format("{}: space {}", path, i + 1));
    record.spaces.push_back(std::move(*space));
  }
  return record;
}

} // namespace kiln::cli
