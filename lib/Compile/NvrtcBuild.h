//===- NvrtcBuild.h - which build of NVRTC is loaded ----------------------===//
#pragma once

#include <string>

namespace kiln {

/// Tells builds of one version apart. A part is empty where the library does
/// not tell it.
struct NvrtcBuild {
  std::string patch; ///< "88" of 13.0.88
  std::string id;    ///< the GNU build id in hexadecimal
};

/// Looks through the loaded library that has \p function. Its NVRTC tells the
/// version \p major.\p minor. No function of NVRTC tells more. Thread-safe.
/// Costs 1 to 6 ms, and reads 10 MB that the loader may not have read yet.
NvrtcBuild findNvrtcBuild(const void *function, int major, int minor);

} // namespace kiln
