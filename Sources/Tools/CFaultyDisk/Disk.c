#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "State.h"

/// A file that SQLite has opened. The file of the system's layer follows it in memory.
typedef struct {
  sqlite3_file base;
  FaultyDisk *disk;
  FileState *state;
  /// The failed synchronizations that this descriptor has reported.
  uint64_t reported;
  /// Whether the next synchronization is of the folder as well, as in SQLite's layer for Unix.
  bool syncsFolder;
  bool isLog;
} File;

static sqlite3_vfs *system_vfs;
static sqlite3_vfs layer;
static FaultyDisk *disks;
static pthread_mutex_t disks_mutex = PTHREAD_MUTEX_INITIALIZER;

static sqlite3_file *SystemFile(File *file) { return (sqlite3_file *)(file + 1); }

static FaultyDisk *DiskOf(const char *path) {
  if (!path) return NULL;
  pthread_mutex_lock(&disks_mutex);
  FaultyDisk *disk = disks;
  for (; disk; disk = disk->next) {
    size_t length = strlen(disk->folder);
    if (strncmp(path, disk->folder, length) == 0 && path[length] == '/') break;
  }
  pthread_mutex_unlock(&disks_mutex);
  return disk;
}

static int IndexOf(int operation) {
  int index = 0;
  while (operation >> (index + 1)) index++;
  return index;
}

static const char *const operationNames[] = {
  "open", "read", "write", "sync", "truncate", "delete", "lock",
};

/// Counts an operation. Returns its fault, or 0. Call with the lock.
static int Begin(FaultyDisk *disk, int operation, const char *name) {
  if (disk->hasEnded) return FaultyDiskPowerLoss;
  int64_t number = 0;
  for (int i = 0; i < 7; i++) {
    if (disk->operations >> i & 1) number += disk->counts[i];
  }
  disk->counts[IndexOf(operation)]++;
  if (!disk->fault || !(disk->operations & operation) || number < disk->number) return 0;
  if (number > disk->number && !disk->lasts) return 0;
  if (disk->faults++ == 0) {
    snprintf(
      disk->firstFault, sizeof disk->firstFault, "%s %s", operationNames[IndexOf(operation)], name);
  }
  if (disk->fault == FaultyDiskPowerLoss) disk->hasEnded = true;
  return disk->fault;
}

static int Close(sqlite3_file *handle) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xClose(SystemFile(file));
}

static int Read(sqlite3_file *handle, void *bytes, int length, sqlite3_int64 offset) {
  File *file = (File *)handle;
  pthread_mutex_lock(&file->disk->mutex);
  int fault = Begin(file->disk, FaultyDiskRead, file->state->name);
  pthread_mutex_unlock(&file->disk->mutex);
  if (fault == FaultyDiskShortRead)
    SystemFile(file)->pMethods->xRead(SystemFile(file), bytes, length / 2, offset);
  if (fault) return SQLITE_IOERR_READ;
  return SystemFile(file)->pMethods->xRead(SystemFile(file), bytes, length, offset);
}

/// Writes and remembers bytes. Call with the lock.
static int WriteBytes(File *file, const void *bytes, int length, sqlite3_int64 offset) {
  if (!AddChange(file->state, ChangeWrite, bytes, length, offset)) return SQLITE_IOERR_NOMEM;
  return SystemFile(file)->pMethods->xWrite(SystemFile(file), bytes, length, offset);
}

static int Write(sqlite3_file *handle, const void *bytes, int length, sqlite3_int64 offset) {
  File *file = (File *)handle;
  FaultyDisk *disk = file->disk;
  pthread_mutex_lock(&disk->mutex);
  bool hadEnded = disk->hasEnded;
  int code;
  switch (Begin(disk, FaultyDiskWrite, file->state->name)) {
    case 0: code = WriteBytes(file, bytes, length, offset); break;
    case FaultyDiskFull: code = SQLITE_FULL; break;
    case FaultyDiskShortWrite:
      code = length > 1 ? WriteBytes(file, bytes, length / 2, offset) : SQLITE_OK;
      if (code == SQLITE_OK) code = SQLITE_FULL;
      break;
    case FaultyDiskPowerLoss:
      // The disk may have parts of the write during which the power fails.
      if (!hadEnded) AddChange(file->state, ChangeWrite, bytes, length, offset);
      code = SQLITE_IOERR_WRITE;
      break;
    default: code = SQLITE_IOERR_WRITE;
  }
  pthread_mutex_unlock(&disk->mutex);
  return code;
}

