//===- types.h - values and structs that all of Kiln's C interface shares -===//
//
// Enumerations, handles, operands, scales, problems, arguments and workspaces.
// gemm.h, attention.h, rope.h, rows.h, gather.h, sample.h, allreduce.h and
// prepack.h have the structs of the families. Included by kiln.h, whose head
// states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_TYPES_H
#define KILN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifndef KILN_API
#if defined(__GNUC__) || defined(__clang__)
#define KILN_API __attribute__((visibility("default")))
#else
#define KILN_API
#endif
#endif

#ifdef __cplusplus
#define KILN_NOEXCEPT noexcept
#else
#define KILN_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

/// The outcome of a call; each comment says what the caller does next.
typedef int32_t kiln_status;
enum kiln_status_value {
  /// Done; for a launch: enqueued, or nothing to do.
  KILN_SUCCESS = 0,
  /// Fix the argument that the message names; a retry fails again.
  KILN_INVALID_ARGUMENT = 10,
  /// Choose another problem or option, or upgrade Kiln.
  KILN_UNSUPPORTED = 20,
  /// Call kiln_prepare (or the same function) outside of the capture, retry.
  KILN_NOT_PREPARED = 30,
  /// Strict mode has no kernel for this: warm the cache up with the problem in
  /// the message, retry.
  KILN_MISSING = 40,
  /// Work goes on: poll or wait again.
  KILN_IN_PROGRESS = 50,
  /// The caller cancelled it; the work that was finished before is kept.
  KILN_CANCELLED = 60,
  /// Install the NVIDIA driver; without one, name a device model and prepare
  /// with KILN_PREPARE_COMPILE_ONLY.
  KILN_DRIVER_MISSING = 70,
  /// Upgrade the driver, or compile with an older NVRTC.
  KILN_DRIVER_TOO_OLD = 80,
  /// Install NVRTC, or name it (nvrtc_path, KILN_NVRTC), or fill the cache
  /// elsewhere.
  KILN_COMPILER_MISSING = 90,
  /// Read the compiler's log in the message; report it unless the template is
  /// yours.
  KILN_COMPILE_FAILED = 100,
  /// Free host memory, retry.
  KILN_OUT_OF_MEMORY = 110,
  /// Free device memory or lower the limits of the engine, retry.
  KILN_DEVICE_OUT_OF_MEMORY = 120,
  /// No kernel computes this problem correctly on this device: compute it
  /// elsewhere.
  KILN_NO_CANDIDATE = 130,
  /// The driver refused a call: see kiln_last_driver_error.
  KILN_DRIVER_ERROR = 140,
  /// An earlier fault, most often of another kernel, killed the context:
  /// destroy the context and start the process again. Do not retry.
  KILN_CONTEXT_DEAD = 150,
  /// Look at the path in the message. Never returned by a launch: a cache that
  /// cannot be read or written only costs time.
  KILN_IO = 160,
  /// Report a bug with the message.
  KILN_INTERNAL = 170
};

/// Element types. The value is (bits << 8) | id, so a caller can read the width
/// of a type from it. The types of the second group serve scales, zero points
/// and packed weights.
typedef int32_t kiln_dtype;
enum kiln_dtype_value {
  KILN_DTYPE_NONE = 0, ///< the default that the field's comment names
  KILN_FP32 = 0x2001,
  KILN_INT32 = 0x2011,
  KILN_INT64 = 0x4011, ///< for indices, counts and seeds alone
  KILN_FP16 = 0x1001,
  KILN_BF16 = 0x1002,
  KILN_E4M3 = 0x0801,
  KILN_E5M2 = 0x0802,
  KILN_INT8 = 0x0811,

  KILN_E8M0 = 0x0803, ///< exponent only, for block scales
  KILN_E2M1 = 0x0401, ///< two elements a byte, the first in the low half
  KILN_INT4 = 0x0411  ///< two elements a byte, the first in the low half
};

