// The loop between clients and an engine, on a stand-in of the engine.
#include "Examples/StandInEngine.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace llama;
using kiln::testing::comesTrue;
using kiln::testing::RunningLoop;
using kiln::testing::StandInEngine;

namespace {

/// A client that collects its tokens.
struct Client {
  explicit Client(size_t room = 100000)
      : stream(std::make_shared<CompletionStream>(room, nullptr)) {}

  EngineLoop::Admission offerTo(EngineLoop &loop, int64_t tokens,
                                std::vector<int32_t> prompt = {100, 2, 3},
                                std::set<int32_t> stops = {}) {
    CompletionRequest request;
    request.request.prompt = std::move(prompt);
    request.request.maxNewTokens = tokens;
    request.stopTokens = std::move(stops);
    return loop.offer(std::move(request), stream);
  }
  /// The ending, or an outcome that no ending has.
  Outcome outcome() {
    comesTrue([&] {
      CompletionStream::News news = stream->take();
      tokens.insert(tokens.end(), news.tokens.begin(), news.tokens.end());
      if (news.ending)
        ending = news.ending;
      return ending.has_value();
    });
    return ending ? ending->outcome : Outcome::Full;
  }

  std::shared_ptr<CompletionStream> stream;
  std::vector<int32_t> tokens;
  std::optional<Ending> ending;
};

constexpr auto kTaken = EngineLoop::Admission::Taken;

bool isAtRest(const EngineLoop &loop) {
  const ServeGauges gauges = loop.gauges();
  return gauges.open == 0 && gauges.engine.running == 0 &&
         gauges.engine.pagesInUse == 0;
}

} // namespace

TEST_CASE("a loop serves tokens, and knows what ends a completion") {
  StandInEngine engine;
  RunningLoop running(engine, 4);
  Client whole, stopped, ended, unended;
  CHECK(whole.offerTo(running.loop, 5) == kTaken);
  CHECK(whole.outcome() == Outcome::Length);
  CHECK(whole.tokens == std::vector<int32_t>{101, 102, 103, 104, 105});
  CHECK(stopped.offerTo(running.loop, 50, {1}, {4, 9}) == kTaken);
  CHECK(stopped.outcome() == Outcome::Stop);
  CHECK(stopped.tokens == std::vector<int32_t>{2, 3, 4});
  // At the model's end token, also where it is the last one.
  CHECK(ended.offerTo(running.loop, 1, {StandInEngine::kEnd - 1}) == kTaken);
  CHECK(ended.outcome() == Outcome::Stop);
  CompletionRequest request;
  request.request.prompt = {StandInEngine::kEnd - 1};
  request.request.maxNewTokens = 3;
  request.ignoresEnds = true;
  CHECK(running.loop.offer(request, unended.stream) == kTaken);
  CHECK(unended.outcome() == Outcome::Length);
  CHECK(comesTrue([&] { return isAtRest(running.loop); }));
  CHECK(running.metrics.count(Outcome::Length) == 2);
  CHECK(running.metrics.count(Outcome::Stop) == 2);
}

TEST_CASE("a request that comes before a step's turn is part of the step") {
  StandInEngine engine;
  EngineLoop *loop = nullptr;
  Client first, second;
  std::vector<int64_t> sequences; // of each step
  int turns = 0;
  engine.onTurn = [&] {
    if (++turns == 2)
      second.offerTo(*loop, 1);
  };
  engine.onStep = [&] {
    const EngineGauges gauges = engine.gauges();
    sequences.push_back(gauges.running + gauges.waiting);
  };
  RunningLoop running(engine, 4);
  loop = &running.loop;
  CHECK(first.offerTo(*loop, 3) == kTaken);
  CHECK(first.outcome() == Outcome::Length);
  CHECK(second.outcome() == Outcome::Length);
  CHECK(sequences == std::vector<int64_t>{1, 2, 1});
}

