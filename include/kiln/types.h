//===- types.h - values and structs of Kiln's C interface -----------------===//
//
// What operands, arguments and workspaces look like, and the problems of gemm;
// rows.h and attention.h have those of the other families. Included by kiln.h,
// whose head states the rules that all of it follows.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_TYPES_H
#define KILN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

/// What happened, by what the caller does next.
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
  /// Strict mode has no kernel for this: warm the cache up or import a pack
  /// with the key in the message (kiln_problem_key), retry.
  KILN_MISSING = 40,
  /// Work goes on: poll or wait again.
  KILN_IN_PROGRESS = 50,
  /// The caller cancelled it; what was finished until then is kept.
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

/// Element types. The value is (bits << 8) | id, so the width of a type can be
/// read from it. Of the second group some serve scales and packed weights.
typedef int32_t kiln_dtype;
enum kiln_dtype_value {
  KILN_DTYPE_NONE = 0, ///< the default that the field's comment names
  KILN_FP64 = 0x4001,
  KILN_FP32 = 0x2001,
  KILN_INT32 = 0x2011,
  KILN_FP16 = 0x1001,
  KILN_BF16 = 0x1002,
  KILN_E4M3 = 0x0801,
  KILN_E5M2 = 0x0802,
  KILN_INT8 = 0x0811,

  KILN_INT64 = 0x4011,
  KILN_E8M0 = 0x0803, ///< exponent only, for block scales
  KILN_UINT8 = 0x0812,
  KILN_E3M2 = 0x0601,
  KILN_E2M3 = 0x0602,
  KILN_E2M1 = 0x0401, ///< two elements a byte, the first in the low half
  KILN_INT4 = 0x0411, ///< two elements a byte, the first in the low half
  KILN_UINT4 = 0x0412
};

/// How products are formed. Accumulation is fp32 unless it says else.
typedef int32_t kiln_compute;
enum kiln_compute_value {
  KILN_COMPUTE_NATIVE = 0, ///< of the inputs as they are: exact fp32 for fp32
  KILN_COMPUTE_TF32 = 10,  ///< fp32 inputs rounded to 10 mantissa bits
  /// Products of fp8 are summed in the tensor core alone, which keeps some 13
  /// bits: sums of 4096 products of one sign are off by up to 7 %. Otherwise
  /// they go on to fp32 sums every 128 products.
  KILN_COMPUTE_FAST_FP8 = 20
};

/// Storage of A and B in D[m, n] = A[m, k] B[k, n]. First letter: A is
/// row-major [m, k] (N) or stored [k, m] (T). Second letter: B is stored [k, n]
/// (N) or [n, k] (T; the weight of a linear layer). D is row-major [m, n].
typedef int32_t kiln_layout;
enum kiln_layout_value {
  KILN_LAYOUT_NN = 0,
  KILN_LAYOUT_NT = 10,
  KILN_LAYOUT_TN = 20,
  KILN_LAYOUT_TT = 30
};

/// One operation of a pointwise chain, on fp32 values. A vector has an entry
/// for each column or row. Those from KILN_POINTWISE_MUL to
/// KILN_POINTWISE_ROW_SCALE are for elementwise chains; as links of a gemm they
/// are slots. KILN_POINTWISE_SWIGLU is for a gemm only.
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
  /// silu(x) * y of columns 2j (x) and 2j + 1 (y) becomes column j: what
  /// follows has half as many columns.
  KILN_POINTWISE_SWIGLU = 120
};

/// Which runs must give the same bits for the same inputs.
typedef int32_t kiln_determinism;
enum kiln_determinism_value {
  /// Runs of one plan do. Tuning may choose another plan for an equal problem
  /// later, or in another process.
  KILN_DETERMINISM_SAME_PLAN = 0,
  /// Runs of equal problems do, as long as the cache or pack is the same: the
  /// choice is taken from a record or decision, or is the estimator's, and is
  /// never changed by trials. Slot.
  KILN_DETERMINISM_FROZEN_CHOICE = 10,
  /// A row of D does whatever m, batch and its place in them are. May cost
  /// speed at small m. Slot.
  KILN_DETERMINISM_BATCH_INVARIANT = 20
};

