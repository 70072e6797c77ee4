"""Ends in the midst of compilations, as kiln_exit_program does, from Python:

    exitProgram.py LIBRARY DRIVER NVRTC MODE DELAY_US
"""
import ctypes
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent /
                       "benchmarks/peers"))
import kiln_ctypes  # noqa: E402

CODE = 7
MEMORY_ONLY, IGNORE_ENVIRONMENT = 1, 8


def main():
    path, driver, nvrtc, mode, delay_us = sys.argv[1:]
    cuda = ctypes.CDLL(driver)
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    compiler = ctypes.CDLL(nvrtc)
    if hasattr(compiler, "kilnFakeNvrtcDelayWhen"):
        compiler.kilnFakeNvrtcDelayWhen(b"", 30)
    library = ctypes.CDLL(path)
    options = kiln_ctypes.EngineOptions(
        mode=int(mode), flags=MEMORY_ONLY | IGNORE_ENVIRONMENT,
        nvrtc_path=os.fsencode(nvrtc), driver_path=os.fsencode(driver))
    engine = ctypes.c_void_p()
    assert library.kiln_engine_create(ctypes.byref(options),
                                      ctypes.byref(engine)) == 0

    def acquire(first):
        cuda.cuCtxPushCurrent_v2(context)
        plan = ctypes.c_void_p()
        for n in range(first, 65536, 1024):
            problem = kiln_ctypes.Problem(
                text=b"gemm m=512 n=%d k=4096 dtype=bf16 layout=NT" % n)
            library.kiln_plan_acquire(engine, ctypes.byref(problem), None,
                                      ctypes.byref(plan))

    for first in (512, 768, 1024):
        threading.Thread(target=acquire, args=(first,), daemon=True).start()
    time.sleep(int(delay_us) * 1e-6)
    print("running", compiler.kilnFakeNvrtcRunning()
          if hasattr(compiler, "kilnFakeNvrtcRunning") else 0, flush=True)
    sys.exit(CODE)


main()
