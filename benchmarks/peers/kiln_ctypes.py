"""The part of Kiln's C interface that the peer benchmarks call, by ctypes.

The structs mirror those of include/kiln/*.h field by field; zero is the default of every field, as there. `python3 kiln_ctypes.py
--self-test` compares their layouts with what the C compiler makes of the
headers.

Not thread-safe beyond what the C interface is: an object's last call is its
close(). Addresses and streams are plain integers, as torch gives them
(Tensor.data_ptr(), torch.cuda.current_stream().cuda_stream).
"""
import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
from ctypes import (POINTER, Structure, byref, c_char_p, c_double, c_int32,
                    c_int64, c_size_t, c_uint32, c_uint64, c_void_p)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

MODES = {"tune": 0, "predict": 10, "strict": 30}
PREPARE_RETUNE = 2
ENGINE_READ_ONLY = 2
EVENT_LOADED = 30
FAMILY_GEMM = 10
WORKSPACE_ZEROED = 1
# kiln_dtype, kiln_layout, kiln_compute and kiln_granularity, by the words of a
# problem's text.
TYPES = {"fp32": 0x2001, "int32": 0x2011, "fp16": 0x1001, "bf16": 0x1002,
         "e4m3": 0x0801, "e5m2": 0x0802, "e8m0": 0x0803, "int8": 0x0811,
         "e2m1": 0x0401, "int4": 0x0411}
LAYOUTS = {"NN": 0, "NT": 10, "TN": 20, "TT": 30}
COMPUTE = {"native": 0, "tf32": 10, "fast_fp8": 20}
GRANULARITIES = {"tensor": 5, "row": 10, "column": 20, "block": 30}
WEIGHT_ORDERS = {"k64r16": 1}
GROUP_KINDS = {"ends": 10, "masked": 20}
SOURCES = {0: "none", 10: "record", 20: "decision", 30: "estimate",
           40: "generic", 50: "stand-in"}

LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)


class KilnError(RuntimeError):
    """A call of Kiln that failed; `status` is its name, "unsupported"."""

    def __init__(self, status, message):
        super().__init__(f"{status}: {message}")
        self.status = status


class CStruct(Structure):
    """A struct of Kiln's: its size is set, all else is zero."""

    c_name = ""

    def __init__(self, **values):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **values)


class Range(CStruct):
    c_name = "kiln_range"
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32),
                ("name", c_char_p), ("first", c_int64), ("last", c_int64),
                ("hint", c_int64), ("reserved", c_uint64 * 2)]


class Problem(CStruct):
    c_name = "kiln_problem"
    _fields_ = [("struct_size", c_uint32), ("family", c_int32),
                ("text", c_char_p), ("args", c_void_p),
                ("ranges", POINTER(Range)),
                ("range_count", c_uint32), ("flags", c_uint32),
                ("reserved", c_uint64 * 4)]


class Arguments(CStruct):
    c_name = "kiln_arguments"
    _fields_ = [("struct_size", c_uint32), ("operand_count", c_uint32),
                ("operands", POINTER(c_void_p)), ("scalars", POINTER(c_double)),
                ("extents", POINTER(c_int64)), ("scalar_count", c_uint32),
                ("extent_count", c_uint32), ("flags", c_uint32),
                ("reserved0", c_uint32), ("constants", c_uint64),
                ("reserved", c_uint64 * 2)]


class Scale(CStruct):
    c_name = "kiln_scale"
    _fields_ = [("struct_size", c_uint32), ("type", c_int32),
                ("data", c_void_p), ("granularity", c_int32),
                ("block_rows", c_int32), ("block_columns", c_int32),
                ("reserved0", c_uint32), ("row_stride", c_int64),
                ("column_stride", c_int64), ("batch_stride", c_int64),
                ("reserved", c_uint64 * 2)]


class Operand(CStruct):
    c_name = "kiln_operand"
    _fields_ = [("struct_size", c_uint32), ("type", c_int32),
                ("data", c_void_p), ("leading_dim", c_int64),
                ("batch_stride", c_int64), ("alignment", c_uint32),
                ("flags", c_uint32), ("reserved", c_uint64 * 2)]