static int Truncate(sqlite3_file *handle, sqlite3_int64 size) {
  File *file = (File *)handle;
  FaultyDisk *disk = file->disk;
  pthread_mutex_lock(&disk->mutex);
  bool hadEnded = disk->hasEnded;
  int fault = Begin(disk, FaultyDiskTruncate, file->state->name);
  int code = fault ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
  if ((!fault || (fault == FaultyDiskPowerLoss && !hadEnded))
    && !AddChange(file->state, ChangeTruncate, NULL, size, 0))
    code = SQLITE_IOERR_NOMEM;
  if (code == SQLITE_OK) code = SystemFile(file)->pMethods->xTruncate(SystemFile(file), size);
  pthread_mutex_unlock(&disk->mutex);
  return code;
}

/// Makes the file read as the disk has it. Call with the lock.
static int Revert(File *file) {
  const Contents *stored = &file->state->stored;
  const sqlite3_io_methods *methods = SystemFile(file)->pMethods;
  sqlite3_int64 size = 0;
  int code = methods->xFileSize(SystemFile(file), &size);
  if (code != SQLITE_OK) return code;
  // The size is not part of the bytes that are lost.
  for (sqlite3_int64 offset = 0; offset < size; offset += SectorBytes) {
    unsigned char sector[SectorBytes] = {0};
    int length = size - offset < SectorBytes ? (int)(size - offset) : SectorBytes;
    if (offset < stored->size) {
      sqlite3_int64 rest = stored->size - offset;
      memcpy(sector, stored->bytes + offset, (size_t)(rest < length ? rest : length));
    }
    code = methods->xWrite(SystemFile(file), sector, length, offset);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

static int Sync(sqlite3_file *handle, int flags) {
  File *file = (File *)handle;
  FaultyDisk *disk = file->disk;
  FileState *state = file->state;
  (void)flags;
  pthread_mutex_lock(&disk->mutex);
  int fault = Begin(disk, FaultyDiskSync, state->name);
  int code = fault ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  switch (fault) {
    case 0:
      if (!StoreChanges(state)) code = SQLITE_IOERR_NOMEM;
      if (file->syncsFolder) StoreDeletes(disk);
      file->syncsFolder = false;
      if (file->reported != state->failures) code = SQLITE_IOERR_FSYNC;
      file->reported = state->failures;
      break;
    case FaultyDiskSyncDropped:
    case FaultyDiskSyncReverted:
      DropChanges(state, &disk->random);
      file->reported = ++state->failures;
      if (fault == FaultyDiskSyncReverted && file->isLog) Revert(file);
      break;
    case FaultyDiskSyncIgnored: code = SQLITE_OK; break;
    default: break;
  }
  pthread_mutex_unlock(&disk->mutex);
  return code;
}

static int FileSize(sqlite3_file *handle, sqlite3_int64 *size) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xFileSize(SystemFile(file), size);
}

static int Lock(sqlite3_file *handle, int level) {
  File *file = (File *)handle;
  pthread_mutex_lock(&file->disk->mutex);
  int fault = Begin(file->disk, FaultyDiskLock, file->state->name);
  pthread_mutex_unlock(&file->disk->mutex);
  if (fault) return SQLITE_IOERR_LOCK;
  return SystemFile(file)->pMethods->xLock(SystemFile(file), level);
}

static int Unlock(sqlite3_file *handle, int level) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xUnlock(SystemFile(file), level);
}

static int CheckReservedLock(sqlite3_file *handle, int *result) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xCheckReservedLock(SystemFile(file), result);
}

