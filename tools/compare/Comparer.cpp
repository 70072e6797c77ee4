//===- Comparer.cpp -------------------------------------------------------===//
//
// All sides are sampled in turns by the loop that trials use, so that a clock
// that drifts meets them alike. A peer that computes the same reads and writes
// the same buffers; a copy baseline has its own.
//
//===----------------------------------------------------------------------===//
#include "compare/Comparer.h"

#include "compare/BenchSetting.h"

#include <llvm/ADT/STLExtras.h>

namespace kiln::cli {

llvm::Expected<TrialStream> TrialStream::open(LiveSession &session) {
  auto stream = Stream::create(session.driver());
  if (!stream)
    return stream.takeError();
  auto tools = TrialTools::load(session.driver(), *session.artifacts,
                                session.model(), session.memory.modules);
  if (!tools)
    return tools.takeError();
  return TrialStream{std::move(*stream), std::move(*tools)};
}

TimedLaunch LoadedChoice::launchOn(const ComparedCase &compared) const {
  return [this, &compared](unsigned copy, CudaStream stream) {
    return plan->launch(compared.arguments[copy],
                        {workspace.address(), workspace.bytes(), true}, stream);
  };
}

SamplingOptions samplingOf(const TrialBuffers &buffers) {
  SamplingOptions sampling;
  sampling.copies = buffers.copies();
  sampling.warm = [&](CudaStream stream) { return buffers.flush(stream); };
  if (buffers.needsFlush())
    sampling.flush = sampling.warm;
  return sampling;
}

Comparer::Comparer(LiveSession &session,
                   std::shared_ptr<const CublasLt> library, bool wantsBaseline,
                   TrialStream trial)
    : session(session), library(std::move(library)),
      wantsBaseline(wantsBaseline), trial(std::move(trial)),
      loader(session.driver(), nullptr, session.memory.modules),
      baselines(session.driver(), *session.artifacts, session.model(),
                this->trial.tools) {}

llvm::Expected<std::unique_ptr<Comparer>>
Comparer::create(LiveSession &session, std::shared_ptr<const CublasLt> library,
                 bool wantsBaseline) {
  auto trial = TrialStream::open(session);
  if (!trial)
    return trial.takeError();
  std::unique_ptr<Comparer> made(new Comparer(
      session, std::move(library), wantsBaseline, std::move(*trial)));
  if (made->library) {
    auto memory = DeviceMemory::allocate(session.driver(), kPeerWorkspaceBytes,
                                         session.memory.scratch);
    if (!memory)
      return memory.takeError();
    made->libraryWorkspace = std::move(*memory);
  }
  return made;
}

llvm::Error Comparer::prepareOperands(const Case &which, unsigned tenths,
                                      bool hot, ComparedCase &compared) {
  auto memory = memoryInfo(session.driver());
  if (!memory)
    return memory.takeError();
  TrialBufferOptions bufferOptions;
  bufferOptions.capBytes = memory->freeBytes / 10 * tenths;
  bufferOptions.forTiming = !hot;
  bufferOptions.l2Bytes = session.model().l2Bytes;
  bufferOptions.gauge = session.memory.scratch;
  const auto &[family, problem] = which.named;
  compared.product = family->matrixProduct(problem);
  bufferOptions.alignsTables = compared.product.has_value();
  auto buffers =
      TrialBuffers::create(session.driver(), trial.tools, *family, problem,
                           bufferOptions, stream().handle());
  if (!buffers)
    return buffers.takeError();
  compared.buffers.emplace(std::move(*buffers));
  for (unsigned copy = 0; copy < compared.buffers->copies(); ++copy)
    compared.arguments.push_back(compared.buffers->arguments(copy));
  return stream().synchronize();
}

llvm::Error Comparer::preparePeer(const Case &which, bool allAlgorithms,
                                  ComparedCase &compared) {
  if (hasCopyBaseline(which))
    return wantsBaseline ? prepareBaseline(which, compared)
                         : llvm::Error::success();
  if (!compared.product)
    compared.noPeer = "bench calls no library that computes it";
  else if (library)
    return prepareLibrary(allAlgorithms, compared);
  return llvm::Error::success();
}

llvm::Error Comparer::prepareLibrary(bool allAlgorithms,
                                     ComparedCase &compared) {
  auto made = BenchPeer::create(session.driver(), library, *compared.product,
                                {compared.buffers->table(), compared.arguments,
                                 libraryWorkspace.address()},
                                allAlgorithms);
  if (!made) {
    compared.noPeer = summarize(made.takeError()).message;
    return llvm::Error::success();
  }
  compared.peer = std::move(*made);
  if (llvm::Error error =
          compared.peer->loadAll(session.driver(), stream().handle()))
    return error;
  if (!allAlgorithms)
    return llvm::Error::success();
  return compared.peer->pickBest(session.driver(), stream().handle(),
                                 samplingOf(*compared.buffers));
}

llvm::Error Comparer::prepareBaseline(const Case &which,
                                      ComparedCase &compared) {
  const auto &[family, problem] = which.named;
  auto made = baselines.make(streamBytesOf(*family, problem),
                             samplingOf(*compared.buffers), stream().handle());
  if (made) {
    compared.baseline = std::move(*made);
    return llvm::Error::success();
  }
  ErrorSummary summary = summarize(made.takeError());
  if (endsAll(summary.code))
    return errorOf(summary);
  // Kiln is measured without it.
  compared.noPeer = summary.message;
  return llvm::Error::success();
}

llvm::Error Comparer::load(const BenchChoice &choice, LoadedChoice &loaded) {
  auto plan = LoadedPlan::load(loader, choice.plan, choice.artifacts,
                               static_cast<int32_t>(session.model().smCount),
                               KernelLifetime::Users);
  if (!plan)
    return plan.takeError();
  loaded.plan = std::move(*plan);
  const uint64_t bytes = loaded.plan->workspace().bytes();
  auto workspace =
      DeviceMemory::allocate(session.driver(), bytes, session.memory.scratch);
  if (!workspace)
    return workspace.takeError();
  loaded.workspace = std::move(*workspace);
  return bytes ? fillAsync(session.driver(), loaded.workspace.address(), 0,
                           bytes, stream().handle())
               : llvm::Error::success();
}

llvm::Expected<std::vector<SampledTime>>
Comparer::sample(std::vector<TimedLaunch> launches,
                 const ComparedCase &compared) {
  if (compared.peer)
    launches.push_back(compared.peer->first());
  if (compared.peer && compared.peer->best())
    launches.push_back(*compared.peer->best());
  if (compared.baseline)
    llvm::append_range(launches, compared.baseline->finalists());
  SamplingOptions sampling = samplingOf(*compared.buffers);
  sampling.minSamples = 7;
  sampling.maxSamples = 15;
  sampling.dropSlower = false;
  return measureInterleaved(session.driver(), stream().handle(), launches,
                            sampling);
}

llvm::Expected<std::vector<OutputRows>>
Comparer::outputsOf(const ComparedCase &compared, const TimedLaunch &launch) {
  if (llvm::Error error = compared.buffers->prepareOutputs(stream().handle()))
    return error;
  if (llvm::Error error = launch(0, stream().handle()))
    return error;
  if (llvm::Error error = stream().synchronize())
    return error;
  return readOutputs(session.driver(), *compared.buffers);
}

llvm::Expected<BenchVerdict> Comparer::judge(const Case &which,
                                             ComparedCase &compared,
                                             const TimedLaunch &kiln) {
  return judgeSides({session.driver(), trial.tools, session.model(),
                     *session.artifacts, loader},
                    which.named, *compared.buffers, kiln,
                    compared.peer->first(), stream().handle());
}

} // namespace kiln::cli
