#ifndef CANOPY_CFAULTYDISK_STATE_H
#define CANOPY_CFAULTYDISK_STATE_H

#include <pthread.h>
#include <stddef.h>

#include "CFaultyDisk.h"

/// The bytes that a disk stores as a whole or not at all.
enum { SectorBytes = 512 };

/// A change of a file that the disk may not have.
typedef struct {
  enum { ChangeWrite, ChangeTruncate, ChangeDelete } kind;
  int64_t offset;
  int64_t length;
  unsigned char *bytes;
} Change;

/// The bytes of a file that the disk has.
typedef struct {
  unsigned char *bytes;
  int64_t size;
  /// Whether the file has its name on the disk.
  bool exists;
} Contents;

/// A file with a name. It stays when SQLite closes it.
typedef struct FileState {
  struct FileState *next;
  char *path;
  const char *name;
  Contents stored;
  Change *changes;
  size_t count;
  size_t capacity;
  /// The number of failed synchronizations, each of which every open descriptor reports once.
  uint64_t failures;
} FileState;

struct FaultyDisk {
  struct FaultyDisk *next;
  pthread_mutex_t mutex;
  char *folder;
  FileState *files;
  int64_t counts[7];
  int fault;
  int operations;
  int64_t number;
  bool lasts;
  bool hasEnded;
  uint64_t random;
  int64_t faults;
  char firstFault[96];
};

/// Returns the next random number (SplitMix64).
uint64_t NextRandom(uint64_t *state);

/// Returns the state of a file, which is created if the file is new. Call with the lock.
FileState *FileStateAt(FaultyDisk *disk, const char *path, bool exists);

/// Adds a change. Returns false if the system gives no memory. Call with the lock.
bool AddChange(FileState *file, int kind, const void *bytes, int64_t length, int64_t offset);

/// Stores all changes, as a synchronization does.
bool StoreChanges(FileState *file);

/// Stores the removals of all files, as a synchronization of the folder does.
void StoreDeletes(FaultyDisk *disk);

/// Stores some sectors of the changes, and forgets the others, as a failed synchronization may.
bool DropChanges(FileState *file, uint64_t *random);

/// Stores changes of a file in `contents`, in their order: each sector if `random` is null or by chance.
bool ApplyChanges(const FileState *file, Contents *contents, uint64_t *random);

/// Forgets all changes.
void ForgetChanges(FileState *file);

#endif
