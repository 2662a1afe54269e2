#ifndef CANOPY_CEPOLL_SHIM_H
#define CANOPY_CEPOLL_SHIM_H

#include <sys/epoll.h>

/// Waits for events as epoll_pwait2 does, for at most some nanoseconds.
static inline int EpollWait(int descriptor, struct epoll_event *events, int count, long long nanoseconds) {
  struct timespec time = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
  return epoll_pwait2(descriptor, events, count, &time, 0);
}

#endif
