# Compilers, dependencies and the few functions that declare Kiln's targets.
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
# Kiln's libraries are linked statically: nothing that is installed needs a run
# path. It must not get one, also not from a packager's settings: CMake pads the
# run path of the build tree with ':' to the length of the installed one, and
# the loader takes each empty component for the working directory.
set(CMAKE_INSTALL_RPATH "")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH OFF)

# Says to the libraries that they lie in a build folder, where the toolkit of
# scripts/setup.sh is beside it; see buildTreeToolkit(). Never installed.
file(WRITE ${PROJECT_BINARY_DIR}/kiln-build-tree "")

find_package(Threads REQUIRED)
# Debian's LLVM package refuses a plain "19"; its exported targets need zlib
# and zstd to be found although Kiln uses neither.
find_package(LLVM 19.1 REQUIRED CONFIG)
find_path(KILN_FMT_INCLUDE_DIR fmt/format-inl.h REQUIRED)
# cuda.h and nvrtc.h are all that comes from the toolkit; both libraries are
# opened at run time. Without a toolkit, scripts/setup.sh puts NVIDIA's
# redistributable packages into build/cuda.
find_path(KILN_CUDA_INCLUDE_DIR cuda.h REQUIRED
  HINTS ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda ${PROJECT_SOURCE_DIR}/build/cuda
  PATH_SUFFIXES include)
find_path(KILN_NVRTC_INCLUDE_DIR nvrtc.h REQUIRED
  HINTS ${KILN_CUDA_INCLUDE_DIR} ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda ${PROJECT_SOURCE_DIR}/build/cuda
  PATH_SUFFIXES include)

