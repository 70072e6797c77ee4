//===- ProfileReport.cpp --------------------------------------------------===//
#include "kiln/ProfileReport.h"

#include "Kernel/KernelName.h"
#include "Support/Format.h"
#include "Support/Json.h"
#include "Support/Printable.h"
#include "cli/Console.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Demangle/Demangle.h>

#include <map>
#include <set>

namespace kiln::cli {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// A demangled name without its parameters: "void f<int>(int*)" is "f<int>".
static std::string withoutParameters(llvm::StringRef name) {
  name.consume_front("void ");
  // A lambda's parentheses are inside of angle brackets or a name's part.
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    depth += (name[i] == ')') - (name[i] == '(');
    if (name[i] == '(' && depth == 0)
      return i == 0 ? name.str() : name.take_front(i).str();
  }
  return name.str();
}

std::string shownKernel(const Registry &registry, llvm::StringRef name) {
  if (name.starts_with(kKernelPrefix)) {
    auto parsed = parseKernelName(registry, name);
    if (parsed)
      return parsed->text();
    llvm::consumeError(parsed.takeError());
  }
  if (!name.starts_with("_Z"))
    return name.str();
  return withoutParameters(llvm::demangle(name.str()));
}

std::string cutMiddle(llvm::StringRef text, size_t columns) {
  constexpr llvm::StringLiteral kDots = "...";
  if (columns == 0 || text.size() <= columns)
    return text.str();
  if (columns <= kDots.size())
    return text.take_front(columns).str();
  // The begin says more: the family and the template.
  const size_t kept = columns - kDots.size();
  size_t head = kept - kept / 3, tail = text.size() - kept / 3;
  // No character of UTF-8 is cut.
  auto isInside = [&](size_t at) {
    return at < text.size() && (text[at] & 0xc0) == 0x80;
  };
  while (head > 0 && isInside(head))
    --head;
  while (isInside(tail))
    ++tail;
  return (text.take_front(head) + kDots + text.drop_front(tail)).str();
}

/// The row of work outside of all ranges.
static constexpr llvm::StringLiteral kNoRange = "(none)";

/// The name of the innermost range of \p category.
static std::string innermost(const ProfiledWork &work,
                             llvm::StringRef category) {
  for (const ProfiledRange &range : llvm::reverse(work.ranges))
    if (range.category == category)
      return range.name;
  return kNoRange.str();
}

static std::string pathOf(const ProfiledWork &work) {
  std::string path;
  for (const ProfiledRange &range : work.ranges)
    path += (path.empty() ? "" : " / ") + range.name;
  return path.empty() ? kNoRange.str() : path;
}

/// Devices of one name are told apart by number.
static std::string deviceName(const ProfileData &data, size_t device) {
  const std::string &name = data.devices[device].name;
  return fmt::format("{}: {}", device, name.empty() ? "device" : name);
}

