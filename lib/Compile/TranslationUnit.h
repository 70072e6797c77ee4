//===- TranslationUnit.h - what is compiled, as plain data ----------------===//
#pragma once

#include "Compile/EmbeddedSources.h"
#include "Support/Hash.h"

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln {

/// One CUDA C++ text with one extern "C" kernel, and everything else that
/// decides the cubin it becomes. A plain value.
struct TranslationUnit {
  /// A bare name for logs and diagnostics, e.g. "kiln_gemm_mma": letters,
  /// digits, '_', '-' and '.'; at most 200. Never a path: NVRTC would search
  /// its directory for headers.
  std::string name;
  std::string source;
  /// Headers that `source` includes by root-relative name; may be null.
  std::shared_ptr<const SourceSet> headers;
  /// A real architecture: "sm_90", "sm_90a", "sm_100f".
  std::string arch;
  /// Options that change the cubin, from the list that checkOption() allows.
  std::vector<std::string> options;
  /// Name of the kernel whose resources the artifact reports.
  std::string entry = "kilnEntry";
  /// False: an artifact that spills registers is no use, because another config
  /// will not. True of what must be had: the kernel that a signature falls back
  /// to, a reference, a tool. It decides about the artifact and not about the
  /// cubin, so it is not part of the key; units of one key agree about it.
  bool maySpill = false;

  /// What the artifact's key is made of: source, digest of all headers,
  /// architecture, options in a canonical order, entry. Holds no path, no time,
  /// no state of the process, no driver or compiler version; `name` is left out
  /// unless an option puts it into the cubin.
  std::string canonicalText() const;

  /// SHA-256 of canonicalText(); about 4 us per KiB of source.
  Digest digest() const;
};

/// Succeeds when \p option may be passed on: -lineinfo, --use_fast_math,
/// --fmad=true|false, --maxrregcount=16..255, spelled exactly so. Everything
/// else, and with it everything that reads a file, is InvalidArgument.
llvm::Error checkOption(llvm::StringRef option);

/// Succeeds when \p arch is spelled like a real architecture: sm_ and two or
/// three digits, then nothing, 'a' or 'f'. Whether a compiler knows it is
/// another question: see Nvrtc::checkSupports.
llvm::Error checkArch(llvm::StringRef arch);

/// Checks every field of \p unit before it reaches a compiler. Errors:
/// InvalidArgument with the offending value.
llvm::Error validate(const TranslationUnit &unit);

} // namespace kiln
