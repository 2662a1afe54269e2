import CanopySQLite
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyBackup

/// Backups on a disk that is almost full.
@Suite(.timeLimit(.minutes(20))) struct BackupSpaceTests {
  private static let bytesMin: Int64 = 1_000_000

  private let server: Server
  private let log = LineLog()

  init() throws {
    server = try Server()
  }

  /// Returns the keeper of backups on a disk whose free space `freeBytes` reports.
  private func backups(
    every: Duration? = nil, freeBytes: @escaping @Sendable () -> Int64?
  ) throws -> Backups {
    var settings = Backups.Settings()
    settings.every = every
    let maker = try server.maker(
      isServed: true, space: BackupSpace(bytesMin: Self.bytesMin) { _ in freeBytes() })
    return Backups(maker, settings, now: { .zero }, random: { 7 }, logger: log.logger)
  }

  private func bytes(_ folder: String) -> Int64 {
    ["canopy.sqlite", "canopy.sqlite-wal"].reduce(0) { sum, name in
      let attributes = try? FileManager.default.attributesOfItem(atPath: folder + "/" + name)
      return sum + ((attributes?[.size] as? Int64) ?? Int64(attributes?[.size] as? Int ?? 0))
    }
  }

  @Test func `the gap at the end of a damaged log needs no space`() async throws {
    try await server.withStore { store in
      try store.append([commit(1, "a", Node(1))], after: 0)
      let needed = BackupSpace.bytesNeeded(for: [server.folder.path])
      #expect(needed == 2 * bytes(server.folder.path))
      #expect(truncate(server.folder.file("canopy.sqlite-wal"), 1 << 40) == 0)
      #expect(BackupSpace.bytesNeeded(for: [server.folder.path]) < needed + (1 << 24))
    }
  }

  @Test func `a backup for which too little space is free is refused before it begins`()
    async throws
  {
    try await server.withStore { store in
      try store.append([commit(1, "a", Node(1))], after: 0)
      // The second namespace is copied when the backup has the first one.
      let (first, second) = (bytes(server.folder.path), bytes(server.shopFolder))
      let needed = max(2 * first, first + 2 * second)
      let (free, measured) = (Shared(needed + Self.bytesMin - 1), Shared(0))
      let backups = try backups {
        measured.change { $0 += 1 }
        return free.value
      }
      let error = await #expect(throws: BackupError.self) {
        try await backups.make(.requested)
      }
      guard case .lowOnSpace(let text)? = error else {
        Issue.record("\(String(describing: error))")
        return
      }
      #expect(text.contains("needs about \(needed) bytes") && text.contains("remove old backups"))
      #expect(measured.value == 1)
      #expect(try FileManager.default.contentsOfDirectory(atPath: backups.folder).isEmpty)
      #expect(backups.counts.failed == 1 && backups.counts.lowOnSpace == 1)
      free.change { $0 += 1 }
      _ = try await backups.make(.requested)
      #expect(backups.counts.made == 1 && backups.counts.lowOnSpace == 1)
    }
  }

  @Test func `a backup is given up at any step at which the disk has become almost full`()
    async throws
  {
    try await server.withStore { store in
      try store.append([commit(1, "a", Node(1))], after: 0)
      let (measured, full) = (Shared(0), Shared(Int.max))
      let backups = try backups {
        measured.change { $0 += 1 }
        return measured.value >= full.value ? Self.bytesMin - 1 : .max
      }
      let kept = try await backups.make(.requested)
      let steps = measured.value
      // The copy, the check and the archive of each namespace.
      #expect(steps >= 6)
      for step in 2...max(2, steps) {
        measured.change { $0 = 0 }
        full.change { $0 = step }
        server.clock.advance(1_000)
        let error = await #expect(throws: BackupError.self) {
          try await backups.make(.requested)
        }
        guard case .lowOnSpace(let text)? = error else {
          Issue.record("step \(step): \(String(describing: error))")
          continue
        }
        #expect(text.contains("was given up"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: backups.folder) == [kept.name])
      }
      #expect(backups.counts.lowOnSpace == steps - 1)
    }
  }

  @Test func `a disk that does not report its space has no bound`() async throws {
    try await server.withStore { store in
      try store.append([commit(1, "a", Node(1))], after: 0)
      _ = try await backups { nil }.make(.requested)
    }
  }

  @Test func `a backup of the schedule that fails again and again is tried less often`()
    async throws
  {
    try await server.withStore { store in
      try store.append([commit(1, "a", Node(1))], after: 0)
      for (every, expected) in [
        (86_400, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]), (100, [60, 100, 100]),
      ] as [(Int64, [Int64])] {
        let free = Shared<Int64>(0)
        let backups = try backups(every: .seconds(every)) { free.value }
        for backup in try backups.stored() {
          try FileManager.default.removeItem(atPath: backups.folder + "/" + backup.name)
        }
        let clock = StepClock()
        let task = Task { await backups.run(clock: clock) }
        for (number, seconds) in expected.enumerated() {
          await clock.slept(number + 2)
          #expect(clock.sleeps.last == .seconds(seconds), "\(number)")
          #expect(
            log.lines.last?.contains("\"retrySeconds\": \(seconds)") == true,
            "\(log.lines.last ?? "")")
          clock.advance(by: .seconds(seconds))
        }
        await clock.slept(expected.count + 2)
        free.change { $0 = .max }
        clock.advance(by: .seconds(expected[expected.count - 1]))
        await clock.slept(expected.count + 3)
        #expect(backups.counts.made == 1)
        // The next failure is a first one again.
        free.change { $0 = 0 }
        server.clock.advance(every * 1_000)
        clock.advance(by: .seconds(every))
        await clock.slept(expected.count + 4)
        #expect(clock.sleeps.last == .seconds(60))
        task.cancel()
        await task.value
      }
    }
  }
}
