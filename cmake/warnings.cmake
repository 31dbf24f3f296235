# Warnings and sanitizers for our own targets: target_link_libraries(x PRIVATE peerwin_flags). Never installed.
add_library(peerwin_flags INTERFACE)
target_compile_options(peerwin_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wundef -Wvla)
if(PEERWIN_WERROR)
  target_compile_options(peerwin_flags INTERFACE -Werror)
endif()
if(PEERWIN_SANITIZE)
  target_compile_options(peerwin_flags INTERFACE
    -fsanitize=${PEERWIN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(peerwin_flags INTERFACE -fsanitize=${PEERWIN_SANITIZE})
endif()