TEST_CASE("a client that leaves frees its sequence, a slow one loses it") {
  StandInEngine engine;
  engine.stepTime = 100;
  RunningLoop running(engine, 4);
  Client leaving, slow(10), other;
  CHECK(leaving.offerTo(running.loop, 900) == kTaken);
  CHECK(slow.offerTo(running.loop, 900) == kTaken);
  CHECK(other.offerTo(running.loop, 100) == kTaken);
  CHECK(comesTrue([&] { return !leaving.stream->take().tokens.empty(); }));
  leaving.stream->leave(Outcome::Cancelled);
  CHECK(comesTrue([&] { return slow.stream->isDropped(); }));
  CHECK(other.outcome() == Outcome::Length);
  CHECK(other.tokens.size() == 100);
  CHECK(comesTrue([&] { return isAtRest(running.loop); }));
  CHECK(slow.stream->take().tokens.size() == 10);
  CHECK(running.metrics.count(Outcome::Cancelled) == 1);
  CHECK(running.metrics.count(Outcome::Slow) == 1);
}

TEST_CASE("a queue has its limit, and a cache that is full only waits") {
  // Three sequences that fill the cache, one of which fits at a time.
  StandInEngine engine(2, 14);
  engine.stepTime = 100;
  RunningLoop running(engine, 1);
  Client clients[3], beyond, again;
  for (Client &client : clients)
    CHECK(client.offerTo(running.loop, 190) == kTaken);
  CHECK(beyond.offerTo(running.loop, 1) == EngineLoop::Admission::Full);
  for (Client &client : clients) {
    CHECK(client.outcome() == Outcome::Length);
    CHECK(client.tokens.size() == 190);
  }
  CHECK(running.loop.gauges().engine.preemptions > 0);
  CHECK(again.offerTo(running.loop, 1) == kTaken);
  CHECK(again.outcome() == Outcome::Length);
  CHECK(running.metrics.count(Outcome::Full) == 1);
}

TEST_CASE("a request that can never run is refused with the reason") {
  StandInEngine engine;
  RunningLoop running(engine, 4);
  Client client;
  CHECK(client.offerTo(running.loop, 1, {StandInEngine::kVocabulary}) ==
        kTaken);
  CHECK(client.outcome() == Outcome::Refused);
  CHECK(client.ending->message.find("token 100000") != std::string::npos);
}

TEST_CASE("a request that cannot be submitted ends alone") {
  StandInEngine engine;
  int failures = 1;
  engine.onSubmit = [&] {
    if (failures-- > 0)
      throw std::runtime_error("no memory");
  };
  RunningLoop running(engine, 4);
  Client clients[4];
  for (Client &client : clients)
    CHECK(client.offerTo(running.loop, 5) == kTaken);
  int failed = 0;
  for (Client &client : clients)
    if (client.outcome() == Outcome::Failed) {
      CHECK(client.ending->message == "no memory");
      ++failed;
    } else {
      CHECK(client.tokens.size() == 5);
    }
  CHECK(failed == 1);
  CHECK(running.loop.state() == EngineState::Ready);
  CHECK(comesTrue([&] { return isAtRest(running.loop); }));
}

TEST_CASE("a reader that cannot be woken is woken by the next token") {
  int calls = 0;
  CompletionStream stream(10, [&] {
    if (++calls == 1)
      throw std::runtime_error("no memory");
  });
  for (int32_t token : {1, 2, 3})
    CHECK(stream.push(token));
  CHECK(calls == 2);
  CHECK(stream.take().tokens == std::vector<int32_t>{1, 2, 3});
}

TEST_CASE("whoever asks for the engine's metrics delays no step") {
  StandInEngine engine;
  std::atomic<bool> isAsked{false}, mayEnd{false};
  engine.onMetrics = [&] {
    isAsked = true;
    while (!mayEnd)
      std::this_thread::yield();
  };
  RunningLoop running(engine, 4);
  std::thread asking([&] { running.loop.engineMetrics(); });
  CHECK(comesTrue([&] { return isAsked.load(); }));
  // A thread waits where a lock is held, so that the test ends.
  std::atomic<bool> isServed{false};
  std::thread serving([&] {
    Client client;
    CHECK(client.offerTo(running.loop, 5) == kTaken);
    isServed = client.outcome() == Outcome::Length;
  });
  CHECK(comesTrue([&] { return isServed.load(); }));
  mayEnd = true;
  asking.join();
  serving.join();
}

