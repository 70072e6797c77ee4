//===- FakeTrials.h - the kernels of a trial, on the host -----------------===//
//
// Plays the trial tools, the fake family's reference and its kernels under the
// stand-in driver, whose device memory is host memory: y = x. The config in a
// kernel's text selects its fault and its time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Fakes/FakeCuda.h"
#include "Store/FakeFamily.h"
#include "Trial/FakeTools.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace kiln::fake {

/// The fault of a kernel of the fake family.
enum class Misdeed {
  None,
  WrongValue,
  WrongSecond,   ///< in the second output
  LeavesSecond,  ///< leaves the second output unchanged
  PadsSecond,    ///< writes behind a row of the second output
  FillsSecond,   ///< writes what is not defined of the second output
  BeforeOutput,  ///< writes one byte in front of it
  BehindOutput,  ///< writes one byte behind it
  BehindScratch, ///< writes one byte behind its workspace
  WritesNothing,
  LeavesLast,     ///< all but the last element
  Nondeterminism, ///< within the tolerance, but never twice the same
  KillsContext,
};

/// The stand-in for everything that a trial runs on the device. One at a time;
/// reset the stand-in driver before it goes.
class FakeTrials {
public:
  FakeTrials() {
    kilnFakeOnLaunch("// reference", playReference, this, sizeof(FakeParams));
    for (const char *name : {"// fast.", "// pair.", "// plain."})
      kilnFakeOnLaunch(name, playKernel, this, sizeof(FakeParams));
    // There is one module, so the function's name selects the kernel.
    kilnFakeOnLaunch("trial/TrialTools.cuh", playTool, this,
                     sizeof(CompareToleranceParams));
  }

  /// By a part of a kernel's text: "fast.t64".
  std::map<std::string, Misdeed> misdeeds;
  std::map<std::string, double> durations; ///< ns; else 5000
  double clockRatio = 1;                   ///< of every duration
  std::vector<DeviceAddress> inputs;       ///< of each run
  std::vector<std::string> runs;           ///< configs in order of launch
  int references = 0;                      ///< launches
  std::function<void()> onReference;       ///< called at each of them
  int flushes = 0;
  std::vector<FillNormalParams> fills; ///< of every operand that was filled
  std::vector<FillIntegersParams> integerFills;
  /// The size that Misdeed::BehindScratch assumes for its workspace.
  uint64_t scratchBytes = 0;

  int runsOf(const std::string &config) const {
    return static_cast<int>(std::count(runs.begin(), runs.end(), config));
  }

private:
  template <class Params> static Params read(const KilnFakeLaunch *launch) {
    return paramsOf<Params>(launch->params);
  }

  static std::string configOf(const KilnFakeLaunch *launch) {
    std::string text = launch->moduleText;
    const size_t begin = text.find("// ") + 3;
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  static void playReference(KilnFakeLaunch *launch, void *user) {
    auto params = read<FakeParams>(launch);
    auto *self = static_cast<FakeTrials *>(user);
    ++self->references;
    if (self->onReference)
      self->onReference();
    auto *x = reinterpret_cast<const float *>(params.x);
    auto *values = reinterpret_cast<double *>(params.values);
    auto *bounds = reinterpret_cast<double *>(params.bounds);
    auto *z = reinterpret_cast<const float *>(params.z);
    bool isSecond = params.operand == kOperandZ;
    double factor = isSecond ? kFactorZ : 1;
    for (int64_t i = params.rowBegin * params.n; i < params.rowEnd * params.n;
         ++i) {
      *values = factor * x[i];
      if (isSecond && params.zIsRead)
        *values += z[params.zOffset(i / params.n, i % params.n)];
      ++values;
      bool isDefined = !isSecond || i / params.n < params.zDefined;
      *bounds++ = isDefined ? factor * std::fabs(x[i]) : -1;
    }
  }

  static void playKernel(KilnFakeLaunch *launch, void *user) {
    auto *self = static_cast<FakeTrials *>(user);
    std::string config = configOf(launch);
    self->runs.push_back(config);
    auto duration = self->durations.find(config);
    launch->durationNs =
        (duration == self->durations.end() ? 5000 : duration->second) *
        self->clockRatio;
    self->inputs.push_back(read<FakeParams>(launch).x);
    auto misdeed = self->misdeeds.find(config);
    self->copy(read<FakeParams>(launch),
               misdeed == self->misdeeds.end() ? Misdeed::None
                                               : misdeed->second,
               launch);
  }

  void copy(const FakeParams &params, Misdeed misdeed, KilnFakeLaunch *launch) {
    auto *x = reinterpret_cast<const float *>(params.x);
    auto *y = reinterpret_cast<float *>(params.y);
    int64_t count = params.m * params.n;
    if (misdeed == Misdeed::WritesNothing)
      return;
    std::copy(x, x + count - (misdeed == Misdeed::LeavesLast), y);
    if (misdeed == Misdeed::WrongValue)
      y[count / 2] += 1;
    if (misdeed == Misdeed::BeforeOutput)
      reinterpret_cast<char *>(y)[-1] = 0;
    if (misdeed == Misdeed::BehindOutput)
      reinterpret_cast<char *>(y + count)[0] = 0;
    if (misdeed == Misdeed::BehindScratch)
      reinterpret_cast<char *>(params.workspace)[scratchBytes] = 0;
    if (misdeed == Misdeed::Nondeterminism)
      y[0] = std::nextafter(y[0], runs.size() % 2 ? 10.0f : -10.0f);
    if (params.z && misdeed != Misdeed::LeavesSecond)
      writeSecond(params, misdeed);
    constexpr int kIllegalAddress = 700;
    if (misdeed == Misdeed::KillsContext)
      launch->result = kIllegalAddress;
  }

  static void writeSecond(const FakeParams &params, Misdeed misdeed) {
    auto *x = reinterpret_cast<const float *>(params.x);
    int64_t rows = misdeed == Misdeed::FillsSecond ? params.m : params.zDefined;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < params.n; ++column) {
        float value = kFactorZ * x[row * params.n + column];
        bool isLast = row + 1 == rows && column + 1 == params.n;
        if (misdeed == Misdeed::WrongSecond && isLast)
          value += 2;
        int64_t at = params.zOffset(row, column);
        if (misdeed == Misdeed::PadsSecond && isLast)
          at = params.n; // behind the first row
        if (params.zIsInt8)
          reinterpret_cast<int8_t *>(params.z)[at] =
              static_cast<int8_t>(std::lrint(value));
        else if (params.zIsRead)
          reinterpret_cast<float *>(params.z)[at] += value;
        else
          reinterpret_cast<float *>(params.z)[at] = value;
      }
  }

