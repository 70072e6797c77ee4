//===- Judge.cpp - from samples of benchmarks to values of a device -------===//
#include "calibrate/Judge.h"

#include "Support/Error.h"
#include "Support/Report.h"
#include "Trial/Statistics.h"

#include <algorithm>
#include <cmath>

namespace kiln::cli {

using Answers = std::vector<std::vector<Sample>>; ///< by run, then by name

/// A series of answers, the first of which does not count.
static llvm::Expected<Answers> ask(const Benchmark &benchmark,
                                   const JudgeOptions &options) {
  Answers answers;
  for (unsigned i = 0; i <= options.samples; ++i) {
    if (options.cancel && *options.cancel)
      return makeError(ErrorCode::Cancelled, "interrupted");
    auto samples = benchmark.run();
    if (!samples)
      return addContext(samples.takeError(), benchmark.name);
    if (i > 0)
      answers.push_back(std::move(*samples));
  }
  return answers;
}

double fieldValue(const DeviceModel &device, const DeviceField &field,
                  double measured) {
  if (!std::isfinite(measured) || measured <= 0)
    return measured;
  if (!std::holds_alternative<double DeviceModel::*>(field.member))
    return std::round(measured);
  // The loop costs a little, and a rule may be a little low.
  constexpr double kLess = 0.95, kMore = 1.02;
  const double known = std::get<double>(field.valueOf(device));
  if (llvm::StringRef(field.unit).ends_with("/clk") &&
      measured <= known * kMore && measured >= known * kLess)
    return known;
  const double unit = std::pow(10, std::floor(std::log10(measured)) - 2);
  return std::round(measured / unit) * unit;
}

static Judged judgeOne(const Benchmark &benchmark, const Answers &answers,
                       size_t index, bool isShared, const DeviceModel &device) {
  const Sample &first = answers.front()[index];
  std::vector<double> values;
  for (const std::vector<Sample> &run : answers)
    values.push_back(run[index].value);
  Judged judged;
  judged.benchmark = benchmark.name;
  judged.name = first.name;
  judged.unit = first.unit;
  judged.median = judged.value = summarizeSamples(values).median;
  auto [least, most] = std::minmax_element(values.begin(), values.end());
  judged.spread = judged.median > 0 ? (*most - *least) / judged.median : 0;
  if (!first.key)
    return judged;
  judged.key = first.key;
  const DeviceField &field = *findDeviceField(judged.key);
  const FieldValue known = field.valueOf(device);
  judged.known = std::holds_alternative<int64_t>(known)
                     ? static_cast<double>(std::get<int64_t>(known))
                     : std::get<double>(known);
  judged.source = nameOf(device.origins[field.index()].source).str();
  judged.value = fieldValue(device, field, judged.median);
  if (isShared)
    judged.refused = "another program uses the GPU";
  else if (judged.spread > benchmark.mostSpread)
    judged.refused =
        fmt::format("its samples differ by {:.0f} %: is the GPU in use?",
                    100 * judged.spread);
  else
    judged.refused =
        implausible(device, {judged.key, judged.value, benchmark.name});
  return judged;
}

/// Whether all values of fields agree well enough with themselves.
static bool isSteady(const Benchmark &benchmark,
                     llvm::ArrayRef<Judged> judged) {
  return llvm::all_of(judged, [&](const Judged &one) {
    return one.key.empty() || one.spread <= benchmark.mostSpread;
  });
}

llvm::Expected<std::vector<Judged>> judge(llvm::ArrayRef<Benchmark> benchmarks,
                                          const DeviceModel &device,
                                          const JudgeOptions &options) {
  std::vector<Judged> all;
  for (const Benchmark &benchmark : benchmarks) {
    if (options.begins)
      options.begins(benchmark);
    std::vector<Judged> judged;
    for (unsigned series = 0; series < options.series; ++series) {
      auto answers = ask(benchmark, options);
      if (!answers)
        return answers.takeError();
      auto isShared =
          options.isShared ? options.isShared() : llvm::Expected<bool>(false);
      if (!isShared)
        return isShared.takeError();
      judged.clear();
      for (size_t i = 0; i < answers->front().size(); ++i)
        judged.push_back(judgeOne(benchmark, *answers, i, *isShared, device));
      if (!*isShared && isSteady(benchmark, judged))
        break;
    }
    all.insert(all.end(), judged.begin(), judged.end());
  }
  return all;
}

std::vector<CalibratedValue> valuesOf(llvm::ArrayRef<Judged> judged) {
  std::vector<CalibratedValue> values;
  for (const Judged &one : judged)
    if (!one.key.empty() && one.refused.empty())
      values.push_back({one.key, one.value, one.benchmark});
  return values;
}

llvm::json::Object Judged::toJson() const {
  llvm::json::Object object{{"benchmark", benchmark},
                            {"name", name},
                            {"unit", unit},
                            {"median", rounded(median)},
                            {"spread", rounded(spread, 3)}};
  if (key.empty())
    return object;
  object["field"] = key;
  object["known"] = rounded(known);
  object["source"] = source;
  if (refused.empty())
    object["value"] = rounded(value);
  else
    object["refused"] = refused;
  return object;
}

} // namespace kiln::cli
