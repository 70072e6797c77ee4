//===- Signals.h - signals and the threads of a library -------------------===//
#pragma once

#include <csignal>
#include <pthread.h>

namespace kiln {

/// While it lives the calling thread takes no signals, and threads that it
/// starts never do: a handler of the program we are embedded in must not find
/// itself on a thread of ours. Signals that a thread raises by itself are left
/// out, and so is SIGPROF, for profilers.
class SignalsBlocked {
public:
  SignalsBlocked() {
    sigset_t signals;
    ::sigfillset(&signals);
    for (int kept :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF})
      ::sigdelset(&signals, kept);
    isBlocked = ::pthread_sigmask(SIG_SETMASK, &signals, &before) == 0;
  }
  ~SignalsBlocked() {
    if (isBlocked)
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

private:
  sigset_t before;
  bool isBlocked = false;
};

} // namespace kiln