  static void playTool(KilnFakeLaunch *launch, void *user) {
    std::string name = launch->function;
    launch->durationNs = 1000;
    if (name == "kilnFillNormal") {
      static_cast<FakeTrials *>(user)->fills.push_back(
          read<FillNormalParams>(launch));
      fillNormal(read<FillNormalParams>(launch));
    } else if (name == "kilnFillIntegers") {
      static_cast<FakeTrials *>(user)->integerFills.push_back(
          read<FillIntegersParams>(launch));
      fillIntegers(read<FillIntegersParams>(launch));
    } else if (name == "kilnFillPattern")
      fillPattern(read<FillPatternParams>(launch));
    else if (name == "kilnCheckRedZone")
      checkRedZone(read<CheckRedZoneParams>(launch));
    else if (name == "kilnCheckGaps")
      checkGaps(read<CheckGapsParams>(launch));
    else if (name == "kilnCountDifferences")
      countDifferences(read<CountDifferencesParams>(launch));
    else if (name == "kilnCompareTolerance")
      compare(read<CompareToleranceParams>(launch));
    else if (name == "kilnFlushL2")
      ++static_cast<FakeTrials *>(user)->flushes;
  }

  static void fillNormal(const FillNormalParams &params) {
    auto *data = static_cast<float *>(params.data);
    for (long long i = 0; i < params.count; ++i)
      data[i] =
          std::sin(static_cast<float>(i + 1) * static_cast<float>(params.seed));
  }

  /// For fp32, int8 and int32; a little more tolerant, so that two values may
  /// both be right.
  static void compare(const CompareToleranceParams &params) {
    constexpr double kSlack = 1e-5;
    const long long cols = params.layout.cols;
    for (long long row = params.rowBegin; row < params.rowEnd; ++row)
      for (long long column = 0; column < cols; ++column) {
        long long at = (row - params.rowBegin) * cols + column;
        double ref = params.reference[at];
        long long element = params.layout.offsetOf(row) + column;
        if (params.bound[at] < 0) {
          judgeUndefined(params, element, row * cols + column);
          continue;
        }
        double d = static_cast<const float *>(params.d)[element];
        if (params.type == DType::INT8)
          d = static_cast<const int8_t *>(params.d)[element];
        else if (params.type == DType::INT32)
          d = static_cast<const int32_t *>(params.d)[element];
        double ratio = std::fabs(d - ref) /
                       ((params.relEps + kSlack) * std::fabs(ref) +
                        params.absScale * params.bound[at] + params.absolute);
        if (std::isnan(ratio))
          ratio = std::numeric_limits<double>::infinity();
        CompareResult &result = *params.result;
        ++result.checked;
        result.maxRatio = std::max(result.maxRatio, ratio);
        if (ratio <= 1)
          continue;
        ++result.mismatches;
        result.firstBad =
            std::min<unsigned long long>(result.firstBad, row * cols + column);
      }
  }

  static void judgeUndefined(const CompareToleranceParams &params,
                             long long element, long long index) {
    CompareResult &result = *params.result;
    ++result.checked;
    const auto *d = static_cast<const float *>(params.d);
    const auto *before = static_cast<const float *>(params.before);
    const void *expected = &params.pattern;
    if (before)
      expected = before + element;
    if (std::memcmp(d + element, expected,
                    static_cast<size_t>(bytesOf(params.type))) == 0)
      return;
    ++result.disturbed;
    result.firstDisturbed =
        std::min<unsigned long long>(result.firstDisturbed, index);
  }
};

} // namespace kiln::fake
