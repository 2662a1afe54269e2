#ifndef CANOPY_CEPOLL_SHIM_H
#define CANOPY_CEPOLL_SHIM_H

#include <sys/epoll.h>

#endif
