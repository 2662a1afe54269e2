import CanopyEngine
import CanopySQLite
import CanopyTesting
import CanopyTree
import CanopyWire
import Foundation
import Logging
import Testing

@testable import CanopyBackup

/// The backups of a running server.
@Suite(.timeLimit(.minutes(20))) struct BackupsTests {
  private let server: Server
  private let log = LineLog()

  init() throws {
    server = try Server()
  }

  private func backups(
    every: Duration? = nil, kept: Int = 3, pace: BackupPace = .unlimited
  ) throws -> Backups {
    var settings = Backups.Settings()
    settings.every = every
    settings.kept = kept
    return Backups(
      try server.maker(isServed: true, pace: pace), settings, now: { .zero }, random: { 7 },
      logger: log.logger)
  }

  private func withServer(_ body: (SQLiteStore) async throws -> Void) async throws {
    try await server.withStore { store in
      try store.append([commit(1, "a", Node(1))], after: 0)
      try await body(store)
    }
  }

  @Test func `the newest backups of each kind are kept, and the oldest removed after a new one`()
    async throws
  {
    try await withServer { _ in
      let backups = try backups()
      for kind in [StoredBackup.Kind.scheduled, .requested] {
        for _ in 1...3 {
          _ = try await backups.make(kind)
          server.clock.advance(1_000)
        }
      }
      let before = try backups.stored()
      #expect(before.count == 6)
      let new = try await backups.make(.scheduled)
      let after = try backups.stored()
      #expect(after == before.filter { $0 != before[0] } + [new])
      #expect(backups.counts.made == 7 && backups.counts.failed == 0)
      for backup in after {
        try BackupFile(backups.folder + "/" + backup.name).unpack(to: nil)
      }
    }
  }

  @Test func `a backup that fails removes no other one, and is reported`() async throws {
    try await withServer { store in
      let backups = try backups(kept: 1)
      let first = try await backups.make(.scheduled)
      server.clock.advance(1_000)
      // The second namespace fails when the first one is complete.
      let database = server.shopFolder + "/canopy.sqlite"
      let data = try Data(contentsOf: URL(filePath: database))
      var damaged = data
      damaged[data.count / 2] ^= 0xFF
      damaged.replaceSubrange(4_096..<4_200, with: Data(repeating: 0xFF, count: 104))
      try damaged.write(to: URL(filePath: database))
      await #expect(throws: (any Error).self) { try await backups.make(.scheduled) }
      #expect(try backups.stored() == [first])
      #expect(try FileManager.default.contentsOfDirectory(atPath: backups.folder) == [first.name])
      #expect(backups.counts.failed == 1 && backups.counts.lastFailure != nil)
      #expect(log.lines.contains { $0.contains("the backup failed") })
      try data.write(to: URL(filePath: database))
      let second = try await backups.make(.scheduled)
      #expect(try backups.stored() == [second])
      #expect(backups.counts.lastFailure == nil)
      _ = store
    }
  }

  @Test(arguments: ["rules.json", "identity-keys", "admin-token", "namespaces/shop/rules.json"])
  func `a backup with rules or a secret that cannot be used fails, and is counted`(name: String)
    async throws
  {
    try await withServer { _ in
      let path = server.folder.file(name)
      let isDamaged = Shared(true)
      let maker = try server.maker(isServed: true) {
        $0 == path && $1 == Array(FileManager.default.contents(atPath: path) ?? Data())
          && isDamaged.value ? "\($0) is damaged" : nil
      }
      let backups = Backups(
        maker, Backups.Settings(), now: { .zero }, random: { 7 }, logger: log.logger)
      await #expect(throws: StoreError.damaged("\(path) is damaged")) {
        try await backups.make(.scheduled)
      }
      #expect(backups.counts.failed == 1 && backups.counts.lastFailure == "\(path) is damaged")
      #expect(try FileManager.default.contentsOfDirectory(atPath: backups.folder).isEmpty)
      isDamaged.change { $0 = false }
      _ = try await backups.make(.scheduled)
      #expect(backups.counts.failed == 1 && backups.counts.made == 1)
    }
  }

  @Test func `a backup with a namespace that the new one lacks stays, unless that was removed`()
    async throws
  {
    try await withServer { _ in
      let shop = try NamespaceName("shop")
      let (hasShop, wasRemoved) = (Shared(true), Shared(false))
      let maker = BackupMaker(
        folder: server.folder.path, isServed: true,
        namespaces: { [folder = server.shopFolder] in hasShop.value ? [(shop, folder)] : [] },
        program: "canopy test", now: { [clock = server.clock] in clock.now }, pace: .unlimited)
      var settings = Backups.Settings()
      settings.kept = 1
      let backups = Backups(
        maker, settings, now: { .zero }, random: { 7 },
        wasRemoved: { $0 == shop && wasRemoved.value },
        logger: log.logger)
      func make() async throws -> StoredBackup {
        server.clock.advance(1_000)
        return try await backups.make(.scheduled)
      }
      let first = try await make()
      hasShop.change { $0 = false }
      let second = try await make()
      #expect(try backups.stored() == [first, second])
      #expect(log.lines.contains { $0.contains("an old backup is kept") && $0.contains("shop") })
      // Another backup without the namespace is not needed.
      let third = try await make()
      #expect(try backups.stored() == [first, third])
      wasRemoved.change { $0 = true }
      let fourth = try await make()
      #expect(try backups.stored() == [fourth])
      // A damaged file does not say whose it is.
      let path = backups.folder + "/" + fourth.name
      try Data("no backup".utf8).write(to: URL(filePath: path))
      let last = try await make()
      #expect(try backups.stored().map(\.name) == [fourth.name, last.name])
    }
  }

  /// Returns the keeper of another server, whose folder of backups is a link to that of the first one.
  private func sharing(
    _ place: String, with other: Server, random: UInt64, _ log: LineLog
  ) throws -> Backups {
    let link = other.folder.file("backups")
    if !FileManager.default.fileExists(atPath: link) {
      try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: place)
    }
    var settings = Backups.Settings()
    settings.kept = 1
    return Backups(
      try other.maker(isServed: true), settings, now: { .zero }, random: { random },
      logger: log.logger)
  }

  @Test func `servers with one folder of backups remove only their own ones, and one at a time`()
    async throws
  {
    let (staging, otherLog) = (try Server(), LineLog())
    let place = server.place.path
    server.clock.advance(10_000)
    staging.clock.advance(20_000)
    try await withServer { _ in
      try await staging.withStore { _ in
        let first = try sharing(place, with: server, random: 7, log)
        let one = try await first.make(.scheduled)
        let second = try sharing(place, with: staging, random: 8, otherLog)
        let error = await #expect(throws: BackupError.self) { try await second.make(.scheduled) }
        #expect(error?.sentence.contains("another server makes its backups") == true)
        first.stop()
        // The remains of the first server may be of a backup that it goes on to make.
        let rest = place + "/.making-\(String(repeating: "0000000000000007", count: 2))"
        for folder in [rest, place + "/.making"] {
          try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false)
        }
        // One of an earlier version has no id, and may be of any server.
        let earlier = StoredBackup(kind: .scheduled, time: 0, sequence: 1, bytes: 0).name
        try FileManager.default.moveItem(
          atPath: try staging.backUp(isServed: true), toPath: place + "/" + earlier)
        for _ in 1...2 {
          staging.clock.advance(1_000)
          _ = try await second.make(.scheduled)
        }
        let files = try server.place.files()
        let stored = try second.stored().map(\.name)
        #expect(stored.count == 3 && stored.contains(earlier), "\(stored)")
        #expect(stored.contains(one.name), "\(stored)")
        #expect(files.count == 5 && files.contains(".making"), "\(files)")
        let lines = otherLog.lines
        #expect(lines.count { $0.contains("backups without the id of the data folder") } == 1)
        #expect(
          lines.contains { $0.contains("an unfinished backup of an earlier version is left") })
      }
    }
  }

  @Test func `the id of a folder is made once, and again if its file has no id`() throws {
    let folder = server.folder.path
    let id = try FolderID.loadOrCreate(in: folder) { 0xAB }
    #expect(id == String(repeating: "00000000000000ab", count: 2))
    #expect(try FolderID.loadOrCreate(in: folder) { 1 } == id)
    for text in ["", id, String(id.dropLast()) + "\n", id.uppercased() + "\n", id + "\n\n"] {
      try server.write(text, FolderID.fileName)
      #expect(try FolderID.loadOrCreate(in: folder) { 0xCD }.hasSuffix("cd"), "\(text)")
    }
  }

  @Test func `a new backup is kept though the clock was set back`() async throws {
    try await withServer { _ in
      let backups = try backups(kept: 1)
      server.clock.advance(100_000)
      _ = try await backups.make(.requested)
      server.clock.advance(-50_000)
      let new = try await backups.make(.requested)
      #expect(try backups.stored() == [new])
    }
  }

  @Test func `backups from a time when the clock was ahead do not take the place of later ones`()
    async throws
  {
    try await withServer { _ in
      let backups = try backups(kept: 3)
      server.clock.advance(1_000_000_000)
      var future: [StoredBackup] = []
      for _ in 1...3 {
        server.clock.advance(1_000)
        future.append(try await backups.make(.scheduled))
      }
      server.clock.advance(-500_000_000)
      #expect(try backups.newest() == nil)
      var made: [StoredBackup] = []
      for count in 1...5 {
        server.clock.advance(1_000)
        made.append(try await backups.make(.scheduled))
        // A whole set takes the place of those of the future.
        let expected = made.suffix(3) + (count < 3 ? future : [])
        #expect(try backups.stored() == Array(expected), "after \(count)")
        #expect(try backups.newest() == made.last)
      }
      #expect(log.lines.count { $0.contains("backups have a time in the future") } == 2)
    }
  }

  @Test func `files of other names are not removed, and do not count`() async throws {
    try await withServer { _ in
      let backups = try backups(kept: 1)
      let first = try await backups.make(.requested)
      let renamed = backups.folder + "/before-the-release.tar"
      try FileManager.default.moveItem(atPath: backups.folder + "/" + first.name, toPath: renamed)
      for _ in 1...2 {
        server.clock.advance(1_000)
        _ = try await backups.make(.requested)
      }
      #expect(try backups.stored().count == 1)
      try BackupFile(renamed).unpack(to: nil)
    }
  }

  @Test func `a second backup at the same time is refused with the progress of the first`()
    async throws
  {
    try await withServer { _ in
      let (entered, leave) = (Gate(), DispatchSemaphore(value: 0))
      let isFirst = Shared(true)
      let backups = try backups(
        pace: BackupPace(
          now: {
            // Called between the steps of the first backup.
            var waits = false
            isFirst.change {
              waits = $0
              $0 = false
            }
            if waits {
              entered.open()
              leave.wait()
            }
            return .zero
          }, pause: { _ in }))
      async let first = backups.make(.requested)
      await entered.pass()
      let error = await #expect(throws: BackupError.self) { try await backups.make(.requested) }
      if case .busy = error {} else { Issue.record("\(String(describing: error))") }
      leave.signal()
      _ = try await first
      #expect(backups.counts.made == 1 && backups.counts.failed == 0)
    }
  }

  @Test func `a server that stops ends its backup after the present step`() async throws {
    try await withServer { _ in
      let stopping = Shared<Backups?>(nil)
      let backups = try backups(
        pace: BackupPace(
          now: {
            stopping.value?.stop()
            return .zero
          }, pause: { _ in }))
      stopping.change { $0 = backups }
      await #expect(throws: BackupError.stopped) { try await backups.make(.requested) }
      #expect(try FileManager.default.contentsOfDirectory(atPath: backups.folder).isEmpty)
      #expect(backups.counts.failed == 0)
      stopping.change { $0 = nil }
    }
  }

  @Test func `a backup takes at most half of the time, and a pause has a bound`() async throws {
    try await withServer { _ in
      // Each look at the clock is so much later than the last one. Work of less than 2 ms adds up.
      for (step, expected) in [(1, 2), (2, 2), (100, 100), (101, 100)] {
        let time = Shared(Duration.zero)
        let pauses = Shared<[Duration]>([])
        let backups = try backups(
          pace: BackupPace(
            now: {
              time.change { $0 += .milliseconds(step) }
              return time.value
            }, pause: { pause in pauses.change { $0.append(pause) } }))
        _ = try await backups.make(.requested)
        #expect(pauses.value.count >= 2)
        #expect(pauses.value.allSatisfy { $0 == .milliseconds(expected) }, "\(pauses.value)")
        backups.stop()
        server.clock.advance(1_000)
      }
    }
  }

  @Test func `the remains of a backup that a crash has interrupted are removed`() async throws {
    try await withServer { _ in
      let backups = try backups()
      let id = String(repeating: "0000000000000007", count: 2)
      let rest = backups.folder + "/.making-\(id)/database"
      try FileManager.default.createDirectory(atPath: rest, withIntermediateDirectories: true)
      try Data([1]).write(to: URL(filePath: rest + "/canopy.sqlite"))
      let made = try await backups.make(.requested)
      #expect(try FileManager.default.contentsOfDirectory(atPath: backups.folder) == [made.name])
    }
  }

  @Test func `the schedule makes a backup when the last one is old enough, also after a restart`()
    async throws
  {
    try await withServer { _ in
      let backups = try backups(every: .seconds(100), kept: 2)
      let clock = StepClock()
      let task = Task { await backups.run(clock: clock) }
      // The first is due at once; then the schedule waits for the next.
      await clock.slept(2)
      #expect(clock.sleeps == [.zero, .seconds(100)])
      #expect(try backups.stored().count == 1)
      for _ in 1...3 {
        server.clock.advance(100_000)
        let sleeps = clock.sleeps.count
        clock.advance(by: .seconds(100))
        await clock.slept(sleeps + 1)
      }
      #expect(backups.counts.made == 4)
      #expect(try backups.stored().count == 2)
      task.cancel()
      await task.value
      // Another process, 30 seconds later.
      server.clock.advance(30_000)
      let next = StepClock()
      let restarted = try self.backups(every: .seconds(100))
      let again = Task { await restarted.run(clock: next) }
      await next.slept(1)
      #expect(next.sleeps == [.seconds(70)])
      again.cancel()
      await again.value
      #expect(restarted.counts.made == 0)
    }
  }

  @Test func `a backup with a time in the future does not put off the schedule after each restart`()
    async throws
  {
    try await withServer { _ in
      server.clock.advance(1_000_000_000)
      let before = try backups()
      _ = try await before.make(.scheduled)
      before.stop()
      server.clock.advance(-500_000_000)
      for (sleep, made) in [(Duration.zero, 1), (.seconds(70), 0)] {
        let backups = try backups(every: .seconds(100))
        let clock = StepClock()
        let task = Task { await backups.run(clock: clock) }
        await clock.slept(1)
        #expect(clock.sleeps.first == sleep)
        if made == 1, clock.sleeps.first == sleep { await clock.slept(2) }
        task.cancel()
        await task.value
        #expect(backups.counts.made == made)
        server.clock.advance(30_000)
      }
    }
  }

  @Test func `a backup of the schedule that fails is tried again after a minute`() async throws {
    try await withServer { _ in
      for (every, retry) in [(100, 60), (10, 10)] as [(Int64, Int64)] {
        let backups = try backups(every: .seconds(every))
        let clock = StepClock()
        // A file in place of the folder makes each backup fail.
        try Data().write(to: URL(filePath: backups.folder))
        let task = Task { await backups.run(clock: clock) }
        await clock.slept(2)
        #expect(clock.sleeps.last == .seconds(retry))
        #expect(backups.counts.failed == 1)
        try FileManager.default.removeItem(atPath: backups.folder)
        clock.advance(by: .seconds(retry))
        await clock.slept(3)
        #expect(backups.counts.made == 1)
        task.cancel()
        await task.value
        try FileManager.default.removeItem(atPath: backups.folder)
      }
    }
  }

  @Test(arguments: [0, 951_782_399_000, 1_795_807_706_000, 4_107_542_400_000] as [Int64])
  func `the name of a backup has its time`(time: Int64) throws {
    let backup = StoredBackup(kind: .scheduled, time: time + 999, sequence: 42, bytes: 5)
    #expect(backup.time == time)
    #expect(StoredBackup(name: backup.name, bytes: 5) == backup)
    for name in [
      backup.name + "x", "x" + backup.name, "scheduled-\(time)-42.tar",
      backup.name.replacing("-42", with: "-042"), backup.name.replacing("scheduled", with: "x"),
    ] {
      #expect(StoredBackup(name: name, bytes: 5) == nil, "\(name)")
    }
  }
}
