//===- packs.h - packs and templates, reserved ----------------------------===//
//
// Declared so that the interface need not change when they are built; until
// then each function returns KILN_UNSUPPORTED. Included by kiln.h, whose head
// states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_PACKS_H
#define KILN_PACKS_H

#include "kiln/types.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_pack_options {
  uint32_t struct_size;
  uint32_t flags; ///< none yet
  /// Key of the authentication code (MAC) that vouches for a pack from
  /// elsewhere; null: the file must belong to this user or root.
  const uint8_t *mac_key;
  size_t mac_key_bytes;
  uint64_t reserved[8];
} kiln_pack_options;

/// Verifies a pack and adds it as a read tier of the engine: the other answer
/// to KILN_MISSING, beside a warm-up. Reserved: KILN_UNSUPPORTED.
KILN_API kiln_status kiln_pack_import(kiln_engine *engine, const char *path,
                                      const kiln_pack_options *options)
    KILN_NOEXCEPT;

/// Writes the artifacts that \p problems need on this device into one file;
/// with count 0 all entries of the cache. Reserved: KILN_UNSUPPORTED.
KILN_API kiln_status kiln_pack_export(
    kiln_engine *engine, const char *path, const kiln_problem *problems,
    size_t count, const kiln_pack_options *options) KILN_NOEXCEPT;

/// A kernel source of the caller's with its configs.
typedef struct kiln_template {
  uint32_t struct_size;
  uint32_t source_count;
  const char *name;     ///< unique in the engine
  const char *manifest; ///< JSON: family, knobs, constraints, operands
  const char *const *source_names; ///< as the sources include each other
  const char *const *sources;
  uint32_t flags; ///< none yet
  uint32_t reserved0;
  uint64_t reserved[8];
} kiln_template;

/// Adds a template to the engine: it competes with Kiln's own.
/// Reserved: KILN_UNSUPPORTED.
KILN_API kiln_status kiln_register_template(
    kiln_engine *engine, const kiln_template *user_template) KILN_NOEXCEPT;

#ifdef __cplusplus
} // extern "C"
#endif

#endif // KILN_PACKS_H
