//===- micro/Micro.cu - runs all measurements and prints them -------------===//
#include "Micro.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace micro {

static const char *const kProtocol =
    "Clocks are an SM's own (clock64), from the first warp's begin to the last "
    "one's end, of one block on one SM; the difference of a long and a short "
    "run, so that neither the start nor the end counts; median of 5; bandwidth "
    "and power are of all SMs, by events";

void check(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::fprintf(stderr, "micro: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half]
                           : (values[half - 1] + values[half]) / 2;
}

double clocksOf(const std::vector<Span> &spans) {
  long long begin = 0, end = 0;
  for (const Span &span : spans) {
    if (span.end == 0)
      continue;
    begin = begin == 0 ? span.begin : std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  return double(end - begin);
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

static cudaDeviceProp properties() {
  cudaDeviceProp found;
  check(cudaGetDeviceProperties(&found, 0), "cudaGetDeviceProperties");
  return found;
}

int smCount() {
  static const int count = properties().multiProcessorCount;
  return count;
}

int clockMHz() {
  int kiloHertz = 0;
  check(cudaDeviceGetAttribute(&kiloHertz, cudaDevAttrClockRate, 0),
        "cudaDeviceGetAttribute");
  return kiloHertz / 1000;
}

namespace {

/// The parts of NVML that are used, since the toolkit has no header for it.
/// Device 0 is the first of the machine, which is CUDA's if only one is
/// visible.
class Nvml {
public:
  static const Nvml &get() {
    static const Nvml nvml;
    return nvml;
  }
  std::string driver() const {
    char text[96] = "unknown";
    if (device)
      getDriver(text, sizeof(text));
    return text;
  }

private:
  Nvml() {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library)
      return;
    auto init = find<int (*)()>(library, "nvmlInit_v2");
    auto byIndex = find<int (*)(unsigned, void **)>(
        library, "nvmlDeviceGetHandleByIndex_v2");
    getDriver =
        find<int (*)(char *, unsigned)>(library, "nvmlSystemGetDriverVersion");
    if (init && byIndex && getDriver && init() == 0 && byIndex(0, &device) != 0)
      device = nullptr;
  }
  template <class Function>
  static Function find(void *library, const char *name) {
    return reinterpret_cast<Function>(dlsym(library, name));
  }

  void *device = nullptr;
  int (*getDriver)(char *, unsigned) = nullptr;
};

} // namespace

std::string driverVersion() { return Nvml::get().driver(); }

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

static std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

void Report::add(const std::string &name, const Fields &fields) {
  cases.emplace_back(name, fields);
  std::fprintf(stderr, "%-28s", name.c_str());
  for (const auto &[key, value] : fields)
    std::fprintf(stderr, " %s %s", key.c_str(), number(value).c_str());
  std::fprintf(stderr, "\n");
}

std::string Report::toJSON(const std::string &commit) const {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::string text = "{\n \"cases\": [";
  const char *separator = "\n";
  for (const auto &[name, fields] : cases) {
    text += separator + ("  {\"name\": \"" + name + "\"");
    for (const auto &[key, value] : fields)
      text += ", \"" + key + "\": " + number(value);
    text += "}";
    separator = ",\n";
  }
  auto line = [&](const char *key, const std::string &value) {
    text += std::string(",\n \"") + key + "\": \"" + value + "\"";
  };
  text += "\n ]";
  line("commit", commit);
  line("cuda", std::to_string(runtime / 1000) + "." +
                   std::to_string(runtime % 1000 / 10));
  line("driver", driverVersion());
  line("gpu", properties().name);
  line("protocol", kProtocol);
  line("what", "micro");
  return text + ",\n \"sms\": " + number(smCount()) +
         ",\n \"clock_mhz\": " + number(clockMHz()) + "\n}\n";
}

} // namespace micro

int main(int count, char **arguments) {
  if (count != 3 || std::strcmp(arguments[1], "--commit") != 0) {
    std::fprintf(stderr, "usage: micro --commit COMMIT >result.json\n");
    return 2;
  }
  micro::Report report;
  micro::measureSums(report);
  micro::measurePromotion(report);
  micro::measureLanes(report);
  micro::measureDecode(report);
  micro::measureCopies(report);
  micro::measureTensorMaps(report);
  std::fputs(report.toJSON(arguments[2]).c_str(), stdout);
  return 0;
}