/// The action if a problem has no kernel yet. docs/design.md, "The order of
/// choice", lists what each mode takes first.
typedef int32_t kiln_mode;
enum kiln_mode_value {
  /// The first call of a layer, which is a problem without the value of its
  /// dynamic extent, compiles and measures within the budget what serves all
  /// values of it. Plans that a warm-up stored are launched unmeasured until
  /// kiln_prepare measures.
  KILN_MODE_TUNE = 0,
  /// A first call may compile one kernel: no trials.
  KILN_MODE_PREDICT = 10,
  /// A call waits for a compilation only if nothing is loaded for its
  /// signature, which is the first call with its types, layouts and alignments.
  /// Better kernels are compiled, measured and put in place of what it launched
  /// by threads of the engine's own, with a share of the GPU's time
  /// (background_permille). kiln_prepare and
  /// kiln_plan_acquire wait for the estimator's choice, not for trials. See
  /// "Background" in kiln.h.
  KILN_MODE_BACKGROUND = 20,
  /// Nothing is compiled or measured: KILN_MISSING. For production.
  KILN_MODE_STRICT = 30
};

/// The kinds of problems, with the struct that describes one.
typedef int32_t kiln_family;
enum kiln_family_value {
  KILN_FAMILY_FROM_TEXT = 0,        ///< the problem's text names it
  KILN_FAMILY_GEMM = 10,            ///< kiln_gemm_args
  KILN_FAMILY_GROUPED_GEMM = 20,    ///< slot
  KILN_FAMILY_QUANTIZED_GEMM = 30,  ///< slot
  KILN_FAMILY_ATTENTION = 40,       ///< kiln_attention_args
  KILN_FAMILY_ATTENTION_MERGE = 45, ///< kiln_attention_merge_args
  KILN_FAMILY_CONVOLUTION = 50,     ///< slot
  KILN_FAMILY_ELEMENTWISE = 60,     ///< kiln_elementwise_args
  KILN_FAMILY_REDUCTION = 70,       ///< kiln_reduce_args
  KILN_FAMILY_SOFTMAX = 80,         ///< kiln_softmax_args
  KILN_FAMILY_LAYER_NORM = 90,      ///< kiln_norm_args
  KILN_FAMILY_RMS_NORM = 100,       ///< kiln_norm_args
  KILN_FAMILY_QUANTIZE = 110,       ///< kiln_quantize_args
  KILN_FAMILY_TRANSPOSE = 120,      ///< kiln_transpose_args
  KILN_FAMILY_PREPACK = 130         ///< kiln_prepack_args
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
  KILN_SOURCE_STAND_IN = 50  ///< what was loaded, until there is better
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
  KILN_GRANULARITY_TENSOR = 0,
  KILN_GRANULARITY_ROW = 10,    ///< one per row of the operand as stored
  KILN_GRANULARITY_COLUMN = 20, ///< one per column of the operand as stored
  KILN_GRANULARITY_BLOCK = 30,  ///< one per block_rows x block_columns
  KILN_GRANULARITY_HEAD = 40    ///< one per head of K (attention.h)
};

/// Scales by which the elements of an operand are multiplied. An output that is
/// quantised has those that the kernel computes (rows.h), an e4m3 operand of an
/// attention and an fp8 or int8 operand of a GEMM those that it is read with;
/// else a slot.
///
/// Of a GEMM: one of all, one of each row of op(A), one of each column of
/// op(B), or blocks of 1 x 128 of op(A), 128 along k, with blocks of 128 x 128
/// of op(B). The last block of a side may be a part. Scales of blocks have one
/// stride of 1 and any other one that leaves room; both 0: rows are packed.
/// Those of an e4m3 D are one of all, which is given, or written: one of each
/// row, or of each 1 x 128 of D.
typedef struct kiln_scale {
  uint32_t struct_size;
  kiln_dtype type;
  void *data; ///< device memory
  kiln_granularity granularity;
  int32_t block_rows, block_columns; ///< of elements, for blocks only
  int32_t order;      ///< 0: plain strides; other orders of blocks: later
  int64_t row_stride; ///< between scales of neighbouring rows, in scales
  int64_t column_stride;
  int64_t batch_stride; ///< not negative; 0: shared by the whole batch
  uint64_t reserved[4];
} kiln_scale;

enum kiln_operand_flag {
  /// `data` is a device array of `batch` device pointers, one per matrix;
  /// batch_stride is ignored. Slot.
  KILN_OPERAND_POINTER_ARRAY = 1,
  /// The content never changes while the engine lives (weights), so Kiln may
  /// assume that repeated launches find it in cache, or keep a packed copy.
  KILN_OPERAND_CONSTANT = 2
};

