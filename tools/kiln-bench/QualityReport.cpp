//===- QualityReport.cpp --------------------------------------------------===//
#include "kiln-bench/QualityReport.h"

#include "Support/Error.h"
#include "Support/Json.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kiln::cli {

/// The one figure that is better when it is smaller.
static constexpr llvm::StringLiteral kTimeError = "time_error";

static constexpr double kThousand = 1000;

/// The subject of floors.
static std::map<std::string, double> checkedFigures(const QualityFigures &of) {
  return {{"top1", of.top1.geomean},
          {"top1_tenth", of.top1.tenth},
          {"top5", of.top5.geomean},
          {"correlation", of.correlation},
          {kTimeError.str(), of.timeError}};
}

QualityFloors QualityFloors::of(const QualityTable &table) {
  constexpr size_t kFewProblems = 3;
  QualityFloors made;
  for (const auto &[split, regimes] : table)
    for (const auto &[regime, figures] : regimes) {
      if (figures.problems < kFewProblems)
        continue;
      const bool isWhole = figures.configs >= kWholeSpace * figures.problems;
      for (const auto &[name, value] : checkedFigures(figures))
        if (isWhole || llvm::StringRef(name).starts_with("top"))
          made.floors[split][regime][name] = static_cast<int64_t>(
              name == kTimeError ? std::ceil(value * kThousand)
                                 : std::floor(value * kThousand));
    }
  return made;
}

llvm::Expected<QualityFloors>
QualityFloors::parse(const llvm::json::Object &json) {
  QualityFloors parsed;
  for (const auto &[split, regimes] : json) {
    const llvm::json::Object *byRegime = regimes.getAsObject();
    if (!byRegime)
      return makeError(ErrorCode::InvalidArgument,
                       "floors: '{}' is not an object", split.str());
    for (const auto &[regime, figures] : *byRegime) {
      const llvm::json::Object *byName = figures.getAsObject();
      if (!byName)
        return makeError(ErrorCode::InvalidArgument,
                         "floors: {}: '{}' is not an object", split.str(),
                         regime.str());
      for (const auto &[name, value] : *byName) {
        auto number = value.getAsInteger();
        if (!number || !checkedFigures({}).count(name.str()))
          return makeError(ErrorCode::InvalidArgument,
                           "floors: {}: {}: '{}' is no figure in thousandths",
                           split.str(), regime.str(), name.str());
        parsed.floors[split.str()][regime.str()][name.str()] = *number;
      }
    }
  }
  return parsed;
}

llvm::json::Object QualityFloors::toJson() const {
  llvm::json::Object json;
  for (const auto &[split, regimes] : floors) {
    llvm::json::Object bySplit;
    for (const auto &[regime, figures] : regimes) {
      llvm::json::Object byRegime;
      for (const auto &[name, value] : figures)
        byRegime[name] = value;
      bySplit[regime] = std::move(byRegime);
    }
    json[split] = std::move(bySplit);
  }
  return json;
}

std::vector<std::string>
QualityFloors::violations(const QualityTable &table) const {
  std::vector<std::string> lines;
  for (const auto &[split, regimes] : floors)
    for (const auto &[regime, figures] : regimes) {
      auto bySplit = table.find(split);
      if (bySplit == table.end() || !bySplit->second.count(regime)) {
        lines.push_back(
            fmt::format("{}, {}: nothing was replayed", split, regime));
        continue;
      }
      const auto now = checkedFigures(bySplit->second.at(regime));
      for (const auto &[name, floor] : figures) {
        const double value = now.at(name) * kThousand;
        const auto limit = static_cast<double>(floor);
        if (name == kTimeError ? value > limit : value < limit)
          lines.push_back(fmt::format("{}, {}: {} is {:.4f}, was {:.3f}", split,
                                      regime, name, value / kThousand,
                                      limit / kThousand));
      }
    }
  return lines;
}

//===----------------------------------------------------------------------===//
// The report
//===----------------------------------------------------------------------===//

QualityRecord QualityRecord::of(llvm::StringRef name,
                                const SweepRecord &record) {
  QualityRecord made{name.str(),    record.what,      record.commit, record.gpu,
                     record.driver, record.toolchain, record.mode};
  made.spaces = record.spaces.size();
  for (const RecordedSpace &space : record.spaces)
    made.configs += space.configs.size();
  return made;
}

