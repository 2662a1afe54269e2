#ifndef CANOPY_CARGON2_SHIM_H
#define CANOPY_CARGON2_SHIM_H

#include <argon2.h>

#endif
