# kiln-llama: the commands of the engine (CMakeLists.txt).
add_executable(kiln-llama
  llama/BenchCommand.cpp
  llama/ExportCommand.cpp
  llama/LockstepCommand.cpp
  llama/LogitsCommand.cpp
  llama/main.cpp)
target_link_libraries(kiln-llama PRIVATE llama_engine)
if(TARGET llama_http)
  target_sources(kiln-llama PRIVATE llama/ServeCommand.cpp)
  target_link_libraries(kiln-llama PRIVATE llama_http)
else()
  target_sources(kiln-llama PRIVATE llama/NoServeCommand.cpp)
endif()
target_compile_options(kiln-llama PRIVATE -Wall -Wextra)
target_link_options(kiln-llama PRIVATE -static-libstdc++ -static-libgcc)
# The build folder may be moved or copied to the machine with the GPU.
set_target_properties(kiln-llama PROPERTIES
  BUILD_RPATH_USE_ORIGIN ON BUILD_RPATH "$ORIGIN/../lib")
set_property(GLOBAL APPEND PROPERTY KILN_GPU_BINARIES kiln-llama)
# On the stand-in for the driver, which computes nothing.
if(TARGET kiln_fake_cuda AND TARGET kiln_fake_nvrtc)
  # Passes if the shell commands, of which $0 is the program, print `expected`.
  function(kiln_add_llama_test name commands expected)
    add_test(NAME ${name}
      COMMAND sh -c "${commands}" $<TARGET_FILE:kiln-llama>
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(${name} PROPERTIES LABELS cpu TIMEOUT 120
      PASS_REGULAR_EXPRESSION "${expected}"
      ENVIRONMENT "KILN_DRIVER=$<TARGET_FILE:kiln_fake_cuda>;\
KILN_NVRTC=$<TARGET_FILE:kiln_fake_nvrtc>;\
KILN_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache-${name}")
  endfunction()
  # A small model is exported, prepared, captured and served in the mode strict.
  kiln_add_llama_test(Examples.llama "\"$0\" export --model tiny --out \
checkpoint && \"$0\" bench --model checkpoint --mode predict --sequences 5 \
--prompt 70 --new 20 --max-sequences 4 --token-budget 64 --pages 64"
    "5 requests, 350 prompt and 100 new tokens")
  # The same in low precision, from the numbers that its codes stand for.
  kiln_add_llama_test(Examples.llamaTypes "\"$0\" export --model tiny \
--weights fp8 --out types && \"$0\" bench --model types --weights fp8 --head \
e4m3 --kv-cache e4m3 --mode predict --sequences 5 --prompt 70 --new 20 \
--max-sequences 4 --token-budget 64 --pages 64"
    "5 requests, 350 prompt and 100 new tokens")
  kiln_add_llama_test(Examples.llamaHelp
    "\"$0\" --help && \"$0\" bench --help && echo exits with 0"
    "Exit codes:.*Exit codes:.*exits with 0")
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(TARGET llama_http AND Python3_FOUND)
    add_test(NAME Examples.llamaServe COMMAND ${Python3_EXECUTABLE} -B
      ${PROJECT_SOURCE_DIR}/unittests/Examples/serveTest.py
      $<TARGET_FILE:kiln-llama>)
    set_tests_properties(Examples.llamaServe PROPERTIES LABELS cpu TIMEOUT 600
      ENVIRONMENT "KILN_DRIVER=$<TARGET_FILE:kiln_fake_cuda>;\
KILN_NVRTC=$<TARGET_FILE:kiln_fake_nvrtc>")
  endif()
  kiln_add_llama_test(Examples.llamaTwoEngines "\"$0\" export --model tiny \
--out two && KILN_FAKE_DEVICES='NVIDIA H200,NVIDIA H200' \"$0\" bench --model \
two --mode predict --devices 0,1 --sequences 7 --prompt 70 --new 20 \
--max-sequences 4 --token-budget 64 --pages 64"
    "7 requests, 490 prompt and 140 new tokens.*NVIDIA H200.*NVIDIA H200")
  # Two processes share a model, over a stand-in for NCCL.
  function(kiln_add_ranks_test case expected)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/ranks-${case})
    file(MAKE_DIRECTORY ${folder})
    add_test(NAME Examples.llamaRanks.${case}
      COMMAND ${PROJECT_SOURCE_DIR}/unittests/Examples/RanksTest.sh
        $<TARGET_FILE:kiln-llama> $<TARGET_FILE:kiln_fake_nccl> ${case}
      WORKING_DIRECTORY ${folder})
    set_tests_properties(Examples.llamaRanks.${case} PROPERTIES
      LABELS cpu TIMEOUT 300 PASS_REGULAR_EXPRESSION "${expected}"
      ENVIRONMENT "KILN_DRIVER=$<TARGET_FILE:kiln_fake_cuda>;\
KILN_NVRTC=$<TARGET_FILE:kiln_fake_nvrtc>;KILN_CACHE_DIR=${folder}/cache")
  endfunction()
  if(TARGET kiln_fake_nccl)
    kiln_add_ranks_test(starts "20 starts agree")
    kiln_add_ranks_test(starts-nccl "20 starts agree")
    if(TARGET kiln_tool)
      kiln_add_ranks_test(warmed "\"kiln\",\"compiles\":0.*\"ok\":true.*\
\"nccl\",\"compiles\":0.*\"ok\":true")
    endif()
    kiln_add_ranks_test(unshared
      "sums over the ranks are NCCL's: rank 0: .*all-reduce: nccl")
    kiln_add_ranks_test(absent
      "exit code 1: .*rank 1 did not come to a sum over the GPUs")
    kiln_add_ranks_test(killed
      "exit code 1: .*rank 1 \\(process [0-9]*\\) was ended by signal 9")
    kiln_add_ranks_test(ends "exit code 137.kiln-llama: rank 1: another rank.*\
exit code 1.kiln-llama: rank 0: another rank")
    kiln_add_ranks_test(left "kiln-llama: rank 1: rank 0 has ended")
    kiln_add_ranks_test(differ "rank 1 chose other kernels than rank 0")
    kiln_add_ranks_test(missing
      "strict mode has no kernel.*rank 1 .* ended with the exit code 1")
    kiln_add_ranks_test(heads
      "num_key_value_heads 2, which 4 ranks do not divide evenly")
  endif()
  # Set-ups beyond the room are refused, and are not set up for later commands.
  kiln_add_llama_test(Examples.llamaLockstep
    [=["$0" export --model tiny --out lockstep && "$0" lockstep \
--model lockstep --mode predict --batch 4 --context 256 --tokens 64 \
--cache-tokens 1024 <<END
{"do": "setup", "kind": "decode", "batch": 4, "context": 9, "steps": 8}
{"do": "setup", "kind": "decode", "batch": 5, "context": 9, "steps": 8}
{"do": "decode", "steps": 8}
{"do": "setup", "kind": "decode", "batch": 3, "context": 9, "steps": 8}
{"do": "setup", "kind": "decode", "batch": 1, "context": 9, "steps": 248}
{"do": "setup", "kind": "prefill", "sequences": 4, "cached": 0, "tokens": 17}
{"do": "setup", "kind": "prefill", "sequences": 1.5, "cached": 0, "tokens": 1}
{"do": "prefill"}
{"do": "setup", "kind": "decode", "batch": 4, "context": 100, "steps": 8}
{"do": "prefill"}
{"do": "decode", "steps": 9}
{"do": "decode", "steps": 8}
{"do": "quit"}
END]=]
    "batch is 5, expected an integer of 1 to 4.*\
nothing is set up for decoding.*batch is 3, but a block decodes without padding: ask for 4.*\
steps is 248, expected an integer of 1 to 247.*\
tokens is 17, but 4 sequences share a step of 64 tokens.*\
sequences is 1.5, expected.*nothing is set up for prefills.*\
nothing is set up for prefills.*steps is 9, expected.*tokens.*ok.:true")
endif()