class GemmScales(CStruct):
    c_name = "kiln_gemm_scales"
    _fields_ = [("struct_size", c_uint32), ("reserved0", c_uint32),
                ("a", Scale), ("b", Scale), ("a_zeros", Scale),
                ("column_sums_b", c_void_p), ("reserved", c_uint64 * 4)]


class GemmPackedB(CStruct):
    c_name = "kiln_gemm_packed_b"
    _fields_ = [("struct_size", c_uint32), ("order", c_int32),
                ("scale", Scale), ("zeros", Scale),
                ("reserved", c_uint64 * 4)]


class GemmQuantizedD(CStruct):
    c_name = "kiln_gemm_quantized_d"
    _fields_ = [("struct_size", c_uint32), ("reserved0", c_uint32),
                ("scale", Scale), ("reserved", c_uint64 * 4)]


class GemmGroups(CStruct):
    c_name = "kiln_gemm_groups"
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32),
                ("sizes", c_void_p), ("room", c_int64), ("align", c_int64),
                ("index", c_void_p), ("divisor", c_int64),
                ("weights", c_void_p), ("flags", c_uint32),
                ("reserved0", c_uint32), ("reserved", c_uint64 * 4)]


class GemmArgs(CStruct):
    """One product; alpha and batch are 1 where they are not given."""

    c_name = "kiln_gemm_args"
    _fields_ = [("struct_size", c_uint32), ("layout", c_int32),
                ("m", c_int64), ("n", c_int64), ("k", c_int64),
                ("batch", c_int64), ("alpha", c_double), ("beta", c_double),
                ("alpha_device", c_void_p), ("beta_device", c_void_p),
                ("a", Operand), ("b", Operand), ("c", Operand), ("d", Operand),
                ("pointwise", c_void_p), ("pointwise_count", c_uint32),
                ("compute", c_int32), ("determinism", c_int32),
                ("flags", c_uint32), ("scales", POINTER(GemmScales)),
                ("packed_b", POINTER(GemmPackedB)),
                ("quantized_d", POINTER(GemmQuantizedD)),
                ("groups", POINTER(GemmGroups)),
                ("reserved", c_uint64 * 8)]

    def __init__(self, **values):
        super().__init__(**({"alpha": 1.0, "batch": 1} | values))
        # An operand that is not given is still a struct of the right size.
        for name in "abcd":
            getattr(self, name).struct_size = ctypes.sizeof(Operand)


class HeadsOperand(CStruct):
    c_name = "kiln_heads_operand"
    _fields_ = [("struct_size", c_uint32), ("type", c_int32),
                ("data", c_void_p), ("token_stride", c_int64),
                ("head_stride", c_int64), ("batch_stride", c_int64),
                ("alignment", c_uint32), ("flags", c_uint32),
                ("scale", Scale), ("reserved", c_uint64 * 2)]


# As HeadsOperand.batch_stride: all sequences read the same rows.
SHARED_STRIDE = -1


class AttentionArgs(CStruct):
    c_name = "kiln_attention_args"
    _fields_ = [("struct_size", c_uint32), ("mask", c_int32),
                ("batch", c_int64), ("queries", c_int64), ("keys", c_int64),
                ("keys_hint", c_int64), ("heads", c_int64),
                ("kv_heads", c_int64), ("head_dim", c_int64),
                ("value_dim", c_int64), ("left", c_int64), ("right", c_int64),
                ("scale", c_double), ("softcap", c_double),
                ("q", HeadsOperand), ("k", HeadsOperand), ("v", HeadsOperand),
                ("o", HeadsOperand), ("lse", c_void_p), ("sinks", c_void_p),
                ("alibi", c_void_p), ("query_offsets", c_void_p),
                ("key_offsets", c_void_p), ("key_lengths", c_void_p),
                ("page_table", c_void_p), ("page_offsets", c_void_p),
                ("page_size", c_int64), ("page_count", c_int64),
                ("page_table_columns", c_int64), ("total_queries", c_int64),
                ("total_keys", c_int64), ("split", c_int64),
                ("determinism", c_int32), ("flags", c_uint32),
                ("reserved", c_uint64 * 8)]


