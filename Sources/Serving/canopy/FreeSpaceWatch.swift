import CanopySession
import CanopySystem
import Foundation
import Logging
import ServiceLifecycle

/// The service that measures the free space of the disk with the data folder: each second, and ten times a second while
/// less than four times the bound is free, because a disk fills fast.
struct FreeSpaceWatch: Service {
  private let space: FreeSpace
  private let folder: String
  private let logger: Logger

  /// Measures once, so that the first requests meet the bound.
  init(_ space: FreeSpace, of settings: Serve.Settings) {
    self.space = space
    folder = settings.folder
    logger = settings.logger
    note(DiskSpace.freeBytes(of: folder))
  }

  func run() async {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        let isNear = space.bytes.map { $0 / 4 < space.bytesMin } ?? false
        try? await Task.sleep(for: isNear ? .milliseconds(100) : .seconds(1))
        note(await measure())
      }
    }
  }

  /// Measures on a thread of its own: a disk that does not answer must not block one that tasks share.
  private func measure() async -> Int64? {
    await withCheckedContinuation { continuation in
      let started = WorkerThread.start { [folder] in
        continuation.resume(returning: DiskSpace.freeBytes(of: folder))
      }
      if !started { continuation.resume(returning: nil) }
    }
  }

  private func note(_ bytes: Int64?) {
    guard let bytes, let isLow = space.note(bytes) else { return }
    if isLow {
      logger.error(
        "the disk is almost full: writes are refused until there is space again",
        metadata: ["freeBytes": "\(bytes)", "bytesMin": "\(space.bytesMin)"])
    } else {
      logger.notice(
        "the disk has space again: writes are accepted", metadata: ["freeBytes": "\(bytes)"])
    }
  }
}
