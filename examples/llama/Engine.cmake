# kiln-llama: the commands of the engine (CMakeLists.txt).
add_executable(kiln-llama
  llama/BenchCommand.cpp
  llama/ExportCommand.cpp
  llama/LockstepCommand.cpp
  llama/LogitsCommand.cpp
  llama/Options.cpp
  llama/main.cpp)
target_link_libraries(kiln-llama PRIVATE llama_engine)
target_compile_options(kiln-llama PRIVATE -Wall -Wextra)
target_link_options(kiln-llama PRIVATE -static-libstdc++ -static-libgcc)
# The build folder may be moved or copied to the machine with the GPU.
set_target_properties(kiln-llama PROPERTIES
  BUILD_RPATH_USE_ORIGIN ON BUILD_RPATH "$ORIGIN/../lib")
set_property(GLOBAL APPEND PROPERTY KILN_GPU_BINARIES kiln-llama)
# On the stand-in for the driver, which computes nothing, a small model is
# exported, prepared, captured and served in the mode strict.
if(TARGET kiln_fake_cuda AND TARGET kiln_fake_nvrtc)
  add_test(NAME Examples.llama
    COMMAND sh -c "\"$0\" export --model tiny --out checkpoint && \"$0\" \
bench --model checkpoint --mode predict --sequences 5 --prompt 70 --new 20 \
--max-sequences 4 --token-budget 64 --pages 64" $<TARGET_FILE:kiln-llama>
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(Examples.llama PROPERTIES LABELS cpu TIMEOUT 120
    PASS_REGULAR_EXPRESSION "5 requests, 350 prompt and 100 new tokens"
    ENVIRONMENT "KILN_DRIVER=$<TARGET_FILE:kiln_fake_cuda>;\
KILN_NVRTC=$<TARGET_FILE:kiln_fake_nvrtc>;\
KILN_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/cache-llama")
endif()
