//===- Cache.cpp - kiln cache: list, verify and prune entries -------------===//
#include "Cache/Prune.h"
#include "Cache/Store.h"
#include "Support/Json.h"
#include "Support/Printable.h"
#include "cli/CommonOptions.h"
#include "cli/Console.h"
#include "cli/Report.h"
#include "kiln/CacheVerdicts.h"
#include "kiln/Commands.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

#include <algorithm>

namespace kiln::cli {

using cache::EntryInfo;
using cache::PrunedFile;
using cache::PruneResult;
using cache::VerifyItem;

namespace {

class ListReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::string root;
  std::vector<EntryInfo> entries;
  uint64_t limitBytes = 0; ///< see Store::limitBytes()
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();

private:
  std::string limitText() const;
  double ageSeconds(const EntryInfo &entry) const {
    return std::max(
        0.0, std::chrono::duration<double>(now - entry.modified).count());
  }
};

class VerifyReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  size_t count(VerifyItem::State state) const {
    return static_cast<size_t>(
        std::count_if(items.begin(), items.end(), [&](const VerifyItem &item) {
          return item.state == state;
        }));
  }

  std::string root;
  std::vector<VerifyItem> items;
};

class PruneReport final : public Report {
public:
  void print(llvm::raw_ostream &os) const override;
  llvm::json::Object toJson() const override;

  std::string root;
  bool isDryRun = false;
  PruneResult result;

private:
  uint64_t removedBytes() const {
    uint64_t bytes = 0;
    for (const PrunedFile &file : result.removed)
      bytes += file.bytes;
    return bytes;
  }
};

} // namespace

/// Name and version of the compiler, "nvrtc 13.0.88". Its build id is in the
/// report for machines.
static llvm::StringRef toolchainOf(const EntryInfo &entry) {
  return entry.attributes.getString("toolchain")
      .value_or("?")
      .rsplit(' ')
      .first;
}

/// The part of a key that tells a person what the entry is.
static std::string summaryOf(const EntryInfo &entry) {
  if (entry.kind == cache::Kind::Artifact) {
    // The key holds the whole text; this is the config that the text
    // instantiates.
    llvm::StringRef config =
        llvm::StringRef(entry.key).split("kConfig{").second.split('}').first;
    return fmt::format(
        "{} {} registers {} by {}",
        entry.attributes.getString("arch").value_or("?"),
        entry.attributes.getInteger("registersPerThread").value_or(0), config,
        toolchainOf(entry));
  }
  llvm::SmallVector<llvm::StringRef, 8> lines;
  llvm::StringRef(entry.key).split(lines, '\n', -1, /*KeepEmpty=*/false);
  // The first line names the format.
  return llvm::join(llvm::ArrayRef(lines).drop_front(lines.size() > 1), "; ");
}

void ListReport::print(llvm::raw_ostream &os) const {
  Table table({"kind", "tier", ">bytes", ">age", "file", "what"});
  uint64_t bytes = 0;
  for (const EntryInfo &entry : entries) {
    bytes += entry.fileBytes;
    llvm::StringRef file = llvm::StringRef(entry.path).rsplit('/').second;
    table.addRow({nameOf(entry.kind).str(), nameOf(entry.tier).str(),
                  fmt::format("{}", entry.fileBytes),
                  formatAge(ageSeconds(entry)), file.take_front(12).str(),
                  summaryOf(entry)});
  }
  os << printable(root) << '\n';
  if (!table.empty())
    table.print(os);
  os << fmt::format("{} entries, {} bytes; {}\n", entries.size(), bytes,
                    limitText());
}

std::string ListReport::limitText() const {
  if (limitBytes == 0)
    return "no limit is set";
  if (limitBytes == cache::kNoLimit)
    return "without limit";
  return fmt::format("kept under {} bytes", limitBytes);
}

llvm::json::Object ListReport::toJson() const {
  llvm::json::Array list;
  for (const EntryInfo &entry : entries)
    list.push_back(llvm::json::Object{
        {"kind", nameOf(entry.kind)},
        {"layer", nameOf(entry.tier)},
        {"path", jsonText(entry.path)},
        {"what", jsonText(summaryOf(entry))},
        {"attributes", llvm::json::Object(entry.attributes)},
        {"payload_bytes", static_cast<int64_t>(entry.payloadBytes)},
        {"file_bytes", static_cast<int64_t>(entry.fileBytes)},
        {"age_s", rounded(ageSeconds(entry), 4)}});
  llvm::json::Value limit = nullptr;
  if (limitBytes != 0 && limitBytes != cache::kNoLimit)
    limit = limitBytes;
  return llvm::json::Object{{"root", jsonText(root)},
                            {"limit", limitText()},
                            {"limit_bytes", std::move(limit)},
                            {"entries", std::move(list)}};
}