/// A matrix, a batch of matrices or a vector in device memory.
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
  /// most 2^40; 0 uses one input matrix for the whole batch and is invalid for
  /// an output with batch > 1, or whose problem has a range over batch that
  /// goes beyond 1. A launch with batch > 1 refuses an output whose stride is
  /// less than (rows - 1) * leading_dim + columns: its matrices would overlap.
  int64_t batch_stride;
  /// Bytes by which every address used for this operand will be aligned, a
  /// power of two. 0: what `data` has, or 16 where the problem is only
  /// described. Leading dimensions and strides are taken into account anyway.
  uint32_t alignment;
  uint32_t flags;          ///< kiln_operand_flag
  const kiln_scale *scale; ///< null: none
  /// Of weights that kiln_prepack made (prepack.h); their leading dimension is
  /// ignored. 0: rows of elements.
  int32_t order;
  uint32_t reserved0;
  /// Zero points; null: none. Of such weights their device memory. Of an int8
  /// A of a GEMM a kiln_scale, whose type is KILN_INT32: see kiln_gemm_args.
  const void *zero;
  uint64_t reserved[1];
} kiln_operand;

/// Length limit of a pointwise chain.
#define KILN_MAX_POINTWISE 8

/// One link of a pointwise chain.
typedef struct kiln_pointwise {
  uint32_t struct_size;
  kiln_pointwise_op op;
  /// Of an operation that reads a matrix or vector. Its type may stay
  /// KILN_DTYPE_NONE: D's in a gemm, x's in an elementwise chain, which is the
  /// only one allowed.
  kiln_operand operand;
  float params[4]; ///< [0]: the factor of KILN_POINTWISE_SCALE; else zero
  uint64_t reserved[2];
} kiln_pointwise;

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Flags of one launch: in `flags` of the struct of any family, beside those of
/// the family, or of kiln_arguments. Ignored where a problem is only described.
enum kiln_call_flag {
  /// The launch may begin before the kernel ahead of it in the stream has ended
  /// (programmatic dependent launch). It waits for that kernel itself before it
  /// reads or writes anything but operands with KILN_OPERAND_CONSTANT, which it
  /// may read at once. So those have to be complete: written by nothing that
  /// comes behind the last launch or copy in this stream that is ordered in
  /// full. Where what is ahead is no kernel, the launch is ordered in full, and
  /// so it is on GPUs before sm_90 and where it would not pay. docs/api.md says
  /// what may stand around it.
  KILN_CALL_DEPENDENT = 0x10000
};

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

/// Where the rows of groups are.
typedef int32_t kiln_group_kind;
enum kiln_group_kind_value {
  /// A, D and a residual are one matrix of m rows each, without a batch stride.
  /// Group g ends before row sizes[g]. It begins where the group before ends,
  /// or at the next multiple of `align`: the first at row 0. m says how many
  /// rows there are at most. Rows that are no group's have to exist, count for
  /// no result and are not written. (Offsets with a leading 0, batch + 1 of
  /// them, are given as sizes = offsets + 1.)
  KILN_GROUPS_ENDS = 10,
  /// A, D and a residual are batch matrices of `room` rows each, of which group
  /// g has the first sizes[g]. m, which is not 0, is how many to expect of a
  /// group. The rest of a matrix has to exist, counts for no result and is not
  /// written.
  KILN_GROUPS_MASKED = 20
};

/// Groups of rows of a GEMM, batch of them, at most 1024. Sizes may be 0. Those
/// that are negative count as 0, those beyond m or `room` as that. Ends that
/// fall give rows of D that anybody may have written. Whatever sizes say, no
/// launch reads or writes outside of its operands.
typedef struct kiln_groups {
  uint32_t struct_size;
  kiln_group_kind kind;
  const int32_t *sizes; ///< device memory, one of each group
  int64_t room;         ///< masked only; 0: m
  int64_t align;        ///< ends only, at most 4096; 0: 1
  uint64_t reserved[4];
} kiln_groups;

enum kiln_row_map_flag {
  /// Row r of the product is row index[r] / divisor of A, which has
  /// (m - 1) / divisor + 1 rows, and of its scales. With a divisor of top_k, A
  /// is the tokens, and an index counts their choices.
  KILN_ROWS_GATHER = 1,
  /// Row r of the product is row index[r] of D, which has m rows. No residual.
  KILN_ROWS_SCATTER = 2,
  /// What the chain makes of row r is multiplied by weights[index[r]], without
  /// an index by weights[r].
  KILN_ROWS_WEIGHTS = 4
};

