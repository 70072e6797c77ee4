//===- AttentionEstimate.cpp ----------------------------------------------===//
#include "Families/Attention/AttentionEstimate.h"

#include "Families/Attention/AttentionModel.h"

namespace kiln {

Estimate estimateAttentionTiles(const AttentionProblem &problem,
                                const AttentionTileKernel &kernel,
                                const DeviceModel &device, Detail detail) {
  AttentionTileModel model(problem, kernel, device);
  Estimate estimate(detail);
  estimate.totalNs = model.totalNs();
  estimate.bound = model.bound();
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("start", kStartNs);
  estimate.add("first keys", model.firstNs);
  estimate.add("tiles", model.ns(model.path));
  estimate.add("tail", model.ns(model.tail));
  estimate.add("beyond path", model.beyondNs());
  estimate.add("skew", model.skewNs);
  estimate.add("merge", model.merge.totalNs());
  const AttentionStep &step = model.step;
  estimate.note("step tensor", step.tensor, "clk");
  estimate.note("step softmax", step.softmax, "clk");
  estimate.note("step shared", step.shared, "clk");
  estimate.note("step l2", step.l2, "clk");
  estimate.note("step port", step.port, "clk");
  estimate.note("step", step.pace(), "clk");
  estimate.note("ends of a tile", model.ends, "clk");
  estimate.note("tile count", model.tiles, "");
  estimate.note("steps", model.blocks, "");
  estimate.note("longest tile", model.longest, "clk");
  estimate.note("splits with keys", double(model.splits.active), "");
  estimate.note("floor bytes", model.floorNs);
  return estimate;
}

Estimate estimateAttentionDecode(const AttentionProblem &problem,
                                 const AttentionDecodeKernel &kernel,
                                 const DeviceModel &device, Detail detail) {
  AttentionDecodeModel model(problem, kernel, device);
  Estimate estimate(detail);
  estimate.totalNs = model.totalNs();
  estimate.bound = model.bound();
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("ends", model.endsNs);
  estimate.add("stream", model.streamNs());
  estimate.add("skew", model.skewNs);
  estimate.add("uneven", model.unevenNs);
  estimate.add("empty blocks", model.emptyNs);
  estimate.add("merge", model.merge.totalNs());
  const DecodeWave &wave = model.main();
  estimate.note("wave dram", wave.dramNs);
  estimate.note("wave in flight", wave.littleNs);
  estimate.note("wave port", wave.portNs);
  estimate.note("wave l2", wave.l2Ns);
  estimate.note("wave life", wave.lifeNs);
  estimate.note("wave arithmetic", wave.arithmeticNs);
  estimate.note("full waves", model.fullWaves, "");
  estimate.note("blocks", model.blocks, "");
  estimate.note("resident blocks", model.slots, "");
  estimate.note("block bytes", model.blockBytes, "B");
  estimate.note("in flight of a block", model.inFlight, "B");
  estimate.note("key", model.keyClocks, "clk");
  return estimate;
}

Estimate estimateNaiveAttention(const AttentionProblem &problem,
                                const DeviceModel &device, Detail detail) {
  NaiveAttentionModel model(problem, device);
  double body = model.bodyNs();
  Estimate estimate(detail);
  estimate.totalNs = device.launchNs + device.rampNs + model.startNs + body;
  estimate.bound = model.bound();
  estimate.add("launch", device.launchNs);
  estimate.add("ramp", device.rampNs);
  estimate.add("start", model.startNs);
  estimate.add("rows", body);
  estimate.note("instructions", model.issueNs());
  estimate.note("stream", model.streamNs());
  estimate.note("longest row", model.longestNs());
  return estimate;
}

} // namespace kiln
