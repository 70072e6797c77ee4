//===- Environment.cpp ----------------------------------------------------===//
#include "profiler/Environment.h"

#include <cstdlib>

namespace kiln::profiler {

static std::string variable(const char *name) {
  const char *text = ::secure_getenv(name);
  return text ? text : "";
}

Environment Environment::fromProcess() {
  return {variable("KILN_PROFILER_OUT"), variable("KILN_CUPTI"),
          variable("CUDA_HOME"), variable("CUDA_PATH"),
          variable("KILN_PROFILER_FROM_START") != "0"};
}

} // namespace kiln::profiler