class AttentionMergeArgs(CStruct):
    c_name = "kiln_attention_merge_args"
    _fields_ = [("struct_size", c_uint32), ("determinism", c_int32),
                ("batch", c_int64), ("queries", c_int64), ("heads", c_int64),
                ("value_dim", c_int64), ("o1", HeadsOperand),
                ("o2", HeadsOperand), ("o", HeadsOperand), ("lse1", c_void_p),
                ("lse2", c_void_p), ("lse", c_void_p), ("flags", c_uint32),
                ("reserved0", c_uint32), ("reserved", c_uint64 * 8)]


class WorkspaceInfo(CStruct):
    c_name = "kiln_workspace_info"
    _fields_ = [("struct_size", c_uint32), ("alignment", c_uint32),
                ("bytes", c_uint64), ("zeroed_bytes", c_uint64),
                ("reserved", c_uint64 * 2)]


class Workspace(CStruct):
    c_name = "kiln_workspace"
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32),
                ("data", c_void_p), ("bytes", c_uint64),
                ("zeroed_bytes", c_uint64), ("reserved", c_uint64 * 1)]


class Event(CStruct):
    c_name = "kiln_event"
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32),
                ("status", c_int32), ("source", c_int32),
                ("problem", c_char_p), ("config", c_char_p),
                ("key", c_char_p), ("message", c_char_p),
                ("elapsed_ms", c_double), ("predicted_us", c_double),
                ("measured_us", c_double), ("reserved", c_uint64 * 8)]


EventFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Event))


class EngineOptions(CStruct):
    c_name = "kiln_engine_options"
    _fields_ = [("struct_size", c_uint32), ("mode", c_int32),
                ("flags", c_uint32), ("threads", c_int32),
                ("tune_budget_ms", c_int64), ("scratch_limit_bytes", c_uint64),
                ("workspace_limit_bytes", c_uint64),
                ("cache_limit_bytes", c_uint64), ("cache_dir", c_char_p),
                ("read_dirs", POINTER(c_char_p)), ("read_dir_count", c_uint32),
                ("log_level", c_int32), ("device_model", c_char_p),
                ("nvrtc_path", c_char_p), ("driver_path", c_char_p),
                ("log", LogFunction), ("log_user", c_void_p),
                ("event", EventFunction), ("event_user", c_void_p),
                ("allocator", c_void_p), ("executor", c_void_p),
                ("trial_timeout_ms", c_int64),
                ("background_permille", c_uint32), ("determinism", c_int32),
                ("pool_limit_bytes", c_uint64), ("history", c_char_p),
                ("reserved", c_uint64 * 12)]


class PrepareOptions(CStruct):
    c_name = "kiln_prepare_options"
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32),
                ("budget_ms", c_int64), ("streams", POINTER(c_void_p)),
                ("stream_count", c_uint32), ("reserved0", c_uint32),
                ("progress", c_void_p), ("progress_user", c_void_p),
                ("reserved", c_uint64 * 8)]


class QueryResult(CStruct):
    c_name = "kiln_query_result"
    _fields_ = [("struct_size", c_uint32), ("state", c_int32),
                ("source", c_int32), ("capturable", c_int32),
                ("workspace", WorkspaceInfo), ("predicted_us", c_double),
                ("measured_us", c_double), ("reserved", c_uint64 * 8)]


class OperandInfo(CStruct):
    c_name = "kiln_operand_info"
    _fields_ = [("struct_size", c_uint32), ("slot", c_uint32),
                ("type", c_int32), ("role", c_int32), ("name", c_char_p),
                ("bytes", c_uint64), ("alignment", c_uint32),
                ("reserved0", c_uint32), ("reserved", c_uint64 * 4)]


class Statistics(CStruct):
    c_name = "kiln_statistics"
    _fields_ = [("struct_size", c_uint32), ("reserved0", c_uint32),
                ("launches", c_uint64), ("dispatch_misses", c_uint64),
                ("fallback_launches", c_uint64), ("plans", c_uint64),
                ("cache_hits", c_uint64), ("cache_misses", c_uint64),
                ("cache_faults", c_uint64), ("compiles", c_uint64),
                ("compile_failures", c_uint64), ("trials", c_uint64),
                ("trial_failures", c_uint64), ("compile_ns", c_uint64),
                ("tune_ns", c_uint64), ("load_ns", c_uint64),
                ("arena_bytes", c_uint64),
                ("background_pending", c_uint64),
                ("background_done", c_uint64), ("background_swaps", c_uint64),
                ("background_gpu_ns", c_uint64),
                ("background_paused", c_uint64),
                ("background_held_ns", c_uint64),
                ("cache_evictions", c_uint64), ("arena_peak_bytes", c_uint64),
                ("module_bytes", c_uint64), ("module_peak_bytes", c_uint64),
                ("scratch_bytes", c_uint64), ("scratch_peak_bytes", c_uint64),
                ("host_bytes", c_uint64), ("host_peak_bytes", c_uint64),
                ("waits", c_uint64), ("wait_ns", c_uint64),
                ("longest_wait_ns", c_uint64), ("reserved", c_uint64 * 8)]


