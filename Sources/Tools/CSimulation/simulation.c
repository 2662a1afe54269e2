#if defined(__linux__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "CSimulation.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static bool isSimulated;
static SimulationScheduler scheduler;
static int64_t now;
static uint64_t randomState;

static _Noreturn void fail(const char *text, const char *detail) {
  fprintf(stderr, "the simulation cannot go on: %s %s\n", text, detail ? detail : "");
  abort();
}

void simulation_prepare(char *const *arguments) {
  if (getenv("SWIFT_DETERMINISTIC_HASHING")) return;
  setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1);
  execv("/proc/self/exe", arguments);
  fail("the program cannot begin again", NULL);
}

// MARK: Tasks

typedef struct {
  void *identity;
  uintptr_t implementation;
} SwiftExecutor;
#define SWIFT_CALL __attribute__((swiftcall))
extern SWIFT_CALL void swift_job_run(void *job, SwiftExecutor executor);

static SWIFT_CALL void enqueue(void *job, void *original) { scheduler.job(job); }

static void setHook(const char *name, void *value) {
  void **hook = dlsym(RTLD_DEFAULT, name);
  if (!hook) fail("Swift's runtime lacks", name);
  *hook = value;
}

void simulation_begin(SimulationScheduler receiver, uint64_t seed) {
  scheduler = receiver;
  randomState = seed;
  isSimulated = true;
  setHook("swift_task_enqueueGlobal_hook", enqueue);
  setHook("swift_task_enqueueMainExecutor_hook", enqueue);
}

void simulation_run_job(void *job) { swift_job_run(job, (SwiftExecutor){NULL, 0}); }

int32_t simulation_fork(void) { return fork(); }

// MARK: Clocks and chance

void simulation_set_time(int64_t nanoseconds) { now = nanoseconds; }

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!isSimulated) return (int)syscall(SYS_clock_gettime, clock, time);
  time->tv_sec = now / 1000000000;
  time->tv_nsec = now % 1000000000;
  return 0;
}

static uint64_t nextRandom(void) {
  uint64_t mixed = randomState += 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

static void fillRandomly(void *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) ((uint8_t *)bytes)[i] = (uint8_t)nextRandom();
}

ssize_t getrandom(void *bytes, size_t count, unsigned flags) {
  if (!isSimulated) return syscall(SYS_getrandom, bytes, count, flags);
  fillRandomly(bytes, count);
  return (ssize_t)count;
}

int getentropy(void *bytes, size_t count) {
  if (!isSimulated) return syscall(SYS_getrandom, bytes, count, 0) < 0 ? -1 : 0;
  fillRandomly(bytes, count);
  return 0;
}

void arc4random_buf(void *bytes, size_t count) { (void)getentropy(bytes, count); }

// MARK: Dispatch queues

struct Block {
  void *isa;
  int flags;
  int reserved;
  void (*invoke)(void *);
};
extern void *_Block_copy(const void *block);
extern void _Block_release(const void *block);
extern void *dispatch_get_global_queue(intptr_t identifier, uintptr_t flags);

void dispatch_async(void *queue, void *block) {
  static void (*original)(void *, void *);
  if (!isSimulated) {
    if (!original) original = dlsym(RTLD_NEXT, "dispatch_async");
    return original(queue, block);
  }
  static const intptr_t classes[] = {0x21, 0x19, 0x15, 0x11, 0x09};
  bool isConcurrent = false;
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    if (queue == dispatch_get_global_queue(classes[i], 0)) isConcurrent = true;
  }
  scheduler.block(queue, isConcurrent, _Block_copy(block));
}

void simulation_run_block(void *block) {
  ((struct Block *)block)->invoke(block);
  _Block_release(block);
}

// MARK: Threads

// A thread has a stack of its own, and runs when the scheduler lets it. It gives way only when it waits for a semaphore.
typedef struct {
  ucontext_t context;
  void *(*start)(void *);
  void *argument;
  void *stack;
  bool hasEnded;
} Thread;

static const size_t stackBytes = 1024 * 1024;
static ucontext_t schedulerContext;
static Thread *current;

static void runThread(void) {
  Thread *thread = current;
  thread->start(thread->argument);
  thread->hasEnded = true;
  swapcontext(&thread->context, &schedulerContext);
}

int pthread_create(
    pthread_t *result, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*original)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!isSimulated) {
    if (!original) original = dlsym(RTLD_NEXT, "pthread_create");
    return original(result, attributes, start, argument);
  }
  // A thread of a library would not come back to the scheduler.
  Dl_info caller, program;
  if (!dladdr(__builtin_return_address(0), &caller) || !dladdr((void *)runThread, &program)
      || caller.dli_fbase != program.dli_fbase) {
    fail("a thread was started by", caller.dli_fname);
  }
  Thread *thread = calloc(1, sizeof *thread);
  if (!thread) return ENOMEM;
  thread->start = start;
  thread->argument = argument;
  thread->stack =
      mmap(NULL, stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (thread->stack == MAP_FAILED) fail("there is no memory for a thread", NULL);
  getcontext(&thread->context);
  thread->context.uc_stack.ss_sp = thread->stack;
  thread->context.uc_stack.ss_size = stackBytes;
  makecontext(&thread->context, runThread, 0);
  *result = (pthread_t)thread;
  scheduler.thread(thread);
  return 0;
}

void simulation_run_thread(void *pointer) {
  Thread *thread = pointer;
  current = thread;
  swapcontext(&schedulerContext, &thread->context);
  current = NULL;
  if (!thread->hasEnded) return;
  munmap(thread->stack, stackBytes);
  free(thread);
}

int setpriority(__priority_which_t which, id_t who, int priority) {
  if (!isSimulated) return (int)syscall(SYS_setpriority, which, who, priority);
  return 0;
}

// MARK: Semaphores

typedef struct {
  unsigned value;
  Thread *waiting;
} Semaphore;

_Static_assert(sizeof(Semaphore) <= sizeof(sem_t), "a semaphore takes no more memory than the system's");

int sem_init(sem_t *semaphore, int isShared, unsigned value) {
  static int (*original)(sem_t *, int, unsigned);
  if (!isSimulated) {
    if (!original) original = dlsym(RTLD_NEXT, "sem_init");
    return original(semaphore, isShared, value);
  }
  *(Semaphore *)semaphore = (Semaphore){value, NULL};
  return 0;
}

int sem_post(sem_t *semaphore) {
  static int (*original)(sem_t *);
  if (!isSimulated) {
    if (!original) original = dlsym(RTLD_NEXT, "sem_post");
    return original(semaphore);
  }
  Semaphore *own = (Semaphore *)semaphore;
  own->value++;
  Thread *waiting = own->waiting;
  own->waiting = NULL;
  if (waiting) scheduler.thread(waiting);
  return 0;
}

int sem_wait(sem_t *semaphore) {
  static int (*original)(sem_t *);
  if (!isSimulated) {
    if (!original) original = dlsym(RTLD_NEXT, "sem_wait");
    return original(semaphore);
  }
  Semaphore *own = (Semaphore *)semaphore;
  while (own->value == 0) {
    if (!current) fail("the scheduler itself waits for a semaphore", NULL);
    Thread *thread = current;
    own->waiting = thread;
    swapcontext(&thread->context, &schedulerContext);
  }
  own->value--;
  return 0;
}

#endif
