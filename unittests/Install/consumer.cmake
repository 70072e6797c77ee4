# Installs the build in BUILD into BUILD/install-test/moved and builds and runs
# the consumer project in SOURCE against it, and the project of docs/engine.md. The tree is installed under
# another name and moved first: no file in it may depend on its first place.
cmake_minimum_required(VERSION 3.25)

set(work ${BUILD}/install-test)
set(prefix ${work}/moved)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/made)
file(RENAME ${work}/made ${prefix})
run(${CMAKE_COMMAND} -E env KILN_ELF_TREE=${prefix}
  ${TESTS} "--test-case=F1: no ELF file*")

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${work}/build -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${prefix}
  -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer-c)
run(${work}/build/consumer-cpp)
if(EXISTS ${prefix}/bin/kiln)
  run(${prefix}/bin/kiln --help)
  # It finds its helper, and says that nothing was launched.
  execute_process(COMMAND ${prefix}/bin/kiln profile -- ${CMAKE_COMMAND} --version
    OUTPUT_QUIET ERROR_VARIABLE said)
  if(NOT said MATCHES "no process of the command initialised CUDA")
    message(FATAL_ERROR "kiln profile: ${said}")
  endif()
endif()
if(EXISTS ${prefix}/bin/kiln-bench)
  message(FATAL_ERROR "kiln-bench is installed")
endif()

# The same through pkg-config, where the machine has it.
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs kiln
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${C_COMPILER} ${SOURCE}/main.c -o ${work}/consumer-pc ${flags}
    -Wl,-rpath,${prefix}/${LIBDIR})
  run(${work}/consumer-pc)
endif()

# The engine of docs/engine.md, as the page builds and starts it.
set(guide ${work}/engine)
file(COPY ${GUIDE}/CMakeLists.txt ${EXAMPLES}/decoder_layer.cpp
  ${EXAMPLES}/Decoder.h ${EXAMPLES}/Sample.h ${EXAMPLES}/CudaDriver.h
  DESTINATION ${guide})
run(${CMAKE_COMMAND} -S ${guide} -B ${guide}/build -G ${GENERATOR}
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${guide}/build)
if(DRIVER)
  set(ENV{KILN_NVRTC} ${NVRTC})
  set(ENV{KILN_CACHE_DIR} ${guide}/cache)
  run(${guide}/build/engine --warm-up h200-sxm)
  # In production neither the compiler nor a writable cache is needed.
  set(ENV{KILN_NVRTC} ${guide}/none)
  set(ENV{KILN_DRIVER} ${DRIVER})
  set(ENV{KILN_CACHE_READ_DIRS} ${guide}/cache)
  set(ENV{KILN_CACHE_DIR} ${guide}/empty)
  execute_process(COMMAND ${guide}/build/engine --serve
    OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  if(NOT said MATCHES "8 steps of 3 sequences: 0 compilations, 0 trials")
    message(FATAL_ERROR "engine --serve: ${said}")
  endif()
endif()
