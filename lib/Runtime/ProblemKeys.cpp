//===- ProblemKeys.cpp - the keys of what is stored of a problem ----------===//
#include "Runtime/ProblemKeys.h"

#include "Cache/Entry.h"
#include "Call/RangeParts.h"
#include "Observe/CallScope.h"
#include "Support/Json.h"
#include "Support/Report.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSet.h>

#include <vector>

namespace kiln {

namespace {

/// One kernel that serves a part.
struct ArtifactName {
  std::string file; ///< its entry's
  std::string config, kernel, arch;
  bool isOnDisk = false;
};

/// The stored entries for values that have one signature.
struct KeysOfPart {
  std::string range; ///< empty: one value
  std::string record;
  llvm::StringRef from = {}; ///< where the kernels come from; empty: not known
  std::vector<ArtifactName> artifacts = {};
};

/// Collects the keys of a problem's parts.
class KeyCollector {
public:
  KeyCollector(Inspection &inspection, const KernelFamily &family)
      : from(inspection.sources()), family(family) {}

  KeysOfPart ofRange(const RangePart &part);
  llvm::Expected<KeysOfPart> ofValue(const Problem &problem);

private:
  void add(const Plan &plan, KeysOfPart &part) const;
  bool addStored(const Problem &problem, KeysOfPart &part) const;

  const ChoiceSources from;
  const KernelFamily &family;
};

/// The keys of a problem, one line each, or as JSON.
class KeysReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::string problem, device, deviceClass;
  std::vector<KeysOfPart> parts;
};

} // namespace

/// Adds the kernels of \p plan that are not there yet.
void KeyCollector::add(const Plan &plan, KeysOfPart &part) const {
  for (const TranslationUnit &unit : plan.kernels) {
    std::string file =
        cache::fileNameOf(cache::Kind::Artifact, artifactKey(unit));
    if (llvm::none_of(part.artifacts, [&](const ArtifactName &known) {
          return known.file == file;
        }))
      part.artifacts.push_back({std::move(file), plan.configText(),
                                unit.entry(), unit.arch(),
                                from.artifacts.isOnDisk(unit)});
  }
}

/// The members of the portfolio that the cache has for the part. Without a
/// portfolio the kernels of a range are not known before they are chosen.
KeysOfPart KeyCollector::ofRange(const RangePart &part) {
  KeysOfPart keys{part.range.text(),
                  recordKey(family, part.typical, from.deviceClass)};
  auto known = findStored(from.ofPortfolios(), part.range);
  if (!known)
    return keys;
  keys.from = "portfolio";
  for (auto [i, member] : llvm::enumerate(known->members())) {
    const Problem &target = known->targetOf(static_cast<uint32_t>(i));
    if (!from.records.verdicts().isWrong(from.deviceClass, member.kernel))
      add(member.tmpl->plan(target, member.config, from.device), keys);
  }
  return keys;
}

static llvm::StringRef nameOfSource(const Choice &choice) {
  if (choice.portfolio)
    return "portfolio";
  return choice.source == KILN_SOURCE_RECORD     ? "record"
         : choice.source == KILN_SOURCE_DECISION ? "decision"
                                                 : "estimate";
}

/// Adds the kernels of the choice that the cache has, as kiln_query tells it.
bool KeyCollector::addStored(const Problem &problem, KeysOfPart &part) const {
  const PlanRequest request{family, problem};
  Chooser chooser(from, request);
  const TrialIntent trials{.areAhead = hasStep(from.mode, ChoiceStep::Trials)};
  bool isFound = false;
  chooser.offerStored(trials, [&](const Choice &choice) {
    if (choice.isForLater)
      return false;
    for (const Problem &target : chooser.targetsOf(choice))
      if (auto plan = chooser.plan(target, choice)) {
        add(*plan, part);
        part.from = nameOfSource(choice);
        isFound = true;
        break;
      }
    return isFound;
  });
  return isFound;
}

