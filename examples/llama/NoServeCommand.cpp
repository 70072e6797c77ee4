//===- NoServeCommand.cpp - the command serve in a build without Boost ----===//
#include "Commands.h"
#include "Error.h"

namespace llama {

int serveCommand(Options &) {
  throw Error("this kiln-llama was built without the command serve: the build "
              "did not find boost/beast/http.hpp (package libboost-dev)");
}

} // namespace llama