/// One operation of a pointwise chain, which is the epilogue of a GEMM or all
/// of an elementwise call. Operations work on fp32 values. A vector has an
/// entry for each column or row. A GEMM takes the operations up to
/// KILN_POINTWISE_SILU and those from KILN_POINTWISE_SWIGLU on; its others are
/// reserved: KILN_UNSUPPORTED. An elementwise chain takes those before
/// KILN_POINTWISE_SWIGLU.
typedef int32_t kiln_pointwise_op;
enum kiln_pointwise_op_value {
  KILN_POINTWISE_NONE = 0,
  KILN_POINTWISE_BIAS = 10,     ///< x + vector[column]
  KILN_POINTWISE_RESIDUAL = 20, ///< x + matrix[row, column]
  KILN_POINTWISE_RELU = 30,
  KILN_POINTWISE_GELU_ERF = 40,      ///< x/2 (1 + erf(x / sqrt 2))
  KILN_POINTWISE_GELU_TANH = 50,     ///< its approximation by tanh
  KILN_POINTWISE_SILU = 60,          ///< x / (1 + exp(-x))
  KILN_POINTWISE_MUL = 70,           ///< x * matrix[row, column]
  KILN_POINTWISE_SCALE = 80,         ///< x * params[0]
  KILN_POINTWISE_ROW_BIAS = 90,      ///< x + vector[row]
  KILN_POINTWISE_COLUMN_SCALE = 100, ///< x * vector[column]
  KILN_POINTWISE_ROW_SCALE = 110,    ///< x * vector[row]
  /// silu(x) * y of columns 2j (x) and 2j + 1 (y) becomes column j: later links
  /// and D have half as many columns.
  KILN_POINTWISE_SWIGLU = 120,
  /// The SwiGLU of gpt-oss: g * sigmoid(1.702 g) * (u + 1), with g = min(x, 7)
  /// and u = y clamped to -7 to 7. Otherwise as KILN_POINTWISE_SWIGLU.
  KILN_POINTWISE_SWIGLU_CLAMPED = 130
};

/// Which runs must give the same bits for the same inputs.
typedef int32_t kiln_determinism;
enum kiln_determinism_value {
  /// Runs of one plan. Tuning may choose another plan for an equal problem
  /// later, or in another process.
  KILN_DETERMINISM_SAME_PLAN = 0,
  /// Runs of equal problems in all processes whose engines have equal caches,
  /// options and device models: see kiln_engine_options.determinism. In a call
  /// or a problem it demands such an engine; others refuse it:
  /// KILN_UNSUPPORTED.
  KILN_DETERMINISM_FROZEN_CHOICE = 10,
  /// A row of the result has the same bits whatever the number of rows, the
  /// batch and its place in them are. May cost speed with few rows. Reserved:
  /// KILN_UNSUPPORTED.
  KILN_DETERMINISM_BATCH_INVARIANT = 20
};

/// The action if a problem has no kernel yet. docs/design.md, "The order of
/// choice", lists what each mode takes first.
typedef int32_t kiln_mode;
enum kiln_mode_value {
  /// The first call of a layer, which is a problem without the value of its
  /// dynamic extent, compiles and measures, within the budget, kernels that
  /// serve all values of that extent. Plans that a warm-up stored are launched
  /// unmeasured until kiln_prepare measures.
  KILN_MODE_TUNE = 0,
  /// A first call may compile one kernel: no trials.
  KILN_MODE_PREDICT = 10,
  /// A call waits for a compilation only if nothing is loaded for its
  /// signature, which is the first call with its types, layouts and alignments.
  /// Threads of the engine compile and measure better kernels, with a share of
  /// the GPU's time (background_permille), and put them in place of the first.
  /// kiln_prepare and kiln_plan_acquire wait for the estimator's choice, not
  /// for trials. See background.h.
  KILN_MODE_BACKGROUND = 20,
  /// Nothing is compiled or measured: KILN_MISSING. For production.
  KILN_MODE_STRICT = 30
};

/// The kinds of problems, with the struct that describes one.
typedef int32_t kiln_family;
enum kiln_family_value {
  KILN_FAMILY_FROM_TEXT = 0,        ///< the problem's text names it
  KILN_FAMILY_GEMM = 10,            ///< kiln_gemm_args
  KILN_FAMILY_ATTENTION = 40,       ///< kiln_attention_args
  KILN_FAMILY_ATTENTION_MERGE = 45, ///< kiln_attention_merge_args
  KILN_FAMILY_ROPE = 50,            ///< kiln_rope_args
  KILN_FAMILY_ELEMENTWISE = 60,     ///< kiln_elementwise_args
  KILN_FAMILY_REDUCTION = 70,       ///< kiln_reduce_args
  KILN_FAMILY_SOFTMAX = 80,         ///< kiln_softmax_args
  KILN_FAMILY_LAYER_NORM = 90,      ///< kiln_norm_args
  KILN_FAMILY_RMS_NORM = 100,       ///< kiln_norm_args
  KILN_FAMILY_QUANTIZE = 110,       ///< kiln_quantize_args
  KILN_FAMILY_TRANSPOSE = 120,      ///< kiln_transpose_args
  KILN_FAMILY_PREPACK = 130,        ///< kiln_prepack_args
  KILN_FAMILY_GATHER = 140,         ///< kiln_gather_args
  KILN_FAMILY_SAMPLE = 150,         ///< kiln_sample_args
  KILN_FAMILY_ROUTE = 160,          ///< kiln_route_args
  KILN_FAMILY_COMBINE = 170,        ///< kiln_combine_args
  KILN_FAMILY_ALLREDUCE = 180       ///< kiln_allreduce_args
};