static int FileControl(sqlite3_file *handle, int operation, void *argument) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xFileControl(SystemFile(file), operation, argument);
}

static int SectorSize(sqlite3_file *handle) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xSectorSize(SystemFile(file));
}

static int DeviceCharacteristics(sqlite3_file *handle) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xDeviceCharacteristics(SystemFile(file));
}

// The index of the write-ahead log is memory that connections share, and not part of the disk.

static int ShmMap(sqlite3_file *handle, int page, int size, int extends, void volatile **memory) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xShmMap(SystemFile(file), page, size, extends, memory);
}

static int ShmLock(sqlite3_file *handle, int offset, int count, int flags) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xShmLock(SystemFile(file), offset, count, flags);
}

static void ShmBarrier(sqlite3_file *handle) {
  File *file = (File *)handle;
  SystemFile(file)->pMethods->xShmBarrier(SystemFile(file));
}

static int ShmUnmap(sqlite3_file *handle, int deletes) {
  File *file = (File *)handle;
  return SystemFile(file)->pMethods->xShmUnmap(SystemFile(file), deletes);
}

// Version 2 has no memory-mapped reads, which could not be made to fail.
static const sqlite3_io_methods methods = {
  .iVersion = 2, .xClose = Close, .xRead = Read, .xWrite = Write, .xTruncate = Truncate,
  .xSync = Sync, .xFileSize = FileSize, .xLock = Lock, .xUnlock = Unlock,
  .xCheckReservedLock = CheckReservedLock, .xFileControl = FileControl, .xSectorSize = SectorSize,
  .xDeviceCharacteristics = DeviceCharacteristics, .xShmMap = ShmMap, .xShmLock = ShmLock,
  .xShmBarrier = ShmBarrier, .xShmUnmap = ShmUnmap,
};

static int Exists(const char *path) {
  int result = 0;
  if (system_vfs->xAccess(system_vfs, path, SQLITE_ACCESS_EXISTS, &result) != SQLITE_OK) return 0;
  return result;
}

static int Open(
  sqlite3_vfs *vfs, const char *path, sqlite3_file *handle, int flags, int *outFlags
) {
  (void)vfs;
  FaultyDisk *disk = DiskOf(path);
  if (!disk) return system_vfs->xOpen(system_vfs, path, handle, flags, outFlags);
  File *file = (File *)handle;
  memset(file, 0, sizeof(File));
  pthread_mutex_lock(&disk->mutex);
  const char *slash = strrchr(path, '/');
  int code = Begin(disk, FaultyDiskOpen, slash ? slash + 1 : path) ? SQLITE_CANTOPEN : SQLITE_OK;
  if (code == SQLITE_OK) {
    file->disk = disk;
    file->state = FileStateAt(disk, path, Exists(path));
    if (!file->state) code = SQLITE_IOERR_NOMEM;
  }
  if (code == SQLITE_OK) {
    file->reported = file->state->failures;
    int withFolder = SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL;
    file->syncsFolder = (flags & SQLITE_OPEN_CREATE) && (flags & withFolder);
    file->isLog = flags & SQLITE_OPEN_WAL;
    code = system_vfs->xOpen(system_vfs, path, SystemFile(file), flags, outFlags);
  }
  if (code == SQLITE_OK) file->base.pMethods = &methods;
  pthread_mutex_unlock(&disk->mutex);
  return code;
}

static int Delete(sqlite3_vfs *vfs, const char *path, int syncsFolder) {
  (void)vfs;
  FaultyDisk *disk = DiskOf(path);
  if (!disk) return system_vfs->xDelete(system_vfs, path, syncsFolder);
  pthread_mutex_lock(&disk->mutex);
  FileState *state = FileStateAt(disk, path, Exists(path));
  bool hadEnded = disk->hasEnded;
  int fault = Begin(disk, FaultyDiskDelete, state ? state->name : path);
  int code = fault ? SQLITE_IOERR_DELETE : SQLITE_OK;
  if (!state) code = SQLITE_IOERR_NOMEM;
  if (state && (!fault || (fault == FaultyDiskPowerLoss && !hadEnded))
    && !AddChange(state, ChangeDelete, NULL, 0, 0))
    code = SQLITE_IOERR_NOMEM;
  if (code == SQLITE_OK) {
    code = system_vfs->xDelete(system_vfs, path, 0);
    if (syncsFolder) StoreDeletes(disk);
  }
  pthread_mutex_unlock(&disk->mutex);
  return code;
}