std::string QualityReport::joined(std::string QualityRecord::*member) const {
  std::set<std::string> texts;
  for (const QualityRecord &record : records)
    texts.insert(record.*member);
  return llvm::join(texts, ", ");
}

/// The spaces in which the first choice loses most.
void QualityReport::printWorst(llvm::raw_ostream &os) const {
  constexpr size_t kShown = 15;
  std::vector<const ReplayedSpace *> worst;
  for (const ReplayedSpace &space : spaces)
    worst.push_back(&space);
  llvm::stable_sort(worst, [](const auto *a, const auto *b) {
    return a->main.top1 < b->main.top1;
  });
  Table table({"least top1", "split", "first choice", ">us", "best", ">us",
               ">top1 %", ">top5 %"});
  for (const ReplayedSpace *space : llvm::ArrayRef(worst).take_front(kShown))
    table.addRow({space->name, space->isTest ? "test" : "fit", space->chosen,
                  formatUs(space->chosenNs), space->best,
                  formatUs(space->bestNs), percent(space->main.top1),
                  percent(space->main.top5)});
  table.print(os);
}

void QualityReport::print(llvm::raw_ostream &os) const {
  os << fmt::format("{} recorded spaces on {}; shares of the best measured\n",
                    spaces.size(), device);
  Table table({"split", "regime", ">spaces", ">configs", ">top1 %", ">tenth",
               ">least", ">top5 %", ">rank corr", ">time off %", ">classic",
               ">its top5", ">random", ">its top5", ">first known"});
  for (const auto &[split, regimes] : tabulate(spaces))
    for (const auto &[regime, figures] : regimes)
      table.addRow({split, regime, fmt::format("{}", figures.problems),
                    fmt::format("{}", figures.configs),
                    percent(figures.top1.geomean), percent(figures.top1.tenth),
                    percent(figures.top1.least), percent(figures.top5.geomean),
                    fmt::format("{:.3f}", figures.correlation),
                    fmt::format("{:.1f}", 100 * figures.timeError),
                    percent(figures.classic.top1),
                    percent(figures.classic.top5), percent(figures.random.top1),
                    percent(figures.random.top5),
                    fmt::format("{}", figures.withFirstChoice)});
  table.print(os);
  printWorst(os);
  for (const std::string &line : left)
    os << "not replayed: " << line << '\n';
  for (const std::string &line : violations)
    os << "fell: " << line << '\n';
}

static llvm::json::Object figuresToJson(const QualityFigures &figures) {
  auto share = [](double value) { return rounded(value, 4); };
  return llvm::json::Object{
      {"problems", static_cast<int64_t>(figures.problems)},
      {"configs", static_cast<int64_t>(figures.configs)},
      {"top1", share(figures.top1.geomean)},
      {"top1_tenth", share(figures.top1.tenth)},
      {"top1_least", share(figures.top1.least)},
      {"top5", share(figures.top5.geomean)},
      {"correlation", share(figures.correlation)},
      {kTimeError, share(figures.timeError)},
      {"classic_top1", share(figures.classic.top1)},
      {"classic_top5", share(figures.classic.top5)},
      {"classic_problems", static_cast<int64_t>(figures.classicProblems)},
      {"random_top1", share(figures.random.top1)},
      {"random_top5", share(figures.random.top5)},
      {"first_choice_measured", static_cast<int64_t>(figures.withFirstChoice)}};
}

/// Figures by family and split.
static llvm::json::Object familiesToJson(llvm::ArrayRef<ReplayedSpace> spaces) {
  std::map<std::string,
           std::map<std::string, std::vector<const ReplayedSpace *>>>
      members;
  for (const ReplayedSpace &space : spaces)
    members[space.family][space.isTest ? "test" : "fit"].push_back(&space);
  llvm::json::Object families;
  for (const auto &[name, splits] : members) {
    llvm::json::Object family;
    for (const auto &[split, some] : splits) {
      llvm::json::Object figures = figuresToJson(QualityFigures::of(some));
      figures["choice_error"] = rounded(ChoiceErrors::of(some).size, 4);
      figures["top5_least"] = rounded(QualityFigures::of(some).top5.least, 4);
      family[split] = std::move(figures);
    }
    families[name] = std::move(family);
  }
  return families;
}

