/* The surface `c++`: measure.c as C++, built by CMake with the package of an installed export. */
#include "measure.c"
