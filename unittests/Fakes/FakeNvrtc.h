//===- FakeNvrtc.h - control of libkiln_fake_nvrtc.so ---------------------===//
//
// A compiler that compiles nothing: it exports the functions of NVRTC that Kiln
// uses, checks its arguments as NVRTC does, and gives as the cubin an ELF
// header followed by the source text, which the fake driver reads back. Its
// library lies in <build>/lib; point KILN_NVRTC at it.
//
// Its destructors are strict: the process aborts if they run while a
// compilation does, or if anything is compiled behind them. It registers one
// when it is loaded, and more in the midst of every compilation.
//
// For programs that cannot be controlled, the environment: KILN_FAKE_NVRTC may
// be "exit" (compiling calls exit(0)) or "hang" (it never ends); then the file
// that KILN_FAKE_NVRTC_MARK names is made first.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <dlfcn.h>
#include <string>
#include <type_traits>

/// State is global to the process; every function is thread-safe.
extern "C" {
/// Back to how the library was loaded, counts included.
void kilnFakeNvrtcReset();
/// Sources that contain \p needle fail with NVRTC_ERROR_COMPILATION and \p log.
/// "#error" always fails.
void kilnFakeNvrtcFailWhen(const char *needle, const char *log);
/// Compiling a source that contains \p needle ("" is any) takes \p ms.
void kilnFakeNvrtcDelayWhen(const char *needle, int ms);
/// Compiling a source that contains \p needle ("" is any) does not end before
/// release.
void kilnFakeNvrtcHoldWhen(const char *needle);
/// Ends all holding; so does reset.
void kilnFakeNvrtcRelease();
/// Compilations that are held now.
int kilnFakeNvrtcHeldCount();
/// Text that every successful log ends with: advisories, warnings.
void kilnFakeNvrtcAppendLog(const char *text);
/// Resources of the entry in the log; 40, 0, 0 at first.
void kilnFakeNvrtcSetUsage(int registers, int spillBytes, int sharedBytes);
/// Sources that contain \p needle spill \p bytes.
void kilnFakeNvrtcSpillWhen(const char *needle, int bytes);
/// Every compilation returns \p bytes of \p cubin, whatever these are, in place
/// of its own.
void kilnFakeNvrtcReturnCubin(const char *cubin, size_t bytes);
/// Compilations tell \p bytes as the size of cubin and log; 0 is the true one.
void kilnFakeNvrtcClaimSize(size_t bytes);
/// The answer of nvrtcVersion; 13.0 at first, of which the build is 99.
void kilnFakeNvrtcSetVersion(int major, int minor);
/// Calls of nvrtcCompileProgram so far.
int kilnFakeNvrtcCompileCount();
/// Calls of nvrtcCompileProgram that run now.
int kilnFakeNvrtcRunning();
/// The most calls of nvrtcCompileProgram that ran at once.
int kilnFakeNvrtcMostConcurrent();
/// Options of the last call, each followed by a newline. Valid until the next.
const char *kilnFakeNvrtcLastOptions();
}

/// The control functions of a loaded fake; the library stays loaded.
struct FakeNvrtc {
  decltype(&kilnFakeNvrtcReset) reset = nullptr;
  decltype(&kilnFakeNvrtcFailWhen) failWhen = nullptr;
  decltype(&kilnFakeNvrtcDelayWhen) delayWhen = nullptr;
  decltype(&kilnFakeNvrtcHoldWhen) holdWhen = nullptr;
  decltype(&kilnFakeNvrtcRelease) release = nullptr;
  decltype(&kilnFakeNvrtcHeldCount) heldCount = nullptr;
  decltype(&kilnFakeNvrtcAppendLog) appendLog = nullptr;
  decltype(&kilnFakeNvrtcSetUsage) setUsage = nullptr;
  decltype(&kilnFakeNvrtcSpillWhen) spillWhen = nullptr;
  decltype(&kilnFakeNvrtcReturnCubin) returnCubin = nullptr;
  decltype(&kilnFakeNvrtcClaimSize) claimSize = nullptr;
  decltype(&kilnFakeNvrtcSetVersion) setVersion = nullptr;
  decltype(&kilnFakeNvrtcCompileCount) compileCount = nullptr;
  decltype(&kilnFakeNvrtcMostConcurrent) mostConcurrent = nullptr;
  decltype(&kilnFakeNvrtcLastOptions) lastOptions = nullptr;

  /// Path of the library in the build folder \p binaryDir.
  static std::string path(const std::string &binaryDir) {
    return binaryDir + "/lib/libkiln_fake_nvrtc.so";
  }

  /// Opens the fake of \p binaryDir, the same that a Compiler opens, and resets
  /// it. All members are null when it does not open.
  static FakeNvrtc open(const std::string &binaryDir) {
    return openFile(path(binaryDir));
  }

  /// As above for one file; a copy of the library has a state of its own.
  static FakeNvrtc openFile(const std::string &file) {
    FakeNvrtc fake;
    void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return fake;
    auto bind = [library](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(
          dlsym(library, name));
    };
    bind(fake.reset, "kilnFakeNvrtcReset");
    bind(fake.failWhen, "kilnFakeNvrtcFailWhen");
    bind(fake.delayWhen, "kilnFakeNvrtcDelayWhen");
    bind(fake.holdWhen, "kilnFakeNvrtcHoldWhen");
    bind(fake.release, "kilnFakeNvrtcRelease");
    bind(fake.heldCount, "kilnFakeNvrtcHeldCount");
    bind(fake.appendLog, "kilnFakeNvrtcAppendLog");
    bind(fake.setUsage, "kilnFakeNvrtcSetUsage");
    bind(fake.spillWhen, "kilnFakeNvrtcSpillWhen");
    bind(fake.returnCubin, "kilnFakeNvrtcReturnCubin");
    bind(fake.claimSize, "kilnFakeNvrtcClaimSize");
    bind(fake.setVersion, "kilnFakeNvrtcSetVersion");
    bind(fake.compileCount, "kilnFakeNvrtcCompileCount");
    bind(fake.mostConcurrent, "kilnFakeNvrtcMostConcurrent");
    bind(fake.lastOptions, "kilnFakeNvrtcLastOptions");
    fake.reset();
    return fake;
  }
};
