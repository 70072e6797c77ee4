//===- CapiEngine.cpp - engines, launches, statistics, text ---------------===//
#include "Runtime/Capi.h"

#include "Call/CallReader.h"
#include "Call/StructAccess.h"
#include "Kernel/KernelName.h"
#include "Runtime/EnteredContext.h"
#include "Runtime/OpenMetrics.h"
#include "Runtime/PlansDigest.h"
#include "Runtime/ProblemKeys.h"
#include "Runtime/Query.h"
#include "Support/OutOfMemory.h"

using namespace kiln;

/// The families for functions without an engine. Never destroyed: threads may
/// call while the process exits.
static const Registry &sharedRegistry() {
  throwWhereMemoryIsOut();
  static const Registry &registry = *new Registry(makeBuiltinRegistry());
  return registry;
}

/// The body of a family's function.
static kiln_status launch(kiln_engine *engine, kiln_family family,
                          const void *args, const kiln_workspace *workspace,
                          kiln_stream stream) noexcept {
  return guarded([&]() -> llvm::Error {
    if (!engine || !args) [[unlikely]]
      return nullArgument(engine ? "args" : "engine");
    return engine->engine->launchCall(family, args, workspace, stream);
  });
}

extern "C" {

kiln_status kiln_engine_create(const kiln_engine_options *options,
                               kiln_engine **engine) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!engine)
      return nullArgument("engine");
    *engine = nullptr;
    throwWhereMemoryIsOut();
    auto made = Engine::create(options);
    if (!made)
      return made.takeError();
    *engine = new kiln_engine{std::move(*made)};
    return llvm::Error::success();
  });
}

void kiln_engine_destroy(kiln_engine *engine) KILN_NOEXCEPT {
  // Destructors do not throw. If one does all the same, that is not worth an
  // abort.
  (void)guarded([&]() -> llvm::Error {
    delete engine;
    return llvm::Error::success();
  });
}

// The functions that launch the struct of one family.
#define KILN_CALL(function, family, args_type)                                 \
  kiln_status function(kiln_engine *engine, const args_type *args,             \
                       const kiln_workspace *workspace, kiln_stream stream)    \
      KILN_NOEXCEPT {                                                          \
    return launch(engine, family, args, workspace, stream);                    \
  }
#include "Families/Families.def"

kiln_status kiln_run(kiln_engine *engine, const kiln_problem *problem,
                     const kiln_arguments *arguments,
                     const kiln_workspace *workspace,
                     kiln_stream stream) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    return engine->engine->run(problem, arguments, workspace, stream);
  });
}

kiln_status kiln_query(kiln_engine *engine, const kiln_problem *problem,
                       kiln_stream stream,
                       kiln_query_result *result) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    if (auto error = checkOutput(result, "result"))
      return error;
    auto found = queryProblem(*engine->engine, problem, stream);
    if (!found)
      return found.takeError();
    found->workspace.struct_size = sizeof(kiln_workspace_info);
    fillOutput(result, *found);
    return llvm::Error::success();
  });
}

kiln_status kiln_plans_digest(kiln_engine *engine, kiln_stream stream,
                              char *buffer, size_t capacity,
                              size_t *length) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    auto entered = EnteredContext::of(*engine->engine, stream);
    if (!entered)
      return entered.takeError();
    return writeText(plansDigest(*engine->engine, entered->state()), buffer,
                     capacity, length);
  });
}

kiln_status kiln_problem_text(const kiln_problem *problem, char *buffer,
                              size_t capacity, size_t *length) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    auto spec = ProblemSpec::parse(sharedRegistry(), problem);
    if (!spec)
      return spec.takeError();
    return writeText(spec->text, buffer, capacity, length);
  });
}

kiln_status kiln_kernel_name_parse(const char *name, kiln_family *family,
                                   char *buffer, size_t capacity,
                                   size_t *length) KILN_NOEXCEPT {
  return guarded([&]() -> llvm::Error {
    if (!name)
      return nullArgument("name");
    auto kernel = parseKernelName(sharedRegistry(), name);
    if (!kernel)
      return kernel.takeError();
    if (auto error = writeText(kernel->text(), buffer, capacity, length))
      return error;
    const CallReader *call = kernel->family->call();
    if (family)
      *family = call ? call->number : kiln_family(KILN_FAMILY_FROM_TEXT);
    return llvm::Error::success();
  });
}

kiln_status kiln_problem_key(kiln_engine *engine, const kiln_problem *problem,
                             kiln_stream stream, char *buffer, size_t capacity,
                             size_t *length) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    auto key = problemKey(*engine->engine, problem, stream);
    if (!key)
      return key.takeError();
    return writeText(*key, buffer, capacity, length);
  });
}

kiln_status kiln_get_statistics(kiln_engine *engine,
                                kiln_statistics *statistics) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    if (auto error = checkOutput(statistics, "statistics"))
      return error;
    fillOutput(statistics, engine->engine->statistics());
    return llvm::Error::success();
  });
}

kiln_status kiln_reset_peaks(kiln_engine *engine) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    engine->engine->memory().resetPeaks();
    return llvm::Error::success();
  });
}

kiln_status kiln_openmetrics(kiln_engine *engine, char *buffer, size_t capacity,
                             size_t *length) KILN_NOEXCEPT {
  return guardedOf(engine, [&]() -> llvm::Error {
    return writeText(openMetricsText(engine->engine->statistics()), buffer,
                     capacity, length);
  });
}

} // extern "C"
