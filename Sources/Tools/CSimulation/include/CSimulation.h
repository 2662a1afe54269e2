#ifndef CANOPY_SIMULATION_H
#define CANOPY_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

// Takes over everything in a process that depends on threads, time or chance: the jobs of Swift's tasks, dispatch queues,
// threads, semaphores, clocks and random bytes. They go to one scheduler, which runs them on one thread.
//
// It works by ELF's rule that a symbol of the program comes before that of a library, and by the hooks of Swift's
// runtime. So the program is the real one: nothing in it knows that it is simulated.

// The receiver of work.
typedef struct {
  // Takes a job of a Swift task, for simulation_run_job.
  void (*job)(void *job);
  // Takes a block of a dispatch queue, for simulation_run_block. A concurrent queue keeps no order.
  void (*block)(void *queue, bool isConcurrent, void *block);
  // Takes a thread that can run, for simulation_run_thread.
  void (*thread)(void *thread);
} SimulationScheduler;

// Makes the hashes of Swift equal in all runs, which begins the program again.
void simulation_prepare(char *const *arguments);
// Takes over the process. There must be no other threads.
void simulation_begin(SimulationScheduler scheduler, uint64_t seed);
// Sets all clocks of the process, in nanoseconds.
void simulation_set_time(int64_t nanoseconds);

void simulation_run_job(void *job);
void simulation_run_block(void *block);
// Runs a thread until it waits or ends.
void simulation_run_thread(void *thread);

// Forks the process. Returns the number of the child, or 0 in the child.
int32_t simulation_fork(void);

#endif