/// How far a problem is. Launches never wait for a state to improve.
typedef int32_t kiln_state;
enum kiln_state_value {
  KILN_STATE_MISSING = 0,    ///< no kernel yet; a launch does as the mode says
  KILN_STATE_COMPILING = 10, ///< being compiled, nothing to launch yet
  KILN_STATE_TUNING = 20,    ///< trials are running
  KILN_STATE_FALLBACK = 30,  ///< launches with a generic or untuned kernel
  KILN_STATE_READY = 40      ///< launches with the final choice
};

/// Where a choice comes from, in order of preference.
typedef int32_t kiln_source;
enum kiln_source_value {
  KILN_SOURCE_NONE = 0,
  KILN_SOURCE_RECORD = 10,   ///< measured on a device of this class
  KILN_SOURCE_DECISION = 20, ///< the estimator's, stored earlier
  KILN_SOURCE_ESTIMATE = 30, ///< the estimator's, just now
  KILN_SOURCE_GENERIC = 40,  ///< the generic kernel of the signature
  KILN_SOURCE_STAND_IN = 50  ///< a loaded plan, until there is a better one
};

typedef int32_t kiln_log_level;
enum kiln_log_level_value {
  KILN_LOG_DEFAULT = 0, ///< as a threshold: KILN_LOG_INFO
  KILN_LOG_DEBUG = 10,
  KILN_LOG_INFO = 20,
  KILN_LOG_WARNING = 30,
  KILN_LOG_ERROR = 40
};

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

/// Everything Kiln holds: dispatch table, loaded kernels, cache, options.
typedef struct kiln_engine kiln_engine;
/// One chosen and loaded way to compute one problem in one context.
typedef struct kiln_plan kiln_plan;
/// A kiln_prepare that runs beside the caller.
typedef struct kiln_task kiln_task;
/// The same type as CUstream and cudaStream_t.
typedef struct CUstream_st *kiln_stream;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// How many elements share one scale.
typedef int32_t kiln_granularity;
enum kiln_granularity_value {
  KILN_GRANULARITY_NONE = 0,   ///< there are no scales
  KILN_GRANULARITY_TENSOR = 5, ///< one scale for all: per-tensor
  /// One per row of the operand as stored. Per-token for activations [m, k],
  /// per-channel for weights stored [n, k].
  KILN_GRANULARITY_ROW = 10,
  /// One per column of the operand as stored. Per-channel for weights stored
  /// [k, n].
  KILN_GRANULARITY_COLUMN = 20,
  KILN_GRANULARITY_BLOCK = 30, ///< per-block: block_rows x block_columns
  KILN_GRANULARITY_HEAD = 40   ///< one per head of K (attention.h)
};

/// Scales, which the elements of an operand are multiplied by, or zero points,
/// which are subtracted from them. The struct that it is embedded in says which
/// granularities work, and whether a launch reads or writes them. It is always
/// embedded by value: it never changes its size, and its struct_size may stay
/// 0. It is present when its granularity is not KILN_GRANULARITY_NONE. In an
/// absent one no other field may be set, nor in a problem that is only
/// described: a granularity that was forgotten is KILN_INVALID_ARGUMENT.
typedef struct kiln_scale {
  uint32_t struct_size;
  kiln_dtype type; ///< of one scale; KILN_DTYPE_NONE: fp32 as a rule
  /// Device memory, aligned to one scale at least, and not null unless the
  /// launch has nothing to do. Ignored where a problem is only described.
  void *data;
  kiln_granularity granularity;
  int32_t block_rows, block_columns; ///< of elements, for blocks only
  uint32_t reserved0;
  int64_t row_stride; ///< between scales of neighbouring rows, in scales
  int64_t column_stride;
  int64_t batch_stride; ///< not negative; 0: shared by the whole batch
  uint64_t reserved[2];
} kiln_scale;

enum kiln_operand_flag {
  /// The content never changes while the engine lives (weights), so Kiln may
  /// assume that repeated launches find it in cache, or keep a packed copy.
  KILN_OPERAND_CONSTANT = 1
};