STRUCTS = [Range, Problem, Arguments, Scale, Operand, GemmScales, GemmPackedB,
           GemmQuantizedD, GemmGroups, GemmArgs, HeadsOperand, AttentionArgs, AttentionMergeArgs, WorkspaceInfo,
           Workspace, Event, EngineOptions, PrepareOptions, QueryResult,
           OperandInfo, Statistics]

ABI_VERSION = 1

# Functions that return a status, with what they take.
STATUS_FUNCTIONS = {
    "kiln_engine_create": [POINTER(EngineOptions), POINTER(c_void_p)],
    "kiln_prepare": [c_void_p, POINTER(Problem), c_size_t,
                     POINTER(PrepareOptions), POINTER(c_void_p)],
    "kiln_query": [c_void_p, POINTER(Problem), c_void_p, POINTER(QueryResult)],
    "kiln_get_statistics": [c_void_p, POINTER(Statistics)],
    "kiln_plan_acquire": [c_void_p, POINTER(Problem), c_void_p,
                          POINTER(c_void_p)],
    "kiln_plan_workspace": [c_void_p, POINTER(WorkspaceInfo)],
    "kiln_plan_launch": [c_void_p, POINTER(Arguments), POINTER(Workspace),
                         c_void_p],
    "kiln_plan_operand": [c_void_p, c_uint32, POINTER(OperandInfo)],
    "kiln_plan_describe": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "kiln_gemm": [c_void_p, POINTER(GemmArgs), POINTER(Workspace), c_void_p],
    "kiln_attention": [c_void_p, POINTER(AttentionArgs), POINTER(Workspace),
                       c_void_p],
    "kiln_attention_merge": [c_void_p, POINTER(AttentionMergeArgs),
                             POINTER(Workspace), c_void_p],
    "kiln_problem_text": [POINTER(Problem), c_char_p, c_size_t,
                          POINTER(c_size_t)],
}

OTHER_FUNCTIONS = {
    "kiln_engine_destroy": ([c_void_p], None),
    "kiln_plan_release": ([c_void_p], None),
    "kiln_last_error_message": ([], c_char_p),
    "kiln_status_name": ([c_int32], c_char_p),
    "kiln_abi_version": ([], c_uint32),
    "kiln_version_string": ([], c_char_p),
}


class Library:
    """libkiln.so, with the functions above typed."""

    def __init__(self, path):
        self._functions = ctypes.CDLL(os.fspath(path))
        for name, arguments in STATUS_FUNCTIONS.items():
            self._declare(name, arguments, c_int32)
        for name, (arguments, result) in OTHER_FUNCTIONS.items():
            self._declare(name, arguments, result)
        version = self.kiln_abi_version()
        if version != ABI_VERSION:
            raise KilnError("unsupported",
                            f"abi version {version}, wanted {ABI_VERSION}")

    def _declare(self, name, arguments, result):
        function = getattr(self._functions, name)
        function.argtypes, function.restype = arguments, result
        setattr(self, name, function)

    def check(self, status):
        """Raises KilnError with the thread's last message unless it is 0."""
        if status != 0:
            raise KilnError(self.kiln_status_name(status).decode(),
                            self.kiln_last_error_message().decode())

    def text_of(self, function, subject):
        """The text that a function writes into a buffer."""
        length = c_size_t(0)
        self.check(function(subject, None, 0, byref(length)))
        buffer = ctypes.create_string_buffer(length.value + 1)
        self.check(function(subject, buffer, len(buffer), byref(length)))
        return buffer.value.decode()

    def canonical(self, text):
        """The canonical text of a problem; needs no GPU."""
        problem = Problem(text=text.encode())
        return self.text_of(self.kiln_problem_text, byref(problem))

    def canonical_gemm(self, args):
        """The same of a GemmArgs."""
        problem = Problem(family=FAMILY_GEMM,
                          args=ctypes.cast(byref(args), c_void_p))
        return self.text_of(self.kiln_problem_text, byref(problem))


