# The walls between libtorch, gRPC and the rest, checked when the build is configured.
#
# 1. A torch-free target reaches libtorch by no link, public or private.
# 2. No target compiles against both libtorch and gRPC/protobuf: torch ships its own, older
#    protobuf headers. Linking both into one program is fine.

set(RAVNEST_TORCH_PATTERN "^(torch|c10)|(/lib|-l)(torch|c10)")
set(RAVNEST_GRPC_PATTERN
  "^(gRPC|protobuf|PkgConfig)::.*(grpc|protobuf)|^(grpc|protobuf)|(/lib|-l)(grpc|protobuf)")

# ravnest_check_links(<target>...): stops the configuration when a wall is broken. The arguments are
# the torch-free targets; those that are not part of this configuration are passed over.
function(ravnest_check_links)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      ravnest_find_way(${target} "${RAVNEST_TORCH_PATTERN}" LINK way)
      if(way)
        message(FATAL_ERROR "[tripwire] expected ${target} without libtorch, got the link\n  ${way}")
      endif()
    endif()
  endforeach()

  ravnest_collect_targets("${CMAKE_SOURCE_DIR}" targets)
  foreach(target IN LISTS targets)
    ravnest_find_way(${target} "${RAVNEST_TORCH_PATTERN}" COMPILE torch_way)
    ravnest_find_way(${target} "${RAVNEST_GRPC_PATTERN}" COMPILE grpc_way)
    if(torch_way AND grpc_way)
      message(FATAL_ERROR "[tripwire] expected ${target} to compile against libtorch or "
                          "gRPC/protobuf, got both:\n  ${torch_way}\n  ${grpc_way}")
    endif()
  endforeach()
endfunction()

# The shortest way "a -> b -> c" from a target to something that matches; empty if there is none.
function(ravnest_find_way start pattern mode out)
  set(${out} "" PARENT_SCOPE)
  set(queue ${start})
  set("way_${start}" ${start})
  while(queue)
    list(POP_FRONT queue here)
    set(properties LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    if(mode STREQUAL "COMPILE" AND NOT here STREQUAL start)
      set(properties INTERFACE_LINK_LIBRARIES)
    endif()
    ravnest_links_of(${here} ${mode} "${properties}" links)
    foreach(link IN LISTS links)
      if(DEFINED "way_${link}")
        continue()
      endif()
      set("way_${link}" "${way_${here}} -> ${link}")
      if(link MATCHES "${pattern}")
        set(${out} "${way_${link}}" PARENT_SCOPE)
        return()
      endif()
      # torch's own targets name a protobuf; what lies behind torch is torch's affair.
      if(TARGET ${link} AND NOT link MATCHES "${RAVNEST_TORCH_PATTERN}")
        list(APPEND queue ${link})
      endif()
    endforeach()
  endwhile()
endfunction()

# What a target links: everything (LINK), or only what is seen when compiling (COMPILE). CMake
# writes the private dependency of a static library as $<LINK_ONLY:...> for its users.
function(ravnest_links_of target mode properties out)
  get_target_property(aliased ${target} ALIASED_TARGET)
  if(aliased)
    set(target ${aliased})
  endif()
  set(links "")
  foreach(property IN LISTS properties)
    get_target_property(values ${target} ${property})
    if(values)
      list(APPEND links ${values})
    endif()
  endforeach()
  if(mode STREQUAL "COMPILE")
    list(FILTER links EXCLUDE REGEX "LINK_ONLY:")
  endif()
  list(TRANSFORM links REPLACE "^(\\$<[^>]*:)+([^:>]+(::[^:>]+)?)>+$" "\\2")
  set(${out} "${links}" PARENT_SCOPE)
endfunction()

function(ravnest_collect_targets directory out)
  get_property(found DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  get_property(children DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(child IN LISTS children)
    ravnest_collect_targets("${child}" more)
    list(APPEND found ${more})
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