static llvm::json::Object blameToJson(const Blame &blame) {
  return llvm::json::Object{
      {"regret", rounded(blame.regret, 4)},
      {"templates", blame.templatePair()},
      {"cause", blame.cause()},
      {"bounds", llvm::json::Array{blame.chosen.bound, blame.best.bound}},
      {"in_favour_ns", rounded(blame.inFavourNs, 4)}};
}

static llvm::json::Object spaceToJson(const ReplayedSpace &space) {
  llvm::json::Object json{{"name", space.name},
                          {"family", space.family},
                          {"regime", space.regime},
                          {"record", static_cast<int64_t>(space.record)},
                          {"split", space.isTest ? "test" : "fit"},
                          {"configs", static_cast<int64_t>(space.configs)},
                          {"refused", static_cast<int64_t>(space.refused)},
                          {"top1", rounded(space.main.top1, 4)},
                          {"top5", rounded(space.main.top5, 4)},
                          {"correlation", rounded(space.correlation, 4)},
                          {"choice_error", rounded(space.choiceError(), 4)},
                          {"chosen", space.chosen},
                          {"best", space.best},
                          {"best_ns", rounded(space.bestNs)}};
  if (space.classic.top1 > 0)
    json["classic_top1"] = rounded(space.classic.top1, 4);
  if (space.blame)
    json["blame"] = blameToJson(*space.blame);
  return json;
}

std::string QualityReport::resultText() const {
  llvm::json::Object json = toJson();
  json.erase("spaces");
  const std::string whole = printJson(std::move(json));
  // Reopened: without the brace of its end.
  std::string text = llvm::StringRef(whole).rtrim().drop_back().rtrim().str();
  text += ",\n  \"spaces\": [";
  llvm::ListSeparator between(",");
  llvm::raw_string_ostream os(text);
  for (const ReplayedSpace &space : spaces)
    os << between << "\n    " << llvm::json::Value(spaceToJson(space));
  os << "\n  ]\n}\n";
  return text;
}

/// Where measured times come from, in the terms of the other results.
void QualityReport::addOrigin(llvm::json::Object &json) const {
  std::set<std::string> cudas;
  llvm::json::Array list;
  for (const QualityRecord &record : records) {
    // "nvrtc 13.0 ..."
    cudas.insert(llvm::StringRef(record.toolchain)
                     .split(' ')
                     .second.split(' ')
                     .first.str());
    list.push_back(
        llvm::json::Object{{"name", jsonText(record.name)},
                           {"commit", jsonText(record.commit)},
                           {"gpu", jsonText(record.gpu)},
                           {"spaces", static_cast<int64_t>(record.spaces)},
                           {"configs", static_cast<int64_t>(record.configs)}});
  }
  json["what"] = "The estimate's order of the configs of recorded sweeps";
  json["commit"] = jsonText(commit);
  json["gpu"] = jsonText(joined(&QualityRecord::gpu));
  json["driver"] = jsonText(joined(&QualityRecord::driver));
  json["cuda"] = jsonText(llvm::join(cudas, ", "));
  json["protocol"] =
      "The configs of each recorded space that have a measured time, in the "
      "order of the estimate of this commit; times are those of the sweeps, "
      "measured at the commits of the records; no GPU is needed";
  json["records"] = std::move(list);
}

llvm::json::Object QualityReport::toJson() const {
  llvm::json::Object figures;
  for (const auto &[split, regimes] : tabulate(spaces)) {
    llvm::json::Object bySplit;
    for (const auto &[regime, one] : regimes)
      bySplit[regime] = figuresToJson(one);
    figures[split] = std::move(bySplit);
  }
  llvm::json::Array list;
  for (const ReplayedSpace &space : spaces)
    list.push_back(spaceToJson(space));
  llvm::json::Object json{{"device", device},
                          {"figures", std::move(figures)},
                          {"families", familiesToJson(spaces)},
                          {"spaces", std::move(list)},
                          {"not_replayed", textsToJson(left)},
                          {"fell", textsToJson(violations)}};
  addOrigin(json);
  return json;
}

} // namespace kiln::cli
