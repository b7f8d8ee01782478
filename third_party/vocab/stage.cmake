# Stages llama-vocab.cpp and its Unicode tables into `dir`, next to empty headers which their own includes then find,
# with three small changes (why: docs/decisions/0003-vendored-jinja-and-vocabulary.md).
function(kvern_stage_vocab source dir)
  foreach(file llama-vocab.h unicode.h unicode-data.cpp unicode-data.h)
    configure_file(${source}/${file} ${dir}/${file} COPYONLY)
  endforeach()
  foreach(file ggml.h gguf.h llama.h llama-impl.h llama-model-loader.h)
    file(CONFIGURE OUTPUT ${dir}/${file} CONTENT "")
  endforeach()
  # Regular expressions are compiled once a thread, not once a text; simple rules are cut by hand (text_cutters.h).
  kvern_stage(${source}/unicode.cpp ${dir}/unicode.cpp
    "std::basic_regex<CharT> expr(regex, regex_flags)"
    "const std::basic_regex<CharT> & expr = compiled<CharT>(regex, regex_flags)"
    "    std::vector<size_t> bpe_offsets;\n\n    if (regex_expr == \"'s|"
    "    std::vector<size_t> bpe_offsets = cut_by_rule(text, regex_expr, offsets);\n\n    if (!bpe_offsets.empty()) {\n    } else if (regex_expr == \"'s|")
  # An exact reserve for every character makes long runs of bytes quadratic.
  kvern_stage(${source}/llama-vocab.cpp ${dir}/llama-vocab.cpp "output.reserve(output.size() + symbol.n)" "")
endfunction()

# kvern_stage(from to [old new]...): a copy with each `old`, which has to be there, replaced.
function(kvern_stage from to)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
  file(READ ${from} text)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 2 ${last} 2)
    math(EXPR j "${i} + 1")
    set(old "${ARGV${i}}")
    set(new "${ARGV${j}}")
    string(FIND "${text}" "${old}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "${from} has changed: `${old}` is not there")
    endif()
    string(REPLACE "${old}" "${new}" text "${text}")
  endforeach()
  file(GENERATE OUTPUT ${to} CONTENT "${text}")
endfunction()