/// A matrix, a batch of matrices or a vector in device memory. It is always
/// embedded by value: it never changes its size, and its struct_size may stay
/// 0.
typedef struct kiln_operand {
  uint32_t struct_size;
  kiln_dtype type;
  /// First element; aligned to one element at least, and not null unless the
  /// launch has nothing to do. Ignored where a problem is only described.
  void *data;
  /// Elements from one row, as stored, to the next; 0: rows are packed. May not
  /// be negative or less than a row.
  int64_t leading_dim;
  /// Elements from one matrix of the batch to the next, not negative and at
  /// most 2^40. 0: the whole batch uses one input matrix. An output may not
  /// have 0 with batch > 1, nor with a range over batch that goes beyond 1. A
  /// launch with batch > 1 refuses an output whose stride is less than (rows -
  /// 1) * leading_dim + columns: its matrices would overlap.
  int64_t batch_stride;
  /// Bytes by which every address used for this operand will be aligned, a
  /// power of two. 0: as `data` is aligned, or 16 where the problem is only
  /// described. Leading dimensions and strides are taken into account anyway.
  uint32_t alignment;
  uint32_t flags; ///< kiln_operand_flag
  uint64_t reserved[2];
} kiln_operand;

/// Length limit of a pointwise chain.
#define KILN_MAX_POINTWISE 8

/// One link of a pointwise chain.
typedef struct kiln_pointwise {
  uint32_t struct_size;
  kiln_pointwise_op op;
  /// The matrix or vector that the operation reads, if any. Its type may stay
  /// KILN_DTYPE_NONE: D's in a GEMM, x's in an elementwise chain, which is the
  /// only one allowed.
  kiln_operand operand;
  float params[4]; ///< [0]: the factor of KILN_POINTWISE_SCALE; zero otherwise
  uint64_t reserved[2];
} kiln_pointwise;

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Flags of one launch: in `flags` of the struct of any family, beside those of
/// the family, or of kiln_arguments. Ignored where a problem is only described.
enum kiln_call_flag {
  /// The launch may begin before the kernel ahead of it in the stream has ended
  /// (programmatic dependent launch). Its kernel waits for that one before it
  /// reads or writes anything but operands with KILN_OPERAND_CONSTANT, or that
  /// a flag of its family calls complete, which it may read at once. These have
  /// to be complete: neither the last launch of this stream that was ordered in
  /// full nor work behind it may write them; a copy or a memset may, where it
  /// is the last work ahead. The launch is ordered in full where no kernel is
  /// ahead of it, on GPUs before sm_90, and where the overlap would not pay.
  /// docs/api.md says what may stand around it.
  KILN_CALL_DEPENDENT = 0x10000
};

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

/// Values that a dynamic extent will take. All of them are served by one set of
/// kernels, the best of which is chosen at each value.
typedef struct kiln_range {
  uint32_t struct_size;
  uint32_t flags;      ///< none yet
  const char *name;    ///< as in a problem's text: "m" or "batch" for gemm,
                       ///< "rows" for families of rows.h, "tokens" for
                       ///< those of moe.h, "batch", "sq" or "sk" for
                       ///< attention
  int64_t first, last; ///< both included
  int64_t hint;        ///< the most common value; 0: none
  uint64_t reserved[2];
} kiln_range;

/// A problem, described by text or by its family's struct. Addresses in it are
/// ignored.
typedef struct kiln_problem {
  uint32_t struct_size;
  kiln_family family;
  /// "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=NT pointwise=bias,gelu_tanh";
  /// with family 0, or null. docs/api.md lists the keys.
  const char *text;
  const void *args;         ///< the family's struct, or null
  const kiln_range *ranges; ///< null: the extents are exactly as given
  uint32_t range_count;
  uint32_t flags; ///< none yet
  uint64_t reserved[4];
} kiln_problem;

