#ifndef CANOPY_CLIBPQ_SHIM_H
#define CANOPY_CLIBPQ_SHIM_H

#include <libpq-fe.h>

#endif