/// Where rows of groups with ends are, and what they are multiplied by. An
/// index outside of 0 to m - 1 is no row: zeros where it is read, and nothing
/// is written.
typedef struct kiln_row_map {
  uint32_t struct_size;
  uint32_t flags; ///< kiln_row_map_flag
  /// Device memory, m of them; null without a gather or a scatter.
  const int32_t *index;
  int64_t divisor;      ///< of a gather; 0: 1
  const float *weights; ///< device memory, m of them; null without the flag
  uint64_t reserved[3];
} kiln_row_map;

/// D = pointwise(alpha * op(A) op(B) + beta * C), for each matrix of a batch.
///
/// Describes a problem (kiln_problem) and, with its addresses, is one call
/// (kiln_gemm). Any size >= 0, leading dimension and element-aligned address
/// works; a negative size is invalid. If m, n or batch is 0, the call succeeds
/// and launches nothing; if k is 0, the product is 0. D may be C exactly (same
/// address, leading dimension and, with batch > 1, stride); it may overlap no
/// other operand and C in no other way.
///
/// The chain may hold one KILN_POINTWISE_SWIGLU: the rows of a gate and of an
/// up projection alternate in a weight stored [n, k]. n, which is even then,
/// stays the width of the product: operands of links before it have n columns,
/// D and those of links behind it n / 2. C is not available with it.
///
/// With `groups`, B is batch matrices with their scales and biases, and each is
/// multiplied by a group of rows of its own, as many as an array in device
/// memory says when the kernel runs: experts and their tokens. No C and no tf32
/// then, and rows of A lie along k.
///
/// int8 times int8 may have zero points z of A, one or one for each row of
/// op(A): the product is the sum of (A - z) B, exactly, before scales. `a.zero`
/// points to a kiln_scale of type KILN_INT32 with a granularity of tensor or
/// row, and column_sums_b has, of each column of op(B), the sum over its k
/// elements. Results have to fit int32, as they do for z from -128 to 127.
///
/// D may be e4m3 with a `d.scale`: what the chain makes, rounded to A's type
/// (of types of one byte to bf16), is multiplied by the fp32 reciprocal of its
/// scale, saturates at +-448 and keeps NaN. The scale of all is given; that of
/// a row, or of 128 columns of a row, is the greatest magnitude there over 448,
/// 1 for zeros, and is written. C, bias and residual then have the type that is
/// rounded to. Not of fp32, and not with a scatter.
///
/// alpha and batch must be set: zero means zero. kiln_gemm_args_init() gives
/// both as 1.
typedef struct kiln_gemm_args {
  uint32_t struct_size;
  kiln_layout layout;
  int64_t m, n, k;
  int64_t batch; ///< 1 for a single product
  double alpha;
  /// With 0, and no beta_device, C is never read and `c` is ignored.
  double beta;
  /// Device addresses of one fp32 each, read when the kernel runs; they replace
  /// alpha and beta. With a beta_device, C is given and has to be readable.
  const void *alpha_device;
  const void *beta_device;
  kiln_operand a; ///< its type is required
  kiln_operand b; ///< type: A's by default
  kiln_operand c; ///< type: D's, the only one allowed
  kiln_operand d; ///< type: A's, of one byte bf16; fp32 works, too, and e4m3
                  ///< with a scale
  const kiln_pointwise *pointwise; ///< applied first to last; null: none
  uint32_t pointwise_count;        ///< at most KILN_MAX_POINTWISE; one bias,
                                   ///< residual and swiglu at most
  kiln_compute compute;
  kiln_dtype accumulator; ///< KILN_DTYPE_NONE: fp32. Others: slot.
  kiln_determinism determinism;
  /// Most SMs that the kernel may occupy, to leave room for others; 0: all that
  /// the context has. Slot.
  int32_t max_sms;
  uint32_t flags; ///< kiln_call_flag
  /// Device address of the number of rows, read when the kernel runs; m is then
  /// its upper bound and m_hint (0: m) what to tune for. Slot.
  const int32_t *m_device;
  int64_t m_hint;
  const kiln_groups *groups; ///< null: every matrix of the batch has m rows
  const kiln_row_map *rows;  ///< null: rows are in the order of their groups
  /// With zero points of A: int32, n of each matrix of B, packed; where B's
  /// batch stride is 0, n in all. Else null.
  const void *column_sums_b;
  uint64_t reserved[5];
} kiln_gemm_args;