# Only for the compiler that the project is checked with: others warn of other
# things.
set(warningsAreErrors OFF)
if(KILN_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
   CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(warningsAreErrors ON)
endif()

add_library(kiln_options INTERFACE)
target_compile_features(kiln_options INTERFACE cxx_std_20 c_std_11)
target_include_directories(kiln_options INTERFACE
  ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/kernel_src
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_include_directories(kiln_options SYSTEM INTERFACE
  ${LLVM_INCLUDE_DIRS} ${KILN_FMT_INCLUDE_DIR})
target_compile_options(kiln_options INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Werror=unused-result
  -fvisibility=hidden -ffunction-sections -fdata-sections
  $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>
  $<$<BOOL:${warningsAreErrors}>:-Werror>)
target_link_options(kiln_options INTERFACE
  -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--as-needed
  # Full RELRO: addresses that the loader has resolved become read-only.
  -Wl,-z,relro -Wl,-z,now)

# kiln_harden(<target>...) has shipped code check itself: stacks, copies into
# buffers of known sizes, and where indirect jumps may lead (the processor checks
# the last, where all of a process was built so; Debian's LLVM is not). Not for
# tests: glibc takes _FORTIFY_SOURCE only with optimisation, and the sanitizers
# check more.
set(hardeningOptions -fstack-protector-strong)
if(NOT KILN_SANITIZERS)
  list(APPEND hardeningOptions
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
    $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND hardeningOptions -fcf-protection=full)
endif()
function(kiln_harden)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE ${hardeningOptions})
  endforeach()
endfunction()

# The sanitizers' test preset sets ASAN_OPTIONS=intercept_tls_get_addr=0. Up to
# GCC 13 the runtime takes a block of thread-local storage that begins 16 bytes
# into a page for one of glibc before 2.25 and reads sizes in front of it: the
# leak check then crashes now and then (github.com/google/sanitizers 1322).
if(KILN_SANITIZERS)
  target_compile_options(kiln_options INTERFACE
    # Instrumented code hides from GCC what it initialises.
    -Wno-maybe-uninitialized
    -fsanitize=${KILN_SANITIZERS} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(kiln_options INTERFACE -fsanitize=${KILN_SANITIZERS})
endif()
# A third of the time of instrumented code goes into four checks. Null pointers
# and accesses beyond an object are what the address sanitizer reports as well,
# x86-64 takes unaligned data, and LLVM has no type information to follow.
if(KILN_SANITIZERS STREQUAL "address,undefined")
  target_compile_options(kiln_options INTERFACE
    -fno-sanitize=null,object-size,alignment,vptr)
endif()

# Readers and binders of calls clear and copy structs of some hundred bytes. For
# known sizes of 33 to 8192 bytes GCC takes `rep stos` and `rep movs`, which are
# slow to start: with them a hit of kiln_attention took 30 ns longer (GCC 12, an
# AMD EPYC). For all targets, because a precompiled header needs equal options.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
   CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(moves vector_loop:1024:noalign,libcall:-1:noalign)
  target_compile_options(kiln_options INTERFACE
    -mmemset-strategy=${moves} -mmemcpy-strategy=${moves})
endif()

# With KILN_PRECOMPILED_HEADER, the headers that most sources include are parsed
# once for the libraries, once for the tests and once for the tools. The option
# is off in the debug preset, which checks that each source includes what it
# uses.
set(precompiledHeaders <algorithm> <chrono> <map> <memory> <mutex> <optional>
  <set> <string> <thread> <vector> <fmt/format.h> <llvm/ADT/STLExtras.h>
  <llvm/ADT/SmallVector.h> <llvm/ADT/StringExtras.h> <llvm/ADT/StringMap.h>
  <llvm/Support/Error.h> <llvm/Support/JSON.h>)
if(KILN_PRECOMPILED_HEADER)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(kiln_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  set_target_properties(kiln_precompiled PROPERTIES
    POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(kiln_precompiled PRIVATE kiln_options)
  kiln_harden(kiln_precompiled)
  target_precompile_headers(kiln_precompiled PRIVATE ${precompiledHeaders})
  # GCC 12 takes what comes from a precompiled header for the project's own, and
  # warns wrongly about std::string in std::vector.
  target_compile_options(kiln_options INTERFACE
    -Wno-array-bounds -Wno-stringop-overread
    # Without it ccache keeps nothing of what uses a precompiled header.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()

# Wrong warnings of GCC 12 where sources are compiled together: it takes an
# unnamed namespace of an included source for one of a header, and follows more
# of std::string than it understands.
if(KILN_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(kiln_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>
    -Wno-stringop-overread -Wno-stringop-overflow -Wno-restrict)
endif()

# kiln_group_sources(<target>) has up to 8 sources of one folder compiled together
# where KILN_UNITY_BUILD is set: a third of the time, because templates and
# headers are compiled once for all of them. So names of a file's own are unique
# in its folder. The property SKIP_UNITY_BUILD_INCLUSION keeps a source alone.
function(kiln_group_sources target)
  if(NOT KILN_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "in_${folder}" folder)
    if(NOT DEFINED ${folder})
      set(${folder} 0)
    endif()
    math(EXPR group "${${folder}} / 8")
    math(EXPR ${folder} "${${folder}} + 1")
    set_source_files_properties(${source} PROPERTIES
      UNITY_GROUP ${target}_${folder}_${group})
  endforeach()
endfunction()

# kiln_add_library(<Name> SOURCES <file>... [DEPENDS <Lib>...] [CUDA_HEADERS])
# declares lib/<Name> as the static library Kiln<Name>. DEPENDS names libraries
# to the left in the layer list of docs/design.md, nothing else.
function(kiln_add_library name)
  cmake_parse_arguments(ARG "CUDA_HEADERS" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(Kiln${name} STATIC ${ARG_SOURCES})
  kiln_group_sources(Kiln${name})
  set_target_properties(Kiln${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(Kiln${name} PUBLIC kiln_options)
  kiln_harden(Kiln${name})
  if(KILN_PRECOMPILED_HEADER)
    target_precompile_headers(Kiln${name} REUSE_FROM kiln_precompiled)
  endif()
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(Kiln${name} PUBLIC Kiln${dependency})
  endforeach()
  if(ARG_CUDA_HEADERS)
    target_include_directories(Kiln${name} SYSTEM PRIVATE
      ${KILN_CUDA_INCLUDE_DIR} ${KILN_NVRTC_INCLUDE_DIR})
  endif()
endfunction()

# kiln_add_unittest(<Name> SOURCES <file>... [DEPENDS <Lib>...] [GPU] [OPTIMISED]
#                   [ALONE] [APART <part>...])
# declares Kiln<Name>Tests; ctest gets <Name> (label cpu: every test suite but
# "gpu") and, with GPU, <Name>.gpu (label gpu: the test suite "gpu", reported as
# skipped where there is no GPU). Test cases called "<part>: ..." are not among
# <Name> but make <Name>.<part>, which runs beside it.
#
# A test checks logic, or, if OPTIMISED, the shipped product. CI runs each once:
# tests of logic under the sanitizers, the others on the release build. A test of logic is
# compiled without optimisation and without checks of undefined behaviour, which
# are for the libraries: its own code does not repay them. Exception: on a GPU,
# hosts compute what it is compared with. ALONE: no source of the test is compiled
# together with others.
set(logicTestOptions -O0)
if(KILN_SANITIZERS MATCHES "undefined")
  list(APPEND logicTestOptions -fno-sanitize=undefined)
endif()
function(kiln_add_unittest name)
  cmake_parse_arguments(ARG "GPU;OPTIMISED;ALONE" "" "SOURCES;DEPENDS;APART" ${ARGN})
  set(target Kiln${name}Tests)
  set(kind tests)
  if(ARG_OPTIMISED OR (ARG_GPU AND NOT KILN_SANITIZERS))
    set(kind optimised)
  endif()
  add_executable(${target} ${ARG_SOURCES})
  if(NOT ARG_ALONE)
    kiln_group_sources(${target})
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/unittests)
  target_link_libraries(${target} PRIVATE kiln_options kiln_test_main)
  if(kind STREQUAL tests)
    target_compile_options(${target} PRIVATE ${logicTestOptions})
  endif()
  # Targets without a library of Kiln lack LLVM's too, which the header needs.
  if(KILN_PRECOMPILED_HEADER AND ARG_DEPENDS)
    target_precompile_headers(${target} REUSE_FROM kiln_precompiled_${kind})
  endif()
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} PRIVATE Kiln${dependency})
  endforeach()
  target_compile_definitions(${target} PRIVATE
    KILN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    KILN_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set(parts ${name})
  set(filters "")
  foreach(part IN LISTS ARG_APART)
    list(APPEND filters "${part}: *")
    list(APPEND parts ${name}.${part})
    add_test(NAME ${name}.${part} COMMAND ${target}
             --test-suite-exclude=gpu "--test-case=${part}: *")
  endforeach()
  list(JOIN filters "," filters)
  if(filters)
    set(filters "--test-case-exclude=${filters}")
  endif()
  add_test(NAME ${name} COMMAND ${target} --test-suite-exclude=gpu ${filters})
  # A limit for what hangs; under the sanitizers the longest take minutes.
  set_tests_properties(${parts} PROPERTIES LABELS cpu TIMEOUT 1200)
  if(ARG_GPU)
    add_test(NAME ${name}.gpu COMMAND ${target} --test-suite=gpu)
    set_tests_properties(${name}.gpu PROPERTIES
      LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 600 RESOURCE_LOCK gpu)
    set_property(GLOBAL APPEND PROPERTY KILN_GPU_BINARIES ${target})
  endif()
endfunction()