void VerifyReport::print(llvm::raw_ostream &os) const {
  os << printable(root) << '\n';
  Table table({"state", "kind", "reason", "file"});
  for (const VerifyItem &item : items)
    if (item.state != VerifyItem::State::Ok)
      table.addRow({nameOf(item.state).str(), nameOf(item.kind).str(),
                    item.reason, item.path});
  if (!table.empty())
    table.print(os);
  os << fmt::format(
      "{} sound, {} damaged, {} temporary, {} foreign\n",
      count(VerifyItem::State::Ok), count(VerifyItem::State::Damaged),
      count(VerifyItem::State::Temporary), count(VerifyItem::State::Foreign));
}

llvm::json::Object VerifyReport::toJson() const {
  llvm::json::Array list;
  for (const VerifyItem &item : items)
    list.push_back(llvm::json::Object{{"state", nameOf(item.state)},
                                      {"kind", nameOf(item.kind)},
                                      {"layer", nameOf(item.tier)},
                                      {"path", jsonText(item.path)},
                                      {"reason", jsonText(item.reason)}});
  auto number = [&](VerifyItem::State state) {
    return static_cast<int64_t>(count(state));
  };
  return llvm::json::Object{{"root", jsonText(root)},
                            {"sound", number(VerifyItem::State::Ok)},
                            {"damaged", number(VerifyItem::State::Damaged)},
                            {"temporary", number(VerifyItem::State::Temporary)},
                            {"foreign", number(VerifyItem::State::Foreign)},
                            {"files", std::move(list)}};
}

void PruneReport::print(llvm::raw_ostream &os) const {
  os << printable(root) << '\n';
  Table table({"why", "kind", ">bytes", ">age", "file"});
  for (const PrunedFile &file : result.removed)
    if (isDryRun)
      table.addRow({nameOf(file.why).str(), nameOf(file.kind).str(),
                    fmt::format("{}", file.bytes), formatAge(file.ageSeconds),
                    file.path});
  if (!table.empty())
    table.print(os);
  if (result.failed)
    os << fmt::format("{} files or folders are left: {}\n", result.failed,
                      onOneLine(result.failure));
  if (!result.oddClock.empty())
    os << fmt::format("{}; --trust-clock does it\n",
                      onOneLine(result.oddClock));
  os << fmt::format("{} {} files, {} bytes; {} entries, {} bytes are left\n",
                    isDryRun ? "would remove" : "removed",
                    result.removed.size(), removedBytes(), result.keptEntries,
                    result.keptBytes);
}

llvm::json::Object PruneReport::toJson() const {
  llvm::json::Array list;
  for (const PrunedFile &file : result.removed)
    list.push_back(llvm::json::Object{{"why", nameOf(file.why)},
                                      {"kind", nameOf(file.kind)},
                                      {"path", jsonText(file.path)},
                                      {"bytes", file.bytes},
                                      {"age_s", rounded(file.ageSeconds, 4)}});
  return llvm::json::Object{{"root", jsonText(root)},
                            {"dry_run", isDryRun},
                            {"removed", std::move(list)},
                            {"removed_bytes", removedBytes()},
                            {"kept_entries", result.keptEntries},
                            {"kept_bytes", result.keptBytes},
                            {"failed", static_cast<int64_t>(result.failed)},
                            {"failure", jsonText(result.failure)},
                            {"odd_clock", jsonText(result.oddClock)}};
}

/// The kind that --kind names; none: all.
static llvm::Expected<std::optional<cache::Kind>>
chooseKind(const ParsedOptions &options) {
  std::optional<std::string> name = options.value("--kind");
  if (!name)
    return std::nullopt;
  for (cache::Kind kind : cache::kAllKinds)
    if (*name == nameOf(kind))
      return kind;
  return makeError(
      ErrorCode::InvalidArgument, "--kind={} is not one of {}", *name,
      fmt::join(llvm::map_range(cache::kAllKinds,
                                [](auto kind) { return nameOf(kind).str(); }),
                ", "));
}

using OnlyKind = std::optional<cache::Kind>;

static llvm::Expected<int> list(const ParsedOptions &options, OnlyKind only,
                                cache::Store &store, std::string root) {
  ListReport report;
  report.limitBytes = store.limitBytes();
  report.root = std::move(root);
  for (cache::Kind kind : cache::kAllKinds)
    if (!only || *only == kind)
      for (EntryInfo &entry : store.list(kind))
        report.entries.push_back(std::move(entry));
  return emit(report, options.wantsJson());
}

static llvm::Expected<int> verify(const ParsedOptions &options, OnlyKind,
                                  cache::Store &store, std::string root) {
  VerifyReport report;
  report.root = std::move(root);
  report.items = store.verify();
  bool damaged = report.count(VerifyItem::State::Damaged) > 0;
  return emit(report, options.wantsJson(),
              damaged ? kExitSomeFailed : kExitDone);
}

static llvm::Expected<int> prune(const ParsedOptions &options, OnlyKind only,
                                 cache::Store &store, std::string root) {
  cache::PruneRules rules;
  rules.only = only;
  if (options.has("--max-age")) {
    auto age =
        options.duration("--max-age", {}, std::chrono::hours(24 * 36500));
    if (!age)
      return age.takeError();
    rules.maxAge = std::chrono::ceil<std::chrono::seconds>(*age);
  }
  auto size = options.bytes("--max-size");
  if (!size)
    return size.takeError();
  rules.maxBytes = *size;
  rules.isDryRun = options.has("--dry-run");
  rules.trustsClock = options.has("--trust-clock");
  PruneReport report;
  report.root = std::move(root);
  report.isDryRun = rules.isDryRun;
  report.result = store.prune(rules);
  const bool isRefused = rules.maxAge && !report.result.oddClock.empty();
  return emit(report, options.wantsJson(),
              report.result.failed || isRefused ? kExitSomeFailed : kExitDone);
}