TEST_CASE("steps that fail are tried again, and then given up") {
  StandInEngine engine;
  int failures = 0;
  engine.onStep = [&] {
    if (failures > 0 && failures-- > 0)
      throw std::runtime_error("no luck");
  };
  SUBCASE("twice") {
    failures = 2;
    RunningLoop running(engine, 4);
    Client client;
    client.offerTo(running.loop, 4);
    CHECK(client.outcome() == Outcome::Length);
    CHECK(client.tokens.size() == 4);
  }
  SUBCASE("again and again") {
    failures = 3;
    RunningLoop running(engine, 4);
    Client client, later;
    client.offerTo(running.loop, 4);
    CHECK(client.outcome() == Outcome::Failed);
    CHECK(client.ending->message == "no luck");
    later.offerTo(running.loop, 4);
    CHECK(later.outcome() == Outcome::Length);
    CHECK(comesTrue([&] { return isAtRest(running.loop); }));
  }
}

TEST_CASE("a lost device ends all requests") {
  StandInEngine engine(1);
  engine.stepTime = 100;
  RunningLoop running(engine, 4);
  Client clients[3], late;
  for (Client &client : clients)
    CHECK(client.offerTo(running.loop, 900) == kTaken);
  engine.isLost = true;
  for (Client &client : clients) {
    CHECK(client.outcome() == Outcome::Lost);
    CHECK(client.ending->message == "the stand-in is lost");
  }
  CHECK(comesTrue([&] { return running.isLost.load(); }));
  CHECK(running.loop.state() == EngineState::Lost);
  CHECK(late.offerTo(running.loop, 1) == EngineLoop::Admission::Unavailable);
  CHECK(running.metrics.count(Outcome::Lost) == 3);
  CHECK(isAtRest(running.loop));
}

TEST_CASE("a loop that stops lets requests end, or cancels them") {
  StandInEngine engine;
  engine.stepTime = 100;
  RunningLoop running(engine, 4);
  Client client, late;
  CHECK(client.offerTo(running.loop, 900) == kTaken);
  SUBCASE("in time") {
    running.join(60);
    CHECK(client.outcome() == Outcome::Length);
    CHECK(client.tokens.size() == 900);
  }
  SUBCASE("too late") {
    running.join(0.01);
    CHECK(client.outcome() == Outcome::Cancelled);
    CHECK(client.tokens.size() < 900);
  }
  CHECK(isAtRest(running.loop));
  CHECK(late.offerTo(running.loop, 1) == EngineLoop::Admission::Unavailable);
  CHECK(running.loop.state() == EngineState::Draining);
}

TEST_CASE("a loop that was stopped while it loaded serves nothing") {
  StandInEngine engine;
  ServeMetrics metrics;
  EngineLoop loop(metrics, 4);
  Client client;
  CHECK(loop.state() == EngineState::Loading);
  CHECK(client.offerTo(loop, 1) == EngineLoop::Admission::Unavailable);
  loop.stop(EngineLoop::Seconds(10));
  loop.run(engine, engine.model());
  CHECK(loop.state() == EngineState::Draining);
  CHECK(metrics.count(Outcome::Unavailable) == 1);
}

TEST_CASE("traces: many clients that come and leave") {
  StandInEngine engine(8, 40);
  RunningLoop running(engine, 8);
  std::atomic<int> complete{0}, full{0}, left{0};
  const auto live = [&](unsigned seed) {
    for (unsigned i = 0; i < 50; ++i) {
      Client client;
      const auto admission = client.offerTo(
          running.loop, 1 + (seed * 7 + i * 13) % 90, {100, 2, int(seed)});
      if (admission != kTaken) {
        ++full;
        std::this_thread::yield();
      } else if (i % 3 == 0) {
        client.stream->leave(Outcome::Cancelled);
        ++left;
      } else if (client.outcome() == Outcome::Length) {
        ++complete;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed)
    threads.emplace_back(live, seed);
  for (int i = 0; i < 200; ++i)
    running.metrics.text(running.loop.gauges(), running.loop.engineMetrics());
  for (std::thread &thread : threads)
    thread.join();
  CHECK(comesTrue([&] { return isAtRest(running.loop); }));
  const auto count = [&](Outcome outcome) {
    return running.metrics.count(outcome);
  };
  CHECK(complete + full + left == 400);
  CHECK(count(Outcome::Full) == full);
  // Some were complete before they left.
  CHECK(count(Outcome::Length) + count(Outcome::Cancelled) == complete + left);
}
