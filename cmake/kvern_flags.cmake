# Flags of our own code: warnings are errors, hardening stands in every build, sanitizers by KVERN_SANITIZE.
add_library(kvern_flags INTERFACE)
target_include_directories(kvern_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(kvern_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Woverloaded-virtual
  -Wimplicit-fallthrough -Wvla -Wno-missing-field-initializers -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 reports these falsely inside inlined standard library code.
  target_compile_options(kvern_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow
                         -Wno-array-bounds -Wno-dangling-pointer)
endif()

add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_compile_options(-fstack-protector-strong -fno-omit-frame-pointer)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fcf-protection)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT KVERN_SANITIZE)
  add_compile_definitions(_FORTIFY_SOURCE=2)
endif()
add_link_options(-pie -Wl,-z,relro,-z,now)

if(KVERN_SANITIZE)
  add_compile_options(-fsanitize=${KVERN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVERN_SANITIZE})
endif()

if(KVERN_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage of the rooms, not of the fuzz file alone
endif()

find_program(KVERN_MOLD mold)
if(KVERN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
find_program(KVERN_CCACHE ccache)
if(KVERN_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${KVERN_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KVERN_CCACHE})
endif()