FaultyDisk *FaultyDiskCreate(const char *folder) {
  if (sqlite3_initialize() != SQLITE_OK) return NULL;
  FaultyDisk *disk = calloc(1, sizeof(FaultyDisk));
  if (!disk) return NULL;
  disk->folder = strdup(folder);
  pthread_mutex_init(&disk->mutex, NULL);
  pthread_mutex_lock(&disks_mutex);
  if (!system_vfs) {
    system_vfs = sqlite3_vfs_find(NULL);
    layer = *system_vfs;
    layer.pNext = NULL;
    layer.zName = "canopy-faulty-disk";
    layer.szOsFile = (int)sizeof(File) + system_vfs->szOsFile;
    layer.xOpen = Open;
    layer.xDelete = Delete;
    if (sqlite3_vfs_register(&layer, 1) != SQLITE_OK) system_vfs = NULL;
  }
  bool isReady = system_vfs && disk->folder;
  if (isReady) {
    disk->next = disks;
    disks = disk;
  }
  pthread_mutex_unlock(&disks_mutex);
  if (isReady) return disk;
  free(disk->folder);
  free(disk);
  return NULL;
}

void FaultyDiskFree(FaultyDisk *disk) {
  pthread_mutex_lock(&disks_mutex);
  FaultyDisk **link = &disks;
  while (*link && *link != disk) link = &(*link)->next;
  if (*link) *link = disk->next;
  pthread_mutex_unlock(&disks_mutex);
  while (disk->files) {
    FileState *file = disk->files;
    disk->files = file->next;
    ForgetChanges(file);
    free(file->changes);
    free(file->stored.bytes);
    free(file->path);
    free(file);
  }
  free(disk->folder);
  pthread_mutex_destroy(&disk->mutex);
  free(disk);
}

void FaultyDiskPlan(
  FaultyDisk *disk, int fault, int operations, int64_t number, bool lasts, uint64_t seed
) {
  pthread_mutex_lock(&disk->mutex);
  disk->fault = fault;
  disk->operations = operations;
  disk->number = number;
  disk->lasts = lasts;
  disk->random = seed;
  pthread_mutex_unlock(&disk->mutex);
}

void FaultyDiskHeal(FaultyDisk *disk) {
  pthread_mutex_lock(&disk->mutex);
  if (disk->faults > 0) disk->fault = 0;
  pthread_mutex_unlock(&disk->mutex);
}

int64_t FaultyDiskCount(FaultyDisk *disk, int operations) {
  pthread_mutex_lock(&disk->mutex);
  int64_t count = 0;
  for (int i = 0; i < 7; i++) {
    if (operations >> i & 1) count += disk->counts[i];
  }
  pthread_mutex_unlock(&disk->mutex);
  return count;
}

int64_t FaultyDiskFaults(FaultyDisk *disk) {
  pthread_mutex_lock(&disk->mutex);
  int64_t faults = disk->faults;
  pthread_mutex_unlock(&disk->mutex);
  return faults;
}

const char *FaultyDiskFirstFault(FaultyDisk *disk) { return disk->firstFault; }

void FaultyDiskEnd(FaultyDisk *disk) {
  pthread_mutex_lock(&disk->mutex);
  disk->hasEnded = true;
  pthread_mutex_unlock(&disk->mutex);
}

bool FaultyDiskHasEnded(FaultyDisk *disk) {
  pthread_mutex_lock(&disk->mutex);
  bool hasEnded = disk->hasEnded;
  pthread_mutex_unlock(&disk->mutex);
  return hasEnded;
}
