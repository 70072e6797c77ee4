#include "llama/RequestLedger.h"

#include <doctest/doctest.h>

using namespace llama;

TEST_CASE("a lost device takes along the requests that are not complete") {
  RequestLedger ledger;
  CHECK(ledger.lossText(0) == "0 of 0 requests are complete; none is lost");
  for (SequenceId id : {1, 2, 3})
    ledger.submitted(id, 4);
  ledger.gotToken(2, false);
  ledger.gotToken(1, false);
  ledger.gotToken(1, true);
  CHECK(ledger.lossText(2) ==
        "1 of 5 requests are complete; lost are 2 (1 of 4 tokens), 3 (0 of 4 "
        "tokens), and 2 were not submitted");
  ledger.gotToken(2, true);
  ledger.gotToken(3, true);
  CHECK(ledger.lossText(1) ==
        "3 of 4 requests are complete; none is lost, and 1 was not submitted");
}

TEST_CASE("many lost requests are counted") {
  RequestLedger ledger;
  for (SequenceId id = 1; id <= 20; ++id)
    ledger.submitted(id, 100);
  const std::string text = ledger.lossText(0);
  CHECK(text.find("8 (0 of 100 tokens) and 12 more") != std::string::npos);
  CHECK(text.find("9 (") == std::string::npos);
}
