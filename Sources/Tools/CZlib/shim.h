#ifndef CANOPY_CZLIB_SHIM_H
#define CANOPY_CZLIB_SHIM_H

#include <zlib.h>

#endif
