# The target gpu-bundle: gathers in build/gpu, stripped, what a machine with a
# GPU but without a compiler needs to run the gpu tests, the tools and the
# examples: bin/, lib/, benchmarks (suites, peers) and runTests.sh. Targets are
# named by the global property KILN_GPU_BINARIES.
#
# Also a script: cmake -DBUNDLE=<folder> -P KilnGpuBundle.cmake fails when the
# folder holds 64 MiB or more.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE files ${BUNDLE}/*)
  set(total 0)
  foreach(file IN LISTS files)
    file(SIZE ${file} bytes)
    math(EXPR total "${total} + ${bytes}")
  endforeach()
  math(EXPR limit "64 * 1024 * 1024")
  math(EXPR kib "${total} / 1024")
  if(total GREATER_EQUAL limit)
    message(FATAL_ERROR "${BUNDLE} holds ${kib} KiB, the limit is 64 MiB")
  endif()
  message(STATUS "${BUNDLE}: ${kib} KiB")
  return()
endif()

get_property(binaries GLOBAL PROPERTY KILN_GPU_BINARIES)
foreach(target IN ITEMS kiln_tool kiln_profiler kiln_bench kiln)
  if(TARGET ${target})
    list(APPEND binaries ${target})
  endif()
endforeach()
# The test binaries are linked to the stand-ins, also where they use the real
# libraries.
foreach(fake IN ITEMS kiln_fake_cuda kiln_fake_nvml kiln_fake_nvrtc
    kiln_fake_nvtx)
  if(TARGET ${fake})
    list(APPEND binaries ${fake})
  endif()
endforeach()
list(REMOVE_DUPLICATES binaries)

set(bundle ${PROJECT_SOURCE_DIR}/build/gpu)
set(strips)
foreach(binary IN LISTS binaries)
  get_target_property(type ${binary} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    set(file lib/$<TARGET_SONAME_FILE_NAME:${binary}>)
  else()
    set(file bin/$<TARGET_FILE_NAME:${binary}>)
  endif()
  list(APPEND strips COMMAND ${CMAKE_STRIP} -o ${bundle}/${file}
    $<TARGET_FILE:${binary}>)
endforeach()

add_custom_target(gpu-bundle
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${bundle}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${bundle}/bin ${bundle}/lib
  COMMAND ${CMAKE_COMMAND} -E touch ${bundle}/kiln-build-tree
  ${strips}
  COMMAND ${CMAKE_COMMAND} -E copy_directory
    ${PROJECT_SOURCE_DIR}/benchmarks/suites ${bundle}/benchmarks/suites
  COMMAND ${CMAKE_COMMAND} -E copy_directory
    ${PROJECT_SOURCE_DIR}/benchmarks/peers ${bundle}/benchmarks/peers
  COMMAND ${CMAKE_COMMAND} -E copy
    ${PROJECT_SOURCE_DIR}/scripts/runGpuTests.sh ${bundle}/runTests.sh
  COMMAND ${CMAKE_COMMAND} -DBUNDLE=${bundle}
    -P ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Gathering build/gpu"
  VERBATIM)
if(binaries)
  add_dependencies(gpu-bundle ${binaries})
endif()