static llvm::Expected<int> verdicts(const ParsedOptions &options, OnlyKind,
                                    cache::Store &store, std::string root) {
  return runVerdicts(options, store, std::move(root));
}

namespace {
struct Action {
  llvm::StringRef name;
  llvm::Expected<int> (*run)(const ParsedOptions &, OnlyKind, cache::Store &,
                             std::string root);
  /// The options of its own.
  llvm::ArrayRef<llvm::StringLiteral> options;
};
} // namespace

static llvm::Expected<int> runCache(const ParsedOptions &options) {
  static constexpr llvm::StringLiteral kOfList[] = {"--kind"};
  static constexpr llvm::StringLiteral kOfPrune[] = {
      "--kind", "--max-age", "--max-size", "--trust-clock", "--dry-run"};
  static constexpr llvm::StringLiteral kOfVerdicts[] = {"--clear", "--kernel"};
  const Action kActions[] = {{"ls", list, kOfList},
                             {"verify", verify, {}},
                             {"prune", prune, kOfPrune},
                             {"verdicts", verdicts, kOfVerdicts}};
  if (options.operands().size() != 1)
    return makeError(ErrorCode::InvalidArgument,
                     "cache: give one of ls, verify, prune, verdicts");
  const std::string &action = options.operands().front();
  const Action *chosen = llvm::find_if(
      kActions, [&](const Action &one) { return one.name == action; });
  if (chosen == std::end(kActions))
    return makeError(ErrorCode::InvalidArgument,
                     "cache: unknown action '{}', known are ls, verify, "
                     "prune, verdicts",
                     action);
  // Errors of typing are reported before missing folders.
  for (const Action &other : kActions)
    for (llvm::StringLiteral option : other.options)
      if (options.has(option) && !llvm::is_contained(chosen->options, option))
        return makeError(ErrorCode::InvalidArgument,
                         "cache {} has no option {}", action, option);
  auto only = chooseKind(options);
  if (!only)
    return only.takeError();
  Environment environment = Environment::fromProcess();
  std::vector<std::string> notes;
  auto cacheOptions = chooseCache(options, environment, notes);
  if (!cacheOptions)
    return cacheOptions.takeError();
  for (const std::string &note : notes)
    printWarning(note);
  std::string root = cacheOptions->writeDir.value_or("");
  // A command that looks makes nothing, and a cache that cannot be read is not
  // sound.
  cacheOptions->createsWriteDir = false;
  std::unique_ptr<cache::Store> store =
      cache::Store::open(std::move(*cacheOptions));
  if (!store->isPersistent())
    return makeError(ErrorCode::Io, "cache {}: {}", action,
                     store->whyNotPersistent());
  return chosen->run(options, *only, *store, std::move(root));
}

static constexpr OptionSpec kCacheCommandOptions[] = {
    kCacheDirOption,
    kCacheReadDirOption,
    {"--kind", "KIND",
     "ls, prune: artifact, record, probe, portfolio or pool alone"},
    {"--max-age", "TIME",
     "prune: remove entries that were not loaded for longer, such as 30d"},
    {"--max-size", "SIZE",
     "prune: remove the least recently used until the rest is no larger, such "
     "as 4G; kernels first, records of trials last"},
    {"--trust-clock", nullptr,
     "prune: remove old entries although, by the clock, no entry was used for "
     "two days"},
    {"--dry-run", nullptr, "prune: tell which files would go, and remove none"},
    {"--clear", nullptr,
     "verdicts: take them back, so that these kernels are tried again"},
    {"--kernel", "DIGEST", "verdicts --clear: only the one that begins so"},
};

const CommandSpec kCacheCommand = {
    "cache",
    "ls|verify|prune|verdicts",
    "list the cache's entries, check every file of it, make it smaller, or "
    "list "
    "kernels that were found wrong",
    "verify reads all files, changes nothing, and ends with 1 if any is "
    "damaged. A folder that is missing or not trusted ends the command with "
    "2. Damaged entries are harmless: they count as misses and are made "
    "again.\nprune removes the entries that --max-age and --max-size select, "
    "and always the temporary files that writers left behind. It is safe "
    "beside processes that use the cache. The time of an entry's last use is "
    "known to the day: in doubt the entry stays.\nAn engine keeps the folder "
    "under a limit, which belongs to the folder: the largest that engines and "
    "commands asked for counts. ls shows it, and prune --max-size lowers it "
    "until a larger one is asked for.\nverdicts lists the kernels that trials "
    "compared with the reference and found wrong. No engine launches them "
    "until they are cleared, or measured again and right. Running engines "
    "keep their own verdicts.",
    kCacheCommandOptions,
    runCache,
};

} // namespace kiln::cli
