#include "llama/ServeMetrics.h"

#include <doctest/doctest.h>

#include <string>

using namespace llama;

namespace {

bool hasLine(const std::string &text, const std::string &line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

} // namespace

TEST_CASE("counts, gauges and histograms of a server") {
  ServeMetrics metrics;
  metrics.ended(Outcome::Length);
  metrics.ended(Outcome::Slow);
  metrics.ended(Outcome::Slow);
  metrics.gotPrompt(9);
  metrics.gotFirstToken(0.0005);
  metrics.gotFirstToken(1);
  metrics.gotFirstToken(100);
  metrics.gotNextToken(0.25);
  ServeGauges gauges;
  gauges.open = 5;
  gauges.connections = 7;
  gauges.engine.running = 2;
  gauges.engine.pages = 31;
  gauges.engine.pagesInUse = 4;
  const std::string text = metrics.text(gauges, "");
  for (const char *line :
       {"kiln_llama_requests_total{outcome=\"length\"} 1",
        "kiln_llama_requests_total{outcome=\"slow\"} 2",
        "kiln_llama_requests_total{outcome=\"lost\"} 0",
        "kiln_llama_prompt_tokens_total 9", "kiln_llama_new_tokens_total 4",
        "kiln_llama_requests_waiting 3", "kiln_llama_requests_running 2",
        "kiln_llama_cache_pages 31", "kiln_llama_cache_pages_in_use 4",
        "kiln_llama_connections 7",
        // A bound belongs to its bucket.
        "kiln_llama_time_to_first_token_seconds_bucket{le=\"0.001\"} 1",
        "kiln_llama_time_to_first_token_seconds_bucket{le=\"0.5\"} 1",
        "kiln_llama_time_to_first_token_seconds_bucket{le=\"1.0\"} 2",
        "kiln_llama_time_to_first_token_seconds_bucket{le=\"60.0\"} 2",
        "kiln_llama_time_to_first_token_seconds_bucket{le=\"+Inf\"} 3",
        "kiln_llama_time_to_first_token_seconds_count 3",
        "kiln_llama_time_to_first_token_seconds_sum 101.000500",
        "kiln_llama_inter_token_latency_seconds_count 1"})
    CHECK_MESSAGE(hasLine(text, line), line);
  CHECK(text.rfind("# EOF\n") == text.size() - 6);
}

TEST_CASE("other metrics go before the one end mark") {
  const ServeMetrics metrics;
  for (const char *others :
       {"", "cut off", "# EOF\n", "# TYPE a gauge\na 1\n# EOF\n"}) {
    CAPTURE(others);
    const std::string text = metrics.text({}, others);
    CHECK(text.find("# EOF\n") == text.size() - 6);
    CHECK((text.find("\na 1\n") != std::string::npos) ==
          (std::string(others).size() > 10));
    CHECK(text.find("cut off") == std::string::npos);
  }
}
