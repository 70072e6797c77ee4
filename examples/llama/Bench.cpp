//===- Bench.cpp ----------------------------------------------------------===//
#include "Bench.h"

#include "Error.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace llama {

Bench::Bench(Server &server, const std::vector<WorkloadRequest> &load,
             Clock::time_point start)
    : server(server), load(load), start(start) {
  server.listen(
      {[this](const Step &step) { began(step); },
       [this](const StepWork &work, double ms) { seen.add(work, ms); }});
}

MetricsSummary Bench::serve() {
  try {
    while (next < load.size() || !server.idle())
      advance();
  } catch (const DeviceLost &error) {
    throw DeviceLost(std::string(error.what()) + "; " +
                     ledger.lossText(static_cast<int64_t>(load.size() - next)));
  }
  return metrics.summarize();
}

double Bench::now() const {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Bench::began(const Step &step) {
  const double at = now();
  for (const auto *sequences : {&step.decodes, &step.prefills})
    for (const ScheduledSequence &sequence : *sequences)
      metrics.started(sequence.id, at);
}

void Bench::submit(const WorkloadRequest &from) {
  Request request;
  request.prompt = from.prompt;
  request.maxNewTokens = from.newTokens;
  const SequenceId id = server.submit(std::move(request));
  metrics.arrived(id, from.arrivalSeconds,
                  static_cast<int64_t>(from.prompt.size()));
  ledger.submitted(id, from.newTokens);
}

void Bench::advance() {
  server.awaitTurn();
  for (; next < load.size() && load[next].arrivalSeconds <= now(); ++next)
    submit(load[next]);
  if (server.idle() && next < load.size()) {
    std::this_thread::sleep_for(std::chrono::duration<double>(
        std::max(0.0, load[next].arrivalSeconds - now())));
    return;
  }
  for (const NewToken &token : server.step()) {
    metrics.gotToken(token.id, now());
    ledger.gotToken(token.id, token.isLast);
  }
}

} // namespace llama
