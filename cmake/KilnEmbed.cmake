# kiln_embed_sources(<target> <symbol> <directory> <file>...)
# makes the texts of <file>, named relative to <directory>, part of <target> as
#   llvm::ArrayRef<kiln::EmbeddedSource> kiln::<symbol>();
# which the user declares. The texts go without their prose: see
# lib/Compile/SourceText.h. The files are dependencies: a change rebuilds one
# generated source, nothing else.
set(KILN_EMBED_TOOL "" CACHE FILEPATH
    "A kiln_embed that runs here, for a cross build without an emulator")

function(kiln_embed_sources target symbol directory)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cpp)
  get_filename_component(directory ${directory} ABSOLUTE)
  list(TRANSFORM ARGN PREPEND ${directory}/ OUTPUT_VARIABLE paths)
  # The list travels in a file: a command line has a length limit, and one
  # that did not change keeps its time.
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.list)
  list(JOIN ARGN "\n" lines)
  file(CONFIGURE OUTPUT ${list} CONTENT "${lines}\n" @ONLY)
  set(tool kiln_embed)
  if(KILN_EMBED_TOOL)
    set(tool ${KILN_EMBED_TOOL})
  endif()
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${tool} ${symbol} ${directory} ${list} ${output}
    DEPENDS ${paths} ${list} ${tool}
    COMMENT "Embedding ${symbol}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
