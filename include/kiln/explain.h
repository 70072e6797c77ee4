//===- explain.h - why a kernel is chosen, and what else there is ---------===//
//
// The texts and rankings of `kiln explain` and `kiln plan`, and the keys of
// stored entries. No function here compiles, measures, loads or launches, and
// none changes what a launch takes. Each asks about the device of a stream, or,
// in an engine with a device_model, about that one: then no GPU is needed, and
// the stream is ignored. The rules at the head of kiln.h hold.
//
// kiln_explain and kiln_candidates ask about one problem. Where a problem has
// ranges, that is the one at the hint of each range; a range without a hint is
// taken at its last value.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_EXPLAIN_H
#define KILN_EXPLAIN_H

#include "kiln/engine.h"
#include "kiln/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t kiln_text_format;
enum kiln_text_format_value {
  KILN_TEXT_PLAIN = 0, ///< lines for people, as the tool prints them
  KILN_TEXT_JSON = 10  ///< one document, as the tool's --json
};

/// Options of the calls of this header. Null options are the defaults.
typedef struct kiln_explain_options {
  uint32_t struct_size;
  uint32_t flags;          ///< none yet
  kiln_text_format format; ///< of a text; kiln_candidates writes none
  uint32_t reserved0;
  /// For kiln_explain alone: the text of the config that is explained; null:
  /// the first choice.
  const char *config;
  uint64_t reserved[5];
} kiln_explain_options;

/// Writes how the predicted time of the estimator's first choice, or of the
/// config of \p options, comes about, what other knobs, sizes and devices would
/// change, what sets it apart from the runner-up, why it is generic where it
/// is, and what the cache has: the registers that the compiler took, and the
/// portfolio. All that `kiln explain` prints, byte for byte, except the time of
/// another GPU, which only the tool looks up.
///
/// Waits for nothing but reads of the cache: some ten rankings, some 10 ms.
/// Thread-safe. Everything is copied: the
/// text is written as kiln_problem_text writes, and each of its lines ends.
/// Errors: as of kiln_query; KILN_INVALID_ARGUMENT for an empty problem and for
/// an unknown config; KILN_NO_CANDIDATE; KILN_UNSUPPORTED for another format.
KILN_API kiln_status kiln_explain(kiln_engine *engine,
                                  const kiln_problem *problem,
                                  kiln_stream stream,
                                  const kiln_explain_options *options,
                                  char *buffer, size_t capacity,
                                  size_t *length) KILN_NOEXCEPT;

enum kiln_candidate_flag {
  /// A plan of it is loaded in the stream's context, for this problem or one
  /// that shares its kernels. Never set where a device_model is asked about.
  KILN_CANDIDATE_LOADED = 1,
  /// The cache on disk has a file for each of its kernels.
  KILN_CANDIDATE_ON_DISK = 2,
  /// Trials found its kernel wrong on such devices: no mode launches it.
  KILN_CANDIDATE_WRONG = 4,
  /// Its template serves the problems that no other template does.
  KILN_CANDIDATE_GENERIC = 8
};

#define KILN_CONFIG_TEXT_BYTES 192

/// One config that may run a problem.
typedef struct kiln_candidate {
  uint32_t struct_size;
  uint32_t rank;  ///< by the estimate, from 1
  uint32_t flags; ///< kiln_candidate_flag
  uint32_t reserved0;
  double predicted_us;
  /// The time that the cache has for today's kernel at this very problem; 0:
  /// not measured.
  double measured_us;
  char config[KILN_CONFIG_TEXT_BYTES]; ///< ended by a null byte
  uint64_t reserved[5];
} kiln_candidate;

/// Fills \p candidates with the first \p capacity of a problem's ranking, best
/// first, as `kiln plan` shows it, and sets \p count (may be null) to the whole
/// ranking's length, which is 0 for an empty problem. The first element's
/// struct_size is the array's stride, and the call sets that of the others.
///
/// Waits for nothing but reads of the cache: a ranking, a few milliseconds, and
/// some 10 us for each element. Thread-safe. \p candidates are the caller's and
/// may be null with capacity 0, which asks for the count only. Errors: as of
/// kiln_query; KILN_INVALID_ARGUMENT for null, for a stride that is no multiple
/// of 8, and for options with a config or a format; KILN_NO_CANDIDATE;
/// KILN_INTERNAL for a config whose text has no room. After an error no element
/// is to be read.
KILN_API kiln_status kiln_candidates(
    kiln_engine *engine, const kiln_problem *problem, kiln_stream stream,
    const kiln_explain_options *options, kiln_candidate *candidates,
    size_t capacity, size_t *count) KILN_NOEXCEPT;

/// Writes the keys of a problem's stored entries: its record and the artifacts
/// that serve it. With ranges each part of the values that has a signature of
/// its own has a record, and its artifacts are those of the portfolio that the
/// cache has for the part. Without ranges the artifacts are those of the stored
/// choice, or else of the estimator's first choice. A part without a portfolio
/// in the cache names no artifacts: they are not known before they are chosen.
/// Plain text has a line for each: "record" or "artifact", the entry's file
/// name without its suffix (SHA-256), and its name in `kiln cache ls`. JSON has
/// the keys themselves too, and whether an artifact is on disk.
///
/// Waits for nothing but reads of the cache: some milliseconds. Thread-safe.
/// Everything is copied: the text is written as kiln_problem_text writes.
/// Errors: as of kiln_query; KILN_INVALID_ARGUMENT for options with a config;
/// KILN_UNSUPPORTED for another format.
KILN_API kiln_status kiln_problem_keys(kiln_engine *engine,
                                       const kiln_problem *problem,
                                       kiln_stream stream,
                                       const kiln_explain_options *options,
                                       char *buffer, size_t capacity,
                                       size_t *length) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_EXPLAIN_H