class Engine:
    """An engine; close() it after its plans. Options as kiln_engine_options,
    strings as str. `log` takes one str, `event` an Event that is valid during
    the call; both may be called from any thread."""

    def __init__(self, library, mode="tune", log=None, event=None, **options):
        values = {key: os.fspath(value).encode()
                  if isinstance(value, (str, os.PathLike)) else value
                  for key, value in options.items() if value is not None}
        self.library = library
        self._handle = c_void_p()
        # Kept here: the engine calls them as long as it lives.
        self._event = EventFunction(
            (lambda user, given: event(given.contents)) if event else 0)
        self._log = LogFunction(
            (lambda user, level, text: log(text.decode())) if log else 0)
        made = EngineOptions(mode=MODES[mode], log=self._log,
                             event=self._event, **values)
        library.check(library.kiln_engine_create(byref(made),
                                                 byref(self._handle)))

    def close(self):
        self.library.kiln_engine_destroy(self._handle)
        self._handle = c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def prepare(self, text, stream, budget_ms=0, retune=False, ranges=None):
        """Makes a problem ready on a stream's context: up to its budget.
        `ranges` are (first, last) by the extent's name."""
        given = [Range(name=name.encode(), first=first, last=last)
                 for name, (first, last) in (ranges or {}).items()]
        streams = (c_void_p * 1)(stream)
        options = PrepareOptions(
            flags=PREPARE_RETUNE if retune else 0, budget_ms=budget_ms,
            streams=streams, stream_count=1)
        problem = Problem(text=text.encode(),
                          ranges=(Range * len(given))(*given) if given else None,
                          range_count=len(given))
        self.library.check(self.library.kiln_prepare(
            self._handle, byref(problem), 1, byref(options), None))

    def gemm(self, args, stream, workspace=None):
        """Enqueues a product, a GemmArgs; the first call of a problem may
        compile and measure: seconds."""
        self.library.check(self.library.kiln_gemm(
            self._handle, byref(args),
            None if workspace is None else byref(workspace), stream))

    def attention(self, args, stream, workspace=None):
        """Enqueues an attention, an AttentionArgs; the first call of a problem
        may compile and measure: seconds."""
        self.library.check(self.library.kiln_attention(
            self._handle, byref(args),
            None if workspace is None else byref(workspace), stream))

    def attention_merge(self, args, stream):
        """The same for an AttentionMergeArgs."""
        self.library.check(self.library.kiln_attention_merge(
            self._handle, byref(args), None, stream))

    def query(self, text, stream):
        """A QueryResult: where the choice is from, and its times."""
        result = QueryResult()
        problem = Problem(text=text.encode())
        self.library.check(self.library.kiln_query(
            self._handle, byref(problem), stream, byref(result)))
        return result

    def statistics(self):
        """The engine's counts so far, a Statistics."""
        counts = Statistics()
        self.library.check(self.library.kiln_get_statistics(self._handle,
                                                            byref(counts)))
        return counts

    def plan(self, text, stream):
        """The chosen plan of a problem; may compile and measure: seconds."""
        handle = c_void_p()
        problem = Problem(text=text.encode())
        self.library.check(self.library.kiln_plan_acquire(
            self._handle, byref(problem), stream, byref(handle)))
        return Plan(self.library, handle)


class Plan:
    """One loaded way to compute one problem; close() gives it back."""

    def __init__(self, library, handle):
        self.library = library
        self._handle = handle

    def close(self):
        self.library.kiln_plan_release(self._handle)
        self._handle = c_void_p()

    def describe(self):
        return self.library.text_of(self.library.kiln_plan_describe,
                                    self._handle)

    def workspace(self):
        """The workspace that each launch needs, a WorkspaceInfo."""
        info = WorkspaceInfo()
        self.library.check(self.library.kiln_plan_workspace(self._handle,
                                                            byref(info)))
        return info

    def operands(self):
        """The OperandInfo of every operand."""
        infos = []
        while True:
            info = OperandInfo()
            status = self.library.kiln_plan_operand(self._handle, len(infos),
                                                    byref(info))
            # Past the last one is the only reason to refuse an index.
            if status != 0:
                return infos
            infos.append(info)

    def launch(self, arguments, stream, workspace=None):
        """Enqueues the plan. Costs a few microseconds of Python."""
        self.library.check(self.library.kiln_plan_launch(
            self._handle, byref(arguments),
            None if workspace is None else byref(workspace), stream))