/// Values that a dynamic extent will take. All of them are served by one set of
/// kernels, the best of which is chosen at each value.
typedef struct kiln_range {
  uint32_t struct_size;
  uint32_t flags;      ///< none yet
  const char *name;    ///< as in a problem's text: "m" or "batch" for gemm,
                       ///< "rows" for what rows.h describes, "batch",
                       ///< "sq" or "sk" for attention
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

/// Slots of a GEMM's addresses in kiln_arguments.operands.
enum kiln_gemm_slot {
  KILN_GEMM_A = 0,
  KILN_GEMM_B = 1,
  KILN_GEMM_C = 2,
  KILN_GEMM_D = 3,
  /// Of alpha_device and beta_device: needed where the problem was described
  /// with them, and replace the value elsewhere.
  KILN_GEMM_ALPHA = 4,
  KILN_GEMM_BETA = 5,
  KILN_GEMM_ROWS = 6,   ///< of m_device
  KILN_GEMM_ZERO_B = 7, ///< zero points of packed weights
  KILN_GEMM_SCALE_A = 8,
  KILN_GEMM_SCALE_B = 9,
  KILN_GEMM_SCALE_C = 10,
  KILN_GEMM_SCALE_D = 11,
  KILN_GEMM_GROUP_SIZES = 12, ///< of kiln_groups
  KILN_GEMM_ROW_INDEX = 13,   ///< of kiln_row_map
  KILN_GEMM_ROW_WEIGHTS = 14,
  KILN_GEMM_ZERO_A = 15, ///< zero points of A
  /// + i: operand of the chain's link i; links that are KILN_POINTWISE_NONE are
  /// not counted.
  KILN_GEMM_POINTWISE = 16,
  /// Beside zero points of A.
  KILN_GEMM_COLUMN_SUMS_B = KILN_GEMM_POINTWISE + KILN_MAX_POINTWISE,
  KILN_GEMM_SLOT_COUNT
};

/// What varies between launches of one problem of any family.
typedef struct kiln_arguments {
  uint32_t struct_size;
  uint32_t operand_count; ///< length of operands; what is past it is null
  /// Device addresses by slot: kiln_gemm_slot and its like in rows.h and
  /// attention.h, or kiln_operand_info.slot. Slots that the problem does not
  /// use are ignored.
  void *const *operands;
  /// Scalars passed by value, in the family's order (gemm: alpha, beta;
  /// attention: scale, softcap; others: the one they have); null: those of the
  /// problem. A plan made with beta == 0 reads no C: its beta stays 0.
  const double *scalars;
  /// Values of the problem's dynamic extents, in the order of its ranges. One
  /// that is not given, because this is null or extent_count less, is as the
  /// problem was described, which has to be inside its range then. Only for a
  /// problem that was given ranges.
  const int64_t *extents;
  uint32_t scalar_count;
  uint32_t extent_count;
  uint32_t flags; ///< kiln_call_flag
  uint32_t reserved0;
  /// A bit for each slot whose operand is KILN_OPERAND_CONSTANT, beside those
  /// that the problem was described with.
  uint64_t constants;
  uint64_t reserved[2];
} kiln_arguments;

//===----------------------------------------------------------------------===//
// Workspace
//===----------------------------------------------------------------------===//

/// The workspace that a launch needs: a region that is zero between launches,
/// then, from a multiple of 256 bytes on, one whose content does not matter.
typedef struct kiln_workspace_info {
  uint32_t struct_size;
  uint32_t alignment;    ///< bytes; at most 256
  uint64_t bytes;        ///< of both; 0: none
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
/// Launches of one stream may share it; so that plans may share one that stays
/// zeroed, its zeroed region is as large as the largest of theirs, the rest as
/// the largest rest, and zeroed_bytes says where it ends. Too few bytes or too
/// little alignment is KILN_INVALID_ARGUMENT; without KILN_WORKSPACE_ZEROED an
/// engine's workspace_limit_bytes, aligned to 256, are always enough.
///
/// A launch that is given none (null) takes an arena of its (context, stream)
/// that the engine makes in kiln_prepare or at the first use, each region at
/// most workspace_limit_bytes large, and never moves or frees before
/// kiln_engine_destroy. A stream may be destroyed only after such launches have
/// completed: unless a graph holds it, its arena then serves the next stream
/// that the driver gives the handle to. That of a thread's CU_STREAM_PER_THREAD
/// serves a later thread when the thread has ended.
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

/// A struct of Kiln's with its size set and all else zero.
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

/// Arguments of a single product: batch and alpha are 1, all else is zero.
static inline kiln_gemm_args kiln_gemm_args_init(void) {
  kiln_gemm_args args = KILN_INIT(kiln_gemm_args);
  args.batch = 1;
  args.alpha = 1.0;
  return args;
}

#endif // KILN_TYPES_H
