#include "State.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t NextRandom(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

static bool Resize(Contents *contents, int64_t size) {
  if (size > contents->size) {
    unsigned char *bytes = realloc(contents->bytes, (size_t)size);
    if (!bytes) return false;
    memset(bytes + contents->size, 0, (size_t)(size - contents->size));
    contents->bytes = bytes;
  }
  contents->size = size;
  return true;
}

static bool Store(Contents *contents, const unsigned char *bytes, int64_t length, int64_t offset) {
  if (offset + length > contents->size && !Resize(contents, offset + length)) return false;
  memcpy(contents->bytes + offset, bytes, (size_t)length);
  return true;
}

static bool ReadFile(const char *path, Contents *contents) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  struct stat status;
  bool isRead = fstat(file, &status) == 0 && Resize(contents, status.st_size)
    && pread(file, contents->bytes, (size_t)status.st_size, 0) == status.st_size;
  contents->exists = true;
  close(file);
  return isRead;
}

FileState *FileStateAt(FaultyDisk *disk, const char *path, bool exists) {
  for (FileState *file = disk->files; file; file = file->next) {
    if (strcmp(file->path, path) == 0) return file;
  }
  FileState *file = calloc(1, sizeof(FileState));
  if (!file) return NULL;
  file->path = strdup(path);
  if (!file->path || (exists && !ReadFile(path, &file->stored))) {
    free(file->path);
    free(file);
    return NULL;
  }
  const char *slash = strrchr(file->path, '/');
  file->name = slash ? slash + 1 : file->path;
  file->next = disk->files;
  disk->files = file;
  return file;
}

bool AddChange(FileState *file, int kind, const void *bytes, int64_t length, int64_t offset) {
  if (file->count == file->capacity) {
    size_t capacity = file->capacity ? 2 * file->capacity : 16;
    Change *changes = realloc(file->changes, capacity * sizeof(Change));
    if (!changes) return false;
    file->changes = changes;
    file->capacity = capacity;
  }
  Change change = {.kind = kind, .offset = offset, .length = length, .bytes = NULL};
  if (kind == ChangeWrite) {
    change.bytes = malloc((size_t)length);
    if (!change.bytes) return false;
    memcpy(change.bytes, bytes, (size_t)length);
  }
  file->changes[file->count++] = change;
  return true;
}

void ForgetChanges(FileState *file) {
  for (size_t i = 0; i < file->count; i++) free(file->changes[i].bytes);
  file->count = 0;
}

/// Whether a change, or a sector of it, is stored.
static bool IsStored(uint64_t *random) { return !random || NextRandom(random) & 1; }

static bool ApplyWrite(const Change *change, Contents *contents, uint64_t *random) {
  for (int64_t done = 0; done < change->length;) {
    int64_t offset = change->offset + done;
    int64_t length = SectorBytes - offset % SectorBytes;
    if (length > change->length - done) length = change->length - done;
    if (IsStored(random) && !Store(contents, change->bytes + done, length, offset)) return false;
    done += length;
  }
  return true;
}

bool ApplyChanges(const FileState *file, Contents *contents, uint64_t *random) {
  // A name that was removed leads to the old file or to the new one, and not to a mixture of them.
  size_t first = 0;
  size_t end = file->count;
  for (size_t i = 0; i < file->count; i++) {
    if (file->changes[i].kind != ChangeDelete) continue;
    if (IsStored(random)) {
      first = i;
    } else {
      end = i;
      break;
    }
  }
  for (size_t i = first; i < end; i++) {
    const Change *change = &file->changes[i];
    switch (change->kind) {
      case ChangeDelete:
        contents->size = 0;
        contents->exists = false;
        break;
      case ChangeTruncate:
        if (!IsStored(random)) break;
        if (!Resize(contents, change->length)) return false;
        contents->exists = true;
        break;
      case ChangeWrite:
        if (!ApplyWrite(change, contents, random)) return false;
        contents->exists = true;
        break;
    }
  }
  return true;
}

bool StoreChanges(FileState *file) {
  bool isStored = ApplyChanges(file, &file->stored, NULL);
  file->stored.exists = true;
  ForgetChanges(file);
  return isStored;
}

void StoreDeletes(FaultyDisk *disk) {
  for (FileState *file = disk->files; file; file = file->next) {
    size_t stored = 0;
    for (size_t i = 0; i < file->count; i++) {
      if (file->changes[i].kind == ChangeDelete) stored = i + 1;
    }
    if (stored == 0) continue;
    file->stored.size = 0;
    file->stored.exists = false;
    for (size_t i = 0; i < stored; i++) free(file->changes[i].bytes);
    file->count -= stored;
    memmove(file->changes, file->changes + stored, file->count * sizeof(Change));
  }
}

bool DropChanges(FileState *file, uint64_t *random) {
  bool isStored = ApplyChanges(file, &file->stored, random);
  ForgetChanges(file);
  return isStored;
}
