//===- micro/Copies.cu - bulk copies from L2, and maps that change --------===//
//
// Bandwidth: one block an SM loads boxes of 128 bytes times some rows, several
// in flight, from tiles that stay in the L2. Either each block has tiles of its
// own, or all read the same ones in the same order, as blocks of one column of
// tiles do.
//
// Maps: the cost for a kernel to give a tensor map another address and height
// (tensormap.replace, a publishing copy, a fence), and to use the next of many
// maps that the host made.
//
//===----------------------------------------------------------------------===//
#include "Instructions.cuh"
#include "Micro.h"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace micro {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// A map of \p rows rows of 128 bytes at \p data, in boxes of \p boxRows.
TensorMap mapOf(void *data, size_t rows, int boxRows) {
  static const Encode encode = [] {
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found;
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                           12000, cudaEnableDefault, &found),
          "cudaGetDriverEntryPointByVersion");
    return reinterpret_cast<Encode>(function);
  }();
  cuuint64_t extents[] = {kRowBytes, rows}, strides[] = {kRowBytes};
  cuuint32_t box[] = {kRowBytes, cuuint32_t(boxRows)}, steps[] = {1, 1};
  CUtensorMap map;
  CUresult status = encode(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, data, extents, strides, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "micro: cuTensorMapEncodeTiled: %d\n", int(status));
    std::exit(1);
  }
  TensorMap copy;
  static_assert(sizeof(copy) == sizeof(map));
  std::memcpy(&copy, &map, sizeof(map));
  return copy;
}

//===----------------------------------------------------------------------===//
// Bandwidth
//===----------------------------------------------------------------------===//

constexpr int kMostStages = 16;

/// Box i of this block begins at row (first * blockIdx.x + i) * boxRows among
/// \p rows.
__global__ void __launch_bounds__(32, 1)
    copyBoxes(const __grid_constant__ TensorMap map, int boxes, int stages,
              int boxRows, int rows, int first) {
  extern __shared__ unsigned char memory[];
  __shared__ alignas(8) unsigned long long barriers[kMostStages];
  unsigned tiles = sharedAddress(atomsOf(memory));
  unsigned bytes = boxRows * kRowBytes, barrier = sharedAddress(barriers);
  if (threadIdx.x != 0)
    return;
  for (int i = 0; i < stages; ++i)
    barrierInit(barrier + 8 * i);
  unsigned row = (blockIdx.x * unsigned(first) * boxRows) % rows;
  auto ask = [&](int stage) {
    barrierExpect(barrier + 8 * stage, bytes);
    tmaLoad(tiles + stage * bytes, &map, barrier + 8 * stage, 0, row);
    row += boxRows;
    if (row == unsigned(rows))
      row = 0;
  };
  for (int i = 0; i < stages; ++i)
    ask(i);
  int stage = 0;
  unsigned phase = 0;
#pragma unroll 1
  for (int i = 0; i < boxes; ++i) {
    barrierWait(barrier + 8 * stage, phase);
    if (i + stages < boxes)
      ask(stage);
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
}

double millisecondsOf(cudaEvent_t begin, cudaEvent_t end) {
  float found = 0;
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  check(cudaEventElapsedTime(&found, begin, end), "cudaEventElapsedTime");
  return found;
}

/// GB/s of all SMs; \p shared: all blocks read the same boxes.
double bandwidthOf(size_t workingSet, int boxRows, int stages, bool shared) {
  int rows = int(workingSet / kRowBytes), boxBytes = boxRows * kRowBytes;
  Buffer<unsigned char> data(workingSet);
  TensorMap map = mapOf(data.data(), rows, boxRows);
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  constexpr int kBytesOfBlock = 32 << 20;
  int boxes = kBytesOfBlock / boxBytes;
  // Blocks begin evenly spread over the boxes.
  int first = shared ? 0 : rows / boxRows / smCount();
  double found = medianOf([&] {
    check(cudaEventRecord(begin), "cudaEventRecord");
    launch(copyBoxes, {smCount(), 32, stages * boxBytes + kAtomBytes}, map,
           boxes, stages, boxRows, rows, first);
    check(cudaEventRecord(end), "cudaEventRecord");
    return double(boxes) * boxBytes * smCount() / 1e6 /
           millisecondsOf(begin, end);
  });
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  return found;
}

//===----------------------------------------------------------------------===//
// Maps
//===----------------------------------------------------------------------===//

enum class Change { Load, Replace, Publish, PublishAndLoad, NextMap };

constexpr int kMaps = 256, kMapRows = 64;

/// One warp; each round changes the map of \p maps[0] according to \p kChange,
/// or takes the next one, and loads a box by it, or does only one of both.
template <Change kChange>
__global__ void __launch_bounds__(32, 1)
    changeMaps(int rounds, TensorMap *maps, unsigned char *data, Span *spans) {
  extern __shared__ unsigned char memory[];
  __shared__ alignas(128) TensorMap copy;
  __shared__ alignas(8) unsigned long long memoryOfBarrier;
  unsigned tile = sharedAddress(atomsOf(memory));
  unsigned barrier = sharedAddress(&memoryOfBarrier);
  if (threadIdx.x < 16)
    copy.opaque[threadIdx.x] = maps->opaque[threadIdx.x];
  if (threadIdx.x == 0)
    barrierInit(barrier);
  __syncwarp();
  long long begin = clockNow();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const TensorMap *map = maps;
    if constexpr (kChange == Change::NextMap)
      map += round % kMaps;
    if constexpr (kChange != Change::Load && kChange != Change::NextMap) {
      if (threadIdx.x == 0) {
        replaceAddress(sharedAddress(&copy),
                       data + round % kMaps * (kMapRows * kRowBytes));
        replaceRows(sharedAddress(&copy), kMapRows - round % 8);
      }
      __syncwarp();
    }
    if constexpr (kChange == Change::Publish ||
                  kChange == Change::PublishAndLoad) {
      publishMap(maps, sharedAddress(&copy));
      acquireMap(maps);
    }
    if constexpr (kChange != Change::Replace && kChange != Change::Publish) {
      if (threadIdx.x == 0) {
        barrierExpect(barrier, kMapRows * kRowBytes);
        tmaLoad(tile, map, barrier, 0, 0);
        barrierWait(barrier, round & 1);
      }
      __syncwarp();
    }
  }
  long long end = clockNow();
  if (threadIdx.x == 0)
    spans[0] = {begin, end};
}

