#ifndef CANOPY_CFAULTYDISK_H
#define CANOPY_CFAULTYDISK_H

#include <stdbool.h>
#include <stdint.h>

/// A disk that fails as planned: the files of SQLite below one folder.
///
/// SQLite opens all files through a layer (a VFS) that passes them on to the system's. Below the folder of a disk the
/// layer counts operations, makes planned ones fail, and remembers which bytes a loss of power would leave. Reads see
/// all writes at once, as the page cache of a system shows them. Nothing is really synchronized.
///
/// All functions are safe to call from any thread.
typedef struct FaultyDisk FaultyDisk;

/// The operations, as bits of a set.
enum {
  FaultyDiskOpen = 1,
  FaultyDiskRead = 2,
  FaultyDiskWrite = 4,
  FaultyDiskSync = 8,
  FaultyDiskTruncate = 16,
  FaultyDiskDelete = 32,
  FaultyDiskLock = 64,
};

/// The faults.
enum {
  /// The operation fails with an input/output error. A failed synchronization leaves its writes to the next one.
  FaultyDiskError = 1,
  /// The disk is full: a write stores nothing.
  FaultyDiskFull = 2,
  /// The disk is full in the middle of a write, which stores a part of its bytes.
  FaultyDiskShortWrite = 3,
  /// A read fails after the first half of its bytes.
  FaultyDiskShortRead = 4,
  /// A synchronization fails. Of its writes, the disk has some sectors. The others stay readable, and no later
  /// synchronization writes them. Every other open descriptor of the file receives the error once as well.
  FaultyDiskSyncDropped = 5,
  /// As before, and the sectors of a write-ahead log that the disk does not have read as they were before. (SQLite
  /// reads pages of the database file without a checksum, so it would use old ones.)
  FaultyDiskSyncReverted = 6,
  /// The power fails. All operations from now on fail.
  FaultyDiskPowerLoss = 7,
  /// A synchronization does nothing, and reports success. No disk should do that: it plants a loss.
  FaultyDiskSyncIgnored = 8,
};

/// The states of the unsynchronized writes after a loss of power.
enum {
  /// All of them are lost.
  FaultyDiskAllLost = 0,
  /// Each sector of each write is lost or not.
  FaultyDiskTorn = 1,
  /// The disk has all of them.
  FaultyDiskAllKept = 2,
};

/// Creates a disk for the files in a folder. Registers the layer as SQLite's default at the first call.
///
/// Returns NULL if the system gives no memory, or SQLite refuses.
FaultyDisk *FaultyDiskCreate(const char *folder);

/// Frees a disk. Precondition: SQLite has closed the files in its folder.
void FaultyDiskFree(FaultyDisk *disk);

/// Plans a fault of the operation with a number, counted from 0 among those of a set.
///
/// `lasts` is whether the operations of the set after that one fail as well, until FaultyDiskHeal.
void FaultyDiskPlan(
  FaultyDisk *disk, int fault, int operations, int64_t number, bool lasts, uint64_t seed);

/// Ends the planned faults. Has no effect after a loss of power.
void FaultyDiskHeal(FaultyDisk *disk);

/// Returns the number of operations of a set so far.
int64_t FaultyDiskCount(FaultyDisk *disk, int operations);

/// Returns the number of operations that have failed as planned.
int64_t FaultyDiskFaults(FaultyDisk *disk);

/// Returns the operation and the name of the file that failed first, such as "sync canopy.sqlite-wal"; an empty text
/// before the first fault. Valid until the disk is freed.
const char *FaultyDiskFirstFault(FaultyDisk *disk);

/// Fails the power, if it has not failed.
void FaultyDiskEnd(FaultyDisk *disk);

/// Returns whether the power has failed.
bool FaultyDiskHasEnded(FaultyDisk *disk);

/// Writes the files of SQLite that the disk has after a loss of power into another folder. Returns false if that fails.
bool FaultyDiskWriteImage(FaultyDisk *disk, const char *folder, int state, uint64_t seed);

#endif