/// The values that vary between launches of one problem, of any family.
typedef struct kiln_arguments {
  uint32_t struct_size;
  uint32_t operand_count; ///< length of operands; later slots are null
  /// Device addresses by slot: kiln_gemm_slot and its like in the headers of
  /// other families, or kiln_operand_info.slot. Slots that the problem does not
  /// use are ignored.
  void *const *operands;
  /// Scalars passed by value, in the family's order (gemm: alpha, beta;
  /// attention: scale, softcap; other families have one or none); null: the
  /// scalars of the problem. A plan made with beta == 0 reads no C: its beta
  /// stays 0.
  const double *scalars;
  /// Values of the problem's dynamic extents, in the order of its ranges. An
  /// extent that is not given, because this is null or extent_count is less,
  /// keeps the value with which the problem was described, which then has to be
  /// inside its range. Only for a problem with ranges.
  const int64_t *extents;
  uint32_t scalar_count;
  uint32_t extent_count;
  uint32_t flags; ///< kiln_call_flag
  uint32_t reserved0;
  /// A bit for each slot whose operand is KILN_OPERAND_CONSTANT, in addition to
  /// the operands that the problem was described with as constant.
  uint64_t constants;
  uint64_t reserved[2];
} kiln_arguments;

//===----------------------------------------------------------------------===//
// Workspace
//===----------------------------------------------------------------------===//

/// The workspace that a launch needs: a region that is zero between launches,
/// then, from a multiple of 256 bytes on, a region whose content does not
/// matter.
typedef struct kiln_workspace_info {
  uint32_t struct_size;
  uint32_t alignment;    ///< bytes; at most 256
  uint64_t bytes;        ///< of both regions; 0: none is needed
  uint64_t zeroed_bytes; ///< of the first region
  uint64_t reserved[2];
} kiln_workspace_info;

enum kiln_workspace_flag {
  /// The zeroed region is zero. Kernels leave it so: zero it once, then set
  /// this flag on every launch that uses this memory for Kiln only. Without it,
  /// the launch zeroes what it needs itself (a memset more, of up to some MiB).
  KILN_WORKSPACE_ZEROED = 1
};

/// Device memory that belongs to one launch from its call until it completed.
/// Launches of one stream may share it. A workspace that stays zeroed and
/// serves several plans has a zeroed region as large as the largest of their
/// zeroed regions, then a rest as large as their largest rest; zeroed_bytes
/// says where the region ends. Too few bytes or too little alignment is
/// KILN_INVALID_ARGUMENT; without KILN_WORKSPACE_ZEROED an engine's
/// workspace_limit_bytes, aligned to 256, are always enough.
///
/// A launch whose workspace is null takes the arena of its context and stream.
/// The engine makes it in kiln_prepare or at the first use, each region at most
/// workspace_limit_bytes large. It never moves or frees an arena before
/// kiln_engine_destroy. A stream may be destroyed only after such launches have
/// completed: unless a graph holds it, its arena then serves the next stream
/// that the driver gives the handle to. The arena of a thread's
/// CU_STREAM_PER_THREAD serves a later thread when that thread has ended.
typedef struct kiln_workspace {
  uint32_t struct_size;
  uint32_t flags; ///< kiln_workspace_flag
  void *data;     ///< device memory of the stream's context
  uint64_t bytes;
  /// With KILN_WORKSPACE_ZEROED: bytes of the zeroed region; 0: as many as the
  /// plan needs.
  uint64_t zeroed_bytes;
  uint64_t reserved[1];
} kiln_workspace;

#ifdef __cplusplus
} // extern "C"
#endif

//===----------------------------------------------------------------------===//
// Initialisers
//===----------------------------------------------------------------------===//

/// A struct of Kiln's with its size set and all other fields zero.
#ifdef __cplusplus
template <class Struct> inline Struct kiln_init() noexcept {
  Struct result{};
  result.struct_size = static_cast<uint32_t>(sizeof(Struct));
  return result;
}
#define KILN_INIT(type) (kiln_init<type>())
#else
#define KILN_INIT(type) ((type){.struct_size = (uint32_t)sizeof(type)})
#endif

/// One scale of a whole operand at \p data.
static inline kiln_scale kiln_tensor_scale_init(void *data) {
  kiln_scale scale = KILN_INIT(kiln_scale);
  scale.data = data;
  scale.granularity = KILN_GRANULARITY_TENSOR;
  return scale;
}

/// A scale for each row at \p data.
static inline kiln_scale kiln_row_scales_init(void *data) {
  kiln_scale scale = KILN_INIT(kiln_scale);
  scale.data = data;
  scale.granularity = KILN_GRANULARITY_ROW;
  return scale;
}

/// A scale for each block of \p rows x \p columns at \p data, packed.
static inline kiln_scale kiln_block_scales_init(void *data, int32_t rows,
                                                int32_t columns) {
  kiln_scale scale = KILN_INIT(kiln_scale);
  scale.data = data;
  scale.granularity = KILN_GRANULARITY_BLOCK;
  scale.block_rows = rows;
  scale.block_columns = columns;
  return scale;
}

#endif // KILN_TYPES_H
