//===- BenchCommand.cpp - a synthetic workload ----------------------------===//
#include "BenchEngine.h"
#include "Commands.h"
#include "Error.h"
#include "Report.h"
#include "Worker.h"
#include "Workload.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace llama {

namespace {

std::vector<WorkloadRequest> workloadOf(Options &options,
                                        const ModelConfig &model) {
  const auto seed = static_cast<uint64_t>(options.number("workload-seed", 1));
  const double rate = options.real("rate", 0);
  if (rate <= 0) {
    FixedBatch batch;
    batch.sequences = options.number("sequences", 1);
    batch.promptTokens = options.number("prompt", 1024);
    batch.newTokens = options.number("new", 128);
    return makeWorkload(batch, model.vocabSize, seed);
  }
  PoissonLoad load;
  load.requestsPerSecond = rate;
  load.requests = options.number("requests", load.requests);
  load.prompt.median = double(options.number("prompt", 256));
  load.prompt.most = options.number("most-prompt", 2000);
  load.newTokens.median = double(options.number("new", 64));
  load.newTokens.most = options.number("most-new", 500);
  load.sharedPrefixTokens = options.number("shared-prefix", 0);
  return makeWorkload(load, model.vocabSize, seed);
}

void print(const nlohmann::json &report) {
  std::printf("%s\n%s", report["device"].get<std::string>().c_str(),
              rooflineText(report["roofline"]).c_str());
  for (const char *part : {"memory", "counts", "stalls"})
    std::printf("%s: %s\n", part, report[part].dump(2).c_str());
  if (report.contains("allreduce"))
    std::printf("all-reduce: %s\n",
                report["allreduce"].get<std::string>().c_str());
  std::printf("prepared in %.1f s\n", report["prepare_s"].get<double>());
}

/// The results of one engine or of several.
struct Results {
  Metrics metrics;
  std::vector<nlohmann::json> reports;

  void add(const BenchEngine &engine) {
    metrics.add(engine.times());
    reports.push_back(engine.report());
  }
  bool hasStalls() const {
    return std::any_of(reports.begin(), reports.end(), [](const auto &report) {
      return !report.at("stalls").empty();
    });
  }
  /// The members of one engine, or a list of engines.
  nlohmann::json toJson() const {
    nlohmann::json json = reports.front();
    if (reports.size() > 1) {
      json = {{"engines", reports}};
      json["device"] = std::to_string(reports.size()) + " engines";
    }
    json["metrics"] = nlohmann::json::parse(metrics.summarize().toJson());
    return json;
  }
};

/// An engine on a thread of its own.
struct Replica {
  Replica() = default;
  ~Replica() {
    worker.run([this] { engine.reset(); }).wait();
  }
  Replica(const Replica &) = delete;
  Replica &operator=(const Replica &) = delete;

  std::vector<WorkloadRequest> load;
  std::unique_ptr<BenchEngine> engine;
  Worker worker;
};

void awaitAll(std::vector<std::future<void>> &all) {
  for (std::future<void> &one : all)
    one.wait();
  for (std::future<void> &one : all)
    one.get();
}

/// Data parallelism: an engine for each GPU, to which requests are dealt in
/// turn. They share nothing but Kiln's cache, which the first one fills.
Results serveOnEach(const BenchSetup &setup,
                    const std::vector<int64_t> &devices,
                    const std::vector<WorkloadRequest> &load) {
  std::vector<Replica> replicas(devices.size());
  for (size_t i = 0; i < load.size(); ++i)
    replicas[i % replicas.size()].load.push_back(load[i]);
  std::vector<std::future<void>> made;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Progress progress = i == 0 ? progressBar() : Progress();
    made.push_back(replicas[i].worker.run([&, i, progress] {
      replicas[i].engine =
          std::make_unique<BenchEngine>(setup, devices[i], progress);
    }));
    if (i == 0)
      made.front().wait();
  }
  awaitAll(made);
  std::vector<std::future<void>> served;
  const auto start = Bench::Clock::now();
  for (Replica &replica : replicas)
    served.push_back(replica.worker.run(
        [&replica, start] { replica.engine->serve(replica.load, start); }));
  awaitAll(served);
  Results results;
  for (const Replica &replica : replicas)
    results.add(*replica.engine);
  return results;
}

} // namespace

int benchCommand(Options &options) {
  ChosenModel chosen = chooseModel(options);
  BenchSetup setup;
  setup.model = chosen.config;
  setup.source = chosen.source;
  setup.room = runnerOptions(options);
  const RankOptions places = rankOptions(options, chosen.config);
  const std::vector<WorkloadRequest> load = workloadOf(options, chosen.config);
  const std::string jsonPath = options.text("json");
  setup.sharesPrefixes = !options.flag("no-shared-prefixes");
  setup.ignoresEnds = !options.flag("ends");
  options.requireNoOthers();

  Results results;
  if (places.count == 1 && places.devices.size() > 1) {
    results = serveOnEach(setup, places.devices, load);
  } else {
    Ranks ranks(places);
    setup.room.ranks = &ranks;
    BenchEngine engine(setup, ranks.device(), progressOf(ranks));
    if (engine.follow())
      return 0;
    engine.serve(load, Bench::Clock::now());
    results.add(engine);
  }

  std::printf("%s", results.metrics.summarize().toTable().c_str());
  for (const nlohmann::json &report : results.reports)
    print(report);
  if (!jsonPath.empty()) {
    nlohmann::json report = results.toJson();
    report["model"] = options.text("model", "llama-3-8b");
    std::ofstream file(jsonPath);
    file << report.dump(2) << "\n";
    if (!file.flush())
      throw Error(jsonPath + " cannot be written");
  }
  return results.hasStalls() ? 1 : 0;
}

} // namespace llama