llvm::Expected<KeysOfPart> KeyCollector::ofValue(const Problem &problem) {
  KeysOfPart keys{"", recordKey(family, problem, from.deviceClass)};
  if (family.isEmpty(problem) || addStored(problem, keys))
    return keys;
  auto space = exploreSpace(family, problem, from.device,
                            {.allowance = {from.workspaceLimit}});
  if (!space)
    return space.takeError();
  const Candidate &first = space->ranked.front();
  keys.from = "estimate";
  add(first.tmpl->plan(problem, first.config, from.device), keys);
  return keys;
}

static std::string fileOfRecord(const KeysOfPart &part) {
  return cache::fileNameOf(cache::Kind::Record, part.record);
}

void KeysReport::print(llvm::raw_ostream &os) const {
  for (const KeysOfPart &part : parts) {
    llvm::SmallVector<llvm::StringRef, 4> lines;
    llvm::StringRef(part.record).split(lines, '\n', -1, /*KeepEmpty=*/false);
    // The first line names the format.
    os << "record " << fileOfRecord(part);
    for (llvm::StringRef line : llvm::ArrayRef(lines).drop_front())
      os << (line == lines[1] ? " " : "; ") << line;
    os << '\n';
  }
  llvm::StringSet<> known; // parts share kernels
  for (const KeysOfPart &part : parts)
    for (const ArtifactName &artifact : part.artifacts)
      if (known.insert(artifact.file).second)
        os << "artifact " << artifact.file << ' ' << artifact.kernel << ' '
           << artifact.arch << '\n';
}

llvm::json::Object KeysReport::toJson() const {
  llvm::json::Array list;
  for (const KeysOfPart &part : parts) {
    llvm::json::Array artifacts;
    for (const ArtifactName &artifact : part.artifacts)
      artifacts.push_back(llvm::json::Object{{"file", artifact.file},
                                             {"config", artifact.config},
                                             {"kernel", artifact.kernel},
                                             {"arch", artifact.arch},
                                             {"on_disk", artifact.isOnDisk}});
    llvm::json::Object object{
        {"record", llvm::json::Object{{"file", fileOfRecord(part)},
                                      {"key", jsonText(part.record)}}},
        {"artifacts", std::move(artifacts)}};
    if (!part.range.empty())
      object["range"] = part.range;
    if (!part.from.empty())
      object["from"] = part.from;
    list.push_back(std::move(object));
  }
  return llvm::json::Object{{"problem", jsonText(problem)},
                            {"device", jsonText(device)},
                            {"class", jsonText(deviceClass)},
                            {"parts", std::move(list)}};
}

llvm::Expected<std::string>
problemKey(Engine &engine, const kiln_problem *problem, CudaStream stream) {
  auto spec = engine.readProblem(problem);
  if (!spec)
    return spec.takeError();
  if (!spec->ranges.empty())
    return makeError(
        ErrorCode::InvalidArgument,
        "{}: a problem with ranges may have several records, whose "
        "keys kiln_problem_keys tells",
        spec->text);
  auto inspection = Inspection::open(engine, stream);
  if (!inspection)
    return inspection.takeError();
  return recordKey(*spec->family, spec->problem, (*inspection)->deviceClass());
}

llvm::Expected<std::string> problemKeys(Engine &engine,
                                        const kiln_problem *problem,
                                        CudaStream stream, bool asJson) {
  auto spec = engine.readProblem(problem);
  if (!spec)
    return spec.takeError();
  const observe::CallScope watched("kiln_problem_keys", &engine.waits(),
                                   spec->text);
  auto inspection = Inspection::open(engine, stream);
  if (!inspection)
    return inspection.takeError();
  KeyCollector collector(**inspection, *spec->family);
  KeysReport report;
  report.problem = spec->text;
  report.device = (*inspection)->device().name;
  report.deviceClass = (*inspection)->deviceClass();
  if (spec->ranges.empty()) {
    auto keys = collector.ofValue(spec->problem);
    if (!keys)
      return keys.takeError();
    report.parts.push_back(std::move(*keys));
  } else {
    auto parts = partsOf(*spec);
    if (!parts)
      return parts.takeError();
    for (const RangePart &part : *parts)
      report.parts.push_back(collector.ofRange(part));
  }
  engine.deliverMessages();
  return reportText(report, asJson);
}

} // namespace kiln
