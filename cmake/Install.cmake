# Where things go: into a virtual environment (`cmake --install build/release --prefix .venv`), or
# into a wheel, whose builder names the folders.
if(SKBUILD)
  set(RAVNEST_INSTALL_BIN "${SKBUILD_SCRIPTS_DIR}")
  set(RAVNEST_INSTALL_PYTHON ".")
else()
  set(RAVNEST_INSTALL_BIN bin)
  set(RAVNEST_INSTALL_PYTHON
    "lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages")
endif()
