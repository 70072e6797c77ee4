//===- FakeCudaCapture.cpp - captures, and what they forbid ---------------===//
//
// The effects of a call on the captures of a process, as an H200 with driver
// 580 answered, call by call and mode by mode. A call that is refused ruins
// each capture that refuses it: further work there and the end of the capture
// answer CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.
//
// Making and destroying streams, events and graphs, cuMemGetInfo, function
// attributes and work on other streams than the default one never matter. A
// call that asks a capturing stream itself for its end or its id
// (cuStreamSynchronize, cuStreamGetId) ruins it in every mode, and so does
// making it wait for an event of outside.
//
//   Context  a wait for the whole context. Refused (UNSUPPORTED) by every
//            capture of the context, whatever its mode, thread or stream, and
//            whatever the mode of the calling thread.
//   Legacy   work of the legacy default stream, which synchronous copies are.
//            Refused (IMPLICIT) by every capture of a blocking stream of the
//            context, whatever the modes; others are not affected.
//   Unsafe   "potentially unsafe" in the words of
//            cuThreadExchangeStreamCaptureMode. Refused (UNSUPPORTED) by
//            captures of the calling thread unless they are relaxed, and by
//            global ones of other threads while the calling thread's mode is
//            global; never while that is relaxed.
//
//===----------------------------------------------------------------------===//
#include "Fakes/FakeCudaState.h"

using namespace kiln::fake;

namespace kiln::fake {

namespace {
struct CaptureRule {
  Symbol symbol;
  bool isContextWide, isLegacy, isUnsafe;
};
} // namespace

static constexpr CaptureRule kRules[] = {
    // call                      Context Legacy Unsafe
    {kSymbol_cuCtxSynchronize, true, false, true},
    {kSymbol_cuMemcpyHtoD, false, true, false},
    {kSymbol_cuMemcpyDtoH, false, true, false},
    {kSymbol_cuMemAlloc, false, false, true},
    {kSymbol_cuMemFree, false, false, true},
    {kSymbol_cuModuleLoadData, false, false, true},
    {kSymbol_cuModuleUnload, false, false, true},
    {kSymbol_cuFuncLoad, false, false, true},
    {kSymbol_cuStreamSynchronize, false, false, true},
    {kSymbol_cuEventQuery, false, false, true},
    {kSymbol_cuGraphInstantiateWithFlags, false, false, true},
};

/// Ruins the captures that \p refuses; \p result if there are any.
template <class Refuses>
static CUresult ruinCaptures(CUresult result, const Refuses &refuses) {
  std::lock_guard lock(state.mutex);
  bool any = false;
  for (Stream *stream : state.captures) {
    if (!refuses(*stream))
      continue;
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    any = true;
  }
  return any ? result : CUDA_SUCCESS;
}

CUresult refuseLegacyWork() {
  if (state.captureCount.load(std::memory_order_relaxed) == 0)
    return CUDA_SUCCESS;
  return ruinCaptures(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                      [](const Stream &stream) {
                        return stream.context == current && stream.blocking;
                      });
}

static CUresult refuseUnsafe() {
  if (threadMode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  return ruinCaptures(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      [](const Stream &stream) {
                        if (stream.capturer == std::this_thread::get_id())
                          return stream.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
                        return stream.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                               threadMode == CU_STREAM_CAPTURE_MODE_GLOBAL;
                      });
}

CUresult ruinCapture(Stream &stream, CUresult result) {
  stream.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return result;
}

CUresult refuseBesideCapture(Symbol symbol) {
  for (const CaptureRule &rule : kRules) {
    if (rule.symbol != symbol)
      continue;
    CUresult result = CUDA_SUCCESS;
    if (rule.isContextWide)
      result = ruinCaptures(
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          [](const Stream &stream) { return stream.context == current; });
    if (result == CUDA_SUCCESS && rule.isLegacy)
      result = refuseLegacyWork();
    if (result == CUDA_SUCCESS && rule.isUnsafe)
      result = refuseUnsafe();
    return result;
  }
  return CUDA_SUCCESS;
}

/// Whether a blocking stream of the current context is being captured.
static bool isLegacyCaptured() {
  std::lock_guard lock(state.mutex);
  for (const Stream *stream : state.captures)
    if (stream->context == current && stream->blocking)
      return true;
  return false;
}

} // namespace kiln::fake

#pragma GCC visibility push(default)
extern "C" {

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  KILN_FAKE_ENTER(cuStreamIsCapturing, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = streamOf(handle, result);
  if (result != CUDA_SUCCESS)
    return result;
  // The one legacy call that leaves the captures as they are.
  if (isLegacyStream(handle) && state.captureCount != 0 && isLegacyCaptured())
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = stream ? static_cast<CUstreamCaptureStatus>(stream->capture.load())
                   : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  KILN_FAKE_ENTER(cuStreamBeginCapture, Needs::Context);
  if (isDefaultStream(handle))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CUresult result = CUDA_SUCCESS;
  Stream *stream = objectOf<Stream>(handle, Kind::Stream, result);
  if (!stream)
    return result;
  std::lock_guard lock(state.mutex);
  if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->graph = state.make<Graph>();
  stream->mode = mode;
  stream->capturer = std::this_thread::get_id();
  stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  state.captures.push_back(stream);
  ++state.captureCount;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  KILN_FAKE_ENTER(cuStreamEndCapture, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = objectOf<Stream>(handle, Kind::Stream, result);
  if (!stream)
    return result;
  KeptObjects released; // behind the lock: the last reference calls
  std::lock_guard lock(state.mutex);
  int status = stream->capture;
  if (status == CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      stream->capturer != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  state.captureCount -= static_cast<int>(std::erase(state.captures, stream));
  stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  bool failed = status == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  if (failed)
    released = std::move(stream->graph->kept);
  *graph = failed ? nullptr : handleOf<CUgraph>(stream->graph);
  return failed ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle,
                                   CUstreamCaptureStatus *status,
                                   cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **dependencies,
                                   const CUgraphEdgeData **edges,
                                   size_t *count) {
  KILN_FAKE_ENTER(cuStreamGetCaptureInfo_v3, Needs::Context);
  CUresult result = CUDA_SUCCESS;
  Stream *stream = objectOf<Stream>(handle, Kind::Stream, result);
  if (!stream)
    return result;
  if (dependencies || edges || count)
    return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(state.mutex);
  *status = static_cast<CUstreamCaptureStatus>(stream->capture.load());
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_SUCCESS;
  *id = reinterpret_cast<uintptr_t>(stream->graph); // one for each capture
  *graph = handleOf<CUgraph>(stream->graph);
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  KILN_FAKE_ENTER(cuThreadExchangeStreamCaptureMode, Needs::Nothing);
  std::swap(*mode, threadMode);
  return CUDA_SUCCESS;
}

} // extern "C"
#pragma GCC visibility pop
