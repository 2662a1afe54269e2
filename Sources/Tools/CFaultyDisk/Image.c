#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "State.h"

static bool WriteFile(
  const char *folder, const char *name, const unsigned char *bytes, int64_t size
) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool isWritten = pwrite(file, bytes, (size_t)size, 0) == size;
  close(file);
  return isWritten;
}

/// Writes the contents that a file has after a loss of power.
static bool WriteFileImage(
  const FileState *file, const char *folder, int state, uint64_t *random
) {
  Contents contents = {.bytes = NULL, .size = file->stored.size, .exists = file->stored.exists};
  contents.bytes = malloc((size_t)(contents.size > 0 ? contents.size : 1));
  if (!contents.bytes) return false;
  if (contents.size > 0) memcpy(contents.bytes, file->stored.bytes, (size_t)contents.size);
  bool isWritten = true;
  if (state != FaultyDiskAllLost)
    isWritten = ApplyChanges(file, &contents, state == FaultyDiskTorn ? random : NULL);
  if (isWritten && contents.exists)
    isWritten = WriteFile(folder, file->name, contents.bytes, contents.size);
  free(contents.bytes);
  return isWritten;
}

bool FaultyDiskWriteImage(FaultyDisk *disk, const char *folder, int state, uint64_t seed) {
  pthread_mutex_lock(&disk->mutex);
  uint64_t random = seed;
  bool isWritten = true;
  size_t prefix = strlen(disk->folder) + 1;
  for (FileState *file = disk->files; isWritten && file; file = file->next) {
    // Files of other folders below, such as those of a backup, are not part of the image.
    if (strchr(file->path + prefix, '/')) continue;
    isWritten = WriteFileImage(file, folder, state, &random);
  }
  pthread_mutex_unlock(&disk->mutex);
  return isWritten;
}