template <Change kChange> void addChange(Report &report, const char *name) {
  Buffer<unsigned char> data(size_t(kMaps) * kMapRows * kRowBytes);
  std::vector<TensorMap> made;
  for (int i = 0; i < kMaps; ++i)
    made.push_back(mapOf(data.data() + size_t(i) * kMapRows * kRowBytes,
                         kMapRows, kMapRows));
  Buffer<TensorMap> maps(made);
  Buffer<Span> spans(1);
  // A multiple of the number of maps, so that each has equally many turns.
  double clocks = clocksOfRound(kMaps, [&](int rounds) {
    launch(changeMaps<kChange>, {1, 32, kMapRows * kRowBytes + kAtomBytes},
           rounds, maps.data(), data.data(), spans.data());
    return clocksOf(spans.values());
  });
  report.add(std::string("maps/") + name, {{"clocks", clocks}});
}

} // namespace

void measureCopies(Report &report) {
  for (bool shared : {false, true})
    for (int megabytes : {8, 24})
      for (int boxRows : {32, 64, 128, 256}) {
        // The bytes in flight of a GEMM's ring.
        int stages = std::min(kMostStages, 1536 / boxRows);
        double found =
            bandwidthOf(size_t(megabytes) << 20, boxRows, stages, shared);
        report.add(std::string("copies/") + (shared ? "shared" : "own") + "/" +
                       std::to_string(megabytes) + "mb/rows" +
                       std::to_string(boxRows),
                   {{"rows", boxRows},
                    {"megabytes", megabytes},
                    {"stages", stages},
                    {"gbs", found}});
      }
}

void measureTensorMaps(Report &report) {
  addChange<Change::Load>(report, "load");
  addChange<Change::Replace>(report, "replace");
  addChange<Change::Publish>(report, "replace_and_publish");
  addChange<Change::PublishAndLoad>(report, "replace_publish_and_load");
  addChange<Change::NextMap>(report, "load_by_the_next_map");
}

} // namespace micro