def arguments_of(addresses):
    """Arguments whose operands are a dict of addresses by slot."""
    count = max(addresses) + 1
    operands = (c_void_p * count)()
    for slot, address in addresses.items():
        operands[slot] = address
    # ctypes keeps the array alive through the struct's pointer.
    return Arguments(operands=operands, operand_count=count)


def scale_of(granularity, address, rows=0, columns=0, row_stride=0,
             column_stride=0, dtype="fp32"):
    """Scales; blocks are of so many `rows` and `columns`."""
    return Scale(type=TYPES[dtype], data=address,
                 granularity=GRANULARITIES[granularity], block_rows=rows,
                 block_columns=columns, row_stride=row_stride,
                 column_stride=column_stride)


def find_library(path=None):
    """The library to load: `path`, else one of the project's own builds."""
    if path is not None:
        return pathlib.Path(path)
    # The last: beside an installed benchmarks folder.
    for folder in ("build/release", "build/gpu", "lib"):
        for found in sorted((ROOT / folder).glob("**/libkiln.so*")):
            return found
    raise FileNotFoundError("no build/release/**/libkiln.so; name one with "
                            "--library")


def c_layouts():
    """{(struct, field): (offset, size)} as the C compiler (CC, or cc) lays the
    headers out; the field of a whole struct is ""."""
    compiler = os.environ.get("CC", "cc")
    lines = []
    for struct in STRUCTS:
        name = struct.c_name
        lines.append(f'printf("{name} . 0 %zu\\n", sizeof({name}));')
        lines += [f'printf("{name} {field} %zu %zu\\n", '
                  f"offsetof({name}, {field}), sizeof((({name} *)0)->{field}));"
                  for field, *_ in struct._fields_]
    body = "\n".join(lines)
    source = (f"#include <kiln/kiln.h>\n#include <stddef.h>\n"
              f"#include <stdio.h>\nint main(void) {{\n{body}\nreturn 0;\n}}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "layouts.c")
        path.write_text(source)
        program = path.with_suffix("")
        subprocess.run([compiler, "-std=c11", f"-I{ROOT / 'include'}",
                        str(path), "-o", str(program)], check=True)
        text = subprocess.run([str(program)], check=True, text=True,
                              capture_output=True).stdout
    rows = (line.split() for line in text.splitlines())
    return {(name, field.rstrip(".")): (int(offset), int(size))
            for name, field, offset, size in rows}


def python_layouts():
    """The same as ctypes lays its structs out."""
    layouts = {}
    for struct in STRUCTS:
        layouts[struct.c_name, ""] = (0, ctypes.sizeof(struct))
        for field, *_ in struct._fields_:
            member = getattr(struct, field)
            layouts[struct.c_name, field] = (member.offset, member.size)
    return layouts


def self_test(library_path=None):
    """Compares the layouts, and calls what works without a GPU if there is a
    library. Returns the number of faults, which it prints."""
    expected, found = c_layouts(), python_layouts()
    faults = [f"{'.'.join(key)}: C has {expected[key]}, ctypes {found[key]}"
              for key in expected if expected[key] != found[key]]
    if library_path is not None:
        library = Library(library_path)
        with Engine(library, mode="predict"):
            pass
        text = library.canonical("gemm dtype=bf16 n=32 k=16 m=64 layout=NN")
        if not text.startswith("gemm ") or "layout" in text:
            faults.append(f"canonical text is {text!r}")
        try:
            library.canonical("gemm dtype=bf16 n=32")
            faults.append("a problem without m was accepted")
        except KilnError as error:
            if error.status != "invalid-argument":
                faults.append(f"a problem without m gave {error}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return len(faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true", required=True)
    parser.add_argument("--library", help="also call this libkiln.so")
    options = parser.parse_args()
    return 1 if self_test(options.library) else 0


if __name__ == "__main__":
    sys.exit(main())