std::string ProfileReport::rowNameOf(const ProfiledWork &work) const {
  switch (options.by) {
  case ProfileBy::Kernel:
    return work.kind == "memcpy" ? "memcpy " + work.name : work.name;
  case ProfileBy::Range:
    return pathOf(work);
  case ProfileBy::Layer:
    return innermost(work, "layer");
  case ProfileBy::Step:
    return innermost(work, "step");
  case ProfileBy::Device:
    return deviceName(data, work.device);
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Kernels of several signatures may have one config: their tags tell them
/// apart.
static void tellApart(std::vector<ProfileRow> &rows) {
  std::map<std::string, size_t> counts;
  for (const ProfileRow &row : rows)
    ++counts[row.shown];
  for (ProfileRow &row : rows) {
    llvm::StringRef name = row.longest->name;
    if (counts[row.shown] > 1 && row.longest->isKernel() &&
        name.starts_with(kKernelPrefix))
      row.shown = fmt::format("{} {}", row.shown, name.rsplit('_').second);
  }
}

ProfileReport::ProfileReport(const ProfileData &data, const Registry &registry,
                             const Options &options)
    : data(data), registry(registry), options(options) {
  std::map<std::pair<std::string, std::string>, ProfileRow> byName;
  for (const ProfiledWork &work : data.work) {
    const bool byKernel = options.by == ProfileBy::Kernel;
    ProfileRow &row =
        byName[{byKernel ? work.kind : std::string(), rowNameOf(work)}];
    if (!row.longest || work.times.totalNs > row.longest->times.totalNs)
      row.longest = &work;
    row.times.add(work.times);
    all.add(work.times);
  }
  for (auto &[key, row] : byName) {
    row.shown = options.by == ProfileBy::Kernel && row.longest->isKernel()
                    ? shownKernel(registry, key.second)
                    : key.second;
    rows.push_back(std::move(row));
  }
  if (options.by == ProfileBy::Kernel)
    tellApart(rows);
  llvm::stable_sort(rows, [](const ProfileRow &a, const ProfileRow &b) {
    return a.times.totalNs > b.times.totalNs;
  });
}

double ProfileReport::shareOf(const ProfiledTimes &times) const {
  return all.totalNs > 0 ? times.totalNs / all.totalNs : 0;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void ProfileReport::printHead(llvm::raw_ostream &os) const {
  for (size_t i = 0; i < data.devices.size(); ++i) {
    const ProfiledDevice &device = data.devices[i];
    if (device.spanNs() > 0)
      os << fmt::format(
          "device {}: busy for {:.3f} ms of {:.3f} ms ({:.1f} %)\n",
          deviceName(data, i), device.busyNs * 1e-6, device.spanNs() * 1e-6,
          100 * device.busyNs / device.spanNs());
  }
  if (data.processes > 1)
    os << fmt::format("processes: {}\n", data.processes);
  if (data.cutProcesses)
    os << fmt::format("note: {} of {} processes did not end by exit(); their "
                      "last records are missing\n",
                      data.cutProcesses, data.processes);
  if (data.dropped)
    os << fmt::format("note: CUPTI lost {} records\n", data.dropped);
  if (data.tooManyRanges)
    os << "note: there are too many different ranges; later ones count for the "
          "ranges around them\n";
  const bool needsCategory =
      options.by == ProfileBy::Layer || options.by == ProfileBy::Step;
  if (needsCategory && rows.size() == 1 && rows.front().shown == kNoRange)
    os << fmt::format(
        "note: no range has the category {}; --by range shows all "
        "ranges\n",
        kProfileByNames[static_cast<size_t>(options.by)]);
  // Without any row the command ends with the error.
  if (!rows.empty())
    for (const std::string &error :
         std::set<std::string>(data.errors.begin(), data.errors.end()))
      os << "note: " << onOneLine(error) << '\n';
}

/// The figures of a row: calls, ms, mean, least and greatest us, share.
static std::vector<std::string> cellsOf(const ProfiledTimes &times,
                                        double share) {
  return {fmt::format("{}", times.calls),
          fmt::format("{:.3f}", times.totalNs * 1e-6),
          formatUs(times.meanNs()),
          formatUs(times.minNs),
          formatUs(times.maxNs),
          fmt::format("{:.1f}", 100 * share)};
}

void ProfileReport::printTable(llvm::raw_ostream &os) const {
  const llvm::StringRef headers[] = {"calls",  "ms",     "mean us",
                                     "min us", "max us", "share %"};
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  ProfiledTimes others;
  for (size_t i = 0; i < rows.size(); ++i) {
    // A single row is no longer than the line that would stand for it.
    if (i < options.top || rows.size() == options.top + 1)
      lines.emplace_back(rows[i].shown,
                         cellsOf(rows[i].times, shareOf(rows[i].times)));
    else
      others.add(rows[i].times);
  }
  if (others.calls)
    lines.emplace_back(fmt::format("others ({})", rows.size() - options.top),
                       cellsOf(others, shareOf(others)));
  lines.emplace_back("total", cellsOf(all, all.totalNs > 0 ? 1 : 0));
  size_t figures = 0;
  for (size_t column = 0; column < std::size(headers); ++column) {
    size_t widest = headers[column].size();
    for (const auto &[name, cells] : lines)
      widest = std::max(widest, cells[column].size());
    figures += 2 + widest;
  }
  constexpr size_t kLeastName = 16;
  const size_t room =
      options.width == 0
          ? 0
          : std::max(options.width, figures + kLeastName) - figures;
  std::vector<llvm::StringRef> columns = {
      kProfileByNames[static_cast<size_t>(options.by)]};
  columns.insert(columns.end(), {">calls", ">ms", ">mean us", ">min us",
                                 ">max us", ">share %"});
  Table table(columns);
  for (auto &[name, cells] : lines) {
    cells.insert(cells.begin(), cutMiddle(printable(name), room));
    table.addRow(std::move(cells));
  }
  table.print(os);
}

void ProfileReport::print(llvm::raw_ostream &os) const {
  printHead(os);
  if (rows.empty()) {
    os << "nothing ran on a device\n";
    return;
  }
  os << '\n';
  printTable(os);
}

//===----------------------------------------------------------------------===//
// JSON and CSV
//===----------------------------------------------------------------------===//

static void addResources(const ProfiledResources &resources,
                         llvm::json::Object &object) {
  object["registers"] = resources.registers;
  object["staticSharedBytes"] = resources.staticShared;
  object["dynamicSharedBytes"] = resources.dynamicShared;
  object["localBytes"] = resources.localBytes;
  object["grid"] = llvm::json::Array(resources.grid);
  object["block"] = llvm::json::Array(resources.block);
}

/// The parts of a name of Kiln's.
static void addParts(const Registry &registry, llvm::StringRef name,
                     llvm::json::Object &object) {
  if (!name.starts_with(kKernelPrefix))
    return;
  auto parsed = parseKernelName(registry, name);
  if (!parsed)
    return llvm::consumeError(parsed.takeError());
  object["family"] = parsed->family->name();
  object["signature"] = parsed->tag;
  if (parsed->tmpl) {
    object["template"] = parsed->tmpl->name();
    object["config"] = parsed->config.text();
  } else {
    object["role"] = parsed->role;
  }
}

llvm::json::Object ProfileReport::rowToJson(const ProfileRow &row) const {
  llvm::json::Object object{
      {kProfileByNames[static_cast<size_t>(options.by)], jsonText(row.shown)},
      {"calls", int64_t(row.times.calls)},
      {"totalUs", rounded(row.times.totalNs * 1e-3)},
      {"meanUs", rounded(row.times.meanNs() * 1e-3)},
      {"minUs", rounded(row.times.minNs * 1e-3)},
      {"maxUs", rounded(row.times.maxNs * 1e-3)},
      {"share", rounded(shareOf(row.times))}};
  if (options.by != ProfileBy::Kernel)
    return object;
  object["kind"] = row.longest->kind;
  if (!row.longest->isKernel())
    return object;
  object["name"] = jsonText(row.longest->name);
  addParts(registry, row.longest->name, object);
  addResources(row.longest->resources, object);
  return object;
}

llvm::json::Object ProfileReport::toJson() const {
  llvm::json::Array devices, list;
  for (const ProfiledDevice &device : data.devices) {
    llvm::json::Object object{{"name", jsonText(device.name)},
                              {"uuid", jsonText(device.uuid)}};
    if (device.spanNs() > 0) {
      object["spanUs"] = rounded(device.spanNs() * 1e-3);
      object["busyUs"] = rounded(device.busyNs * 1e-3);
      object["busyShare"] = rounded(device.busyNs / device.spanNs());
    }
    devices.push_back(std::move(object));
  }
  for (const ProfileRow &row : rows)
    list.push_back(rowToJson(row));
  return llvm::json::Object{
      {"processes", int64_t(data.processes)},
      {"cutProcesses", int64_t(data.cutProcesses)},
      {"droppedRecords", int64_t(data.dropped)},
      {"tooManyRanges", data.tooManyRanges},
      {"errors", textsToJson(data.errors)},
      {"devices", std::move(devices)},
      {"by", kProfileByNames[static_cast<size_t>(options.by)]},
      {"totalUs", rounded(all.totalNs * 1e-3)},
      {"rows", std::move(list)}};
}

std::string ProfileReport::toCsv() const {
  const llvm::StringRef by = kProfileByNames[static_cast<size_t>(options.by)];
  std::string csv = fmt::format(
      "{},kind,name,calls,total_us,mean_us,min_us,max_us,share\n", by);
  for (const ProfileRow &row : rows) {
    const bool byKernel = options.by == ProfileBy::Kernel;
    csv += fmt::format(
        "{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.6f}\n", csvCell(row.shown),
        csvCell(byKernel ? row.longest->kind : ""),
        csvCell(byKernel ? row.longest->name : ""), row.times.calls,
        row.times.totalNs * 1e-3, row.times.meanNs() * 1e-3,
        row.times.minNs * 1e-3, row.times.maxNs * 1e-3, shareOf(row.times));
  }
  return csv;
}

} // namespace kiln::cli
