//===- Breaks.h - good structs, broken one way at a time ------------------===//
#pragma once

#include "Runtime/RuntimeFixture.h"

#include <string>

namespace kiln::testing {

/// One way to break a good struct.
template <class Args> struct Break {
  const char *name;
  void (*breakIt)(Args &);
  kiln_status status;
  const char *message; ///< a part of the message
};

template <class Args, size_t N>
void checkBreaks(kiln_engine *engine, const Args &good,
                 kiln_status (*call)(kiln_engine *, const Args *,
                                     const kiln_workspace *, kiln_stream),
                 const Break<Args> (&breaks)[N]) {
  for (const Break<Args> &broken : breaks) {
    CAPTURE(broken.name);
    Args args = good;
    broken.breakIt(args);
    CHECK(call(engine, &args, nullptr, nullptr) == broken.status);
    CAPTURE(lastError());
    CHECK(lastErrorHas(broken.message));
  }
}

} // namespace kiln::testing
