//===- TranslationUnit.h - a text to compile, and its key -----------------===//
#pragma once

#include "Compile/EmbeddedSources.h"
#include "Support/Hash.h"

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/Support/Error.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln {

/// The parts of a translation unit: a text and everything else that decides its
/// cubin.
struct UnitParts {
  /// A bare name for logs and diagnostics, e.g. "kiln_gemm_mma": letters,
  /// digits, '_', '-' and '.'; at most 200. Never a path: NVRTC would search
  /// its directory for headers.
  std::string name;
  std::string source;
  /// The set in which `source` finds its includes by root-relative name; may be
  /// null. Only files that it reaches count: see SourceSet::closureOf.
  std::shared_ptr<const SourceSet> headers;
  /// A real architecture: "sm_90", "sm_90a", "sm_100f".
  std::string arch;
  /// Options that change the cubin, from the list that checkOption() allows.
  std::vector<std::string> options;
  /// Name of the kernel; the artifact reports its resources.
  std::string entry = "kilnEntry";
  /// False: an artifact that spills registers is useless, because another
  /// config will not. True for kernels without an alternative: the fallback of
  /// a signature, a reference, a tool. It decides about the artifact and not
  /// about the cubin, so it is not part of the key; units of one key agree
  /// about it.
  bool maySpill = false;
};

/// One CUDA C++ text with one extern "C" kernel. Immutable and thread-safe;
/// copies share parts and digest, and cost nothing. Another unit is made from a
/// copy of the parts.
class TranslationUnit {
public:
  explicit TranslationUnit(UnitParts parts);

  const UnitParts &parts() const;
  const std::string &name() const { return parts().name; }
  const std::string &source() const { return parts().source; }
  const std::string &arch() const { return parts().arch; }
  llvm::ArrayRef<std::string> options() const { return parts().options; }
  const std::string &entry() const { return parts().entry; }
  bool maySpill() const { return parts().maySpill; }

  /// The headers that the source reaches; lives as long as the unit. The first
  /// unit that reaches a file hashes it: about 4 us per KiB.
  const SourceClosure &headers() const;

  /// The text of the artifact's key: source, digest of the headers that it
  /// reaches, architecture, options in a canonical order, entry. Holds no path,
  /// no time, no state of the process, no driver or compiler version; `name` is
  /// left out unless an option puts it into the cubin. Tokens of source and
  /// headers count, but not their comments, blanks and lines (keyText()),
  /// unless the cubin depends on lines: -lineinfo is among the options, or one
  /// of the texts asks for its line (dependsOnLines()). Then the texts count as
  /// the compiler gets them.
  std::string canonicalText() const;

  /// SHA-256 of canonicalText(), made by the first call for this unit or a copy
  /// of it, in about 4 us per KiB of source, and remembered.
  const Digest &digest() const;

private:
  struct Shared;
  std::shared_ptr<Shared> shared;
};

/// Succeeds when \p option may be passed on: -lineinfo, --use_fast_math,
/// --fmad=true|false, --maxrregcount=16..255, spelled exactly so. Any other
/// option, and so any option that reads a file, is InvalidArgument.
llvm::Error checkOption(llvm::StringRef option);

/// Succeeds when \p arch is spelled like a real architecture: sm_ and two or
/// three digits, then nothing, 'a' or 'f'. Whether a compiler knows it is
/// another question: see Nvrtc::checkSupports.
llvm::Error checkArch(llvm::StringRef arch);

/// Checks every field of \p unit before it reaches a compiler. Errors:
/// InvalidArgument with the offending value.
llvm::Error validate(const TranslationUnit &unit);

} // namespace kiln
