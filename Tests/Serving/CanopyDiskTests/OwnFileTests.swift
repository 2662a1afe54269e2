import CanopyBackup
import CanopyEngine
import CanopyRules
import CanopySQLite
import CanopySession
import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Files that Canopy writes without SQLite, on a disk that fails. `FaultyDiskTests` has the runs with all of them.
///
/// `Scripts/disk-test` interrupts a start at each step. Here it is interrupted at each third one.
@Suite(.serialized, .timeLimit(.minutes(20))) struct OwnFileTests {
  /// Quotes a text as an argument of a line.
  private func quoted(_ text: String) -> String { "\"\(text.replacing("\"", with: "\\\""))\"" }

  @Test func `rules that could not be stored are not those of the next start either`() async throws
  {
    let (first, second) = (#"{"rules":{".read":true}}"#, #"{"rules":{".read":false}}"#)
    var failed: Set<String> = []
    for number in 0..<16 {
      let folder = try TemporaryFolder()
      let disk = try Disk(folder)
      let server = try await DiskServer.start(folder.path, clock: ManualClock(), seed: 1)
      var expected = first
      try await server.serve { port in
        let client = try await port.connectAsAdministrator()
        try await client.value("RULES \(quoted(first))")
        disk.plan(.fileError, at: disk.count(.fileError) + number, seed: 1)
        let reply = try await client.request("RULES \(quoted(second))")
        if reply.hasPrefix("+") { expected = second } else { #expect(disk.faults == 1, "\(reply)") }
        #expect(try await client.value("RULES")["text"]?.string == expected, "\(reply)")
      }
      disk.heal()
      try await server.stop()
      let file = FileManager.default.contents(atPath: folder.file(RulesKeeper.fileName))
      let contents = RulesFile(Array(file ?? Data()))
      let kept = String(decoding: contents.body, as: UTF8.self)
      #expect(contents.isIntact && kept == expected, "\(disk.firstFault)")
      if expected == first { failed.insert(disk.firstFault) }
    }
    // Five calls are for the temporary file: remove an old one, create, write, synchronize and rename it. The other two
    // open and synchronize the folder.
    #expect(failed.count == 7, "\(failed)")
  }

  @Test func `a start that is interrupted at any step is completed by the next one`() async throws {
    var random = SeededGenerator(printingSeedFor: "OwnFileTests.starts")
    var (starts, unstarted) = (0, 0)
    let isWhole = ProcessInfo.processInfo.environment["CANOPY_DISK_EVERY"] != nil
    for fault in [DiskFault.powerLoss, .filePowerLoss] {
      let step = isWhole || fault == .filePowerLoss ? 1 : 3
      var number = Int.random(in: 0..<step, using: &random)
      while true {
        let (folder, clock) = (try TemporaryFolder(), ManualClock())
        let disk = try Disk(folder)
        disk.plan(fault, at: number, seed: random.next())
        let server = try? await DiskServer.start(folder.path, clock: clock, seed: 1)
        disk.end()
        try? await server?.stop()
        // A kill leaves all writes, and a loss of power some of them.
        let others = [PowerLoss.torn, .allLost].filter { _ in random.oneIn(6) }
        for loss in [.allKept] + others {
          let image = try disk.image(loss, seed: random.next())
          starts += 1
          do {
            if try await isUnstarted(image) { unstarted += 1 }
            try await DiskServer.start(image.path, clock: clock, seed: 2).stop()
            #expect(try await !isUnstarted(image), "\(disk.firstFault), \(loss)")
          } catch StoreError.damaged(let text) {
            // The first page of the file may be torn.
            #expect(loss == .torn && text.contains("does not begin as a database does"), "\(text)")
          }
        }
        if server != nil { break }
        number += step
      }
      #expect(number > (fault == .powerLoss ? 30 : 5))
    }
    #expect(unstarted > 0 && unstarted < starts)
  }

  @Test func `a backup that fails at any step leaves the older one with its name, or the new one`()
    async throws
  {
    var (number, replaced) = (0, 0)
    while true {
      let (folder, place) = (try TemporaryFolder(), try TemporaryFolder())
      try SQLiteStore(folder: folder.path).close()
      let path = place.file("monday.tar")
      func make(_ time: Int64) throws {
        let maker = BackupMaker(
          folder: folder.path, isServed: false, namespaces: { [] }, program: "test",
          now: { time }, pace: .unlimited)
        _ = try maker.make(in: place.file(".work")) { _ in path }
      }
      try make(1_000)
      let disk = try Disk(place)
      disk.plan(.fileError, at: number, seed: 1)
      let result = Result { try make(2_000) }
      let time = try BackupFile(path).unpack(to: nil).time
      #expect(try place.files() == ["monday.tar"], "\(disk.firstFault)")
      guard case .failure(let error) = result else {
        #expect(time == 2_000 && disk.faults == 0)
        break
      }
      if time == 2_000 {
        replaced += 1
        let sentence = (error as? BackupError)?.sentence ?? ""
        #expect(sentence.contains("\(path) is the backup, but its name may be lost"), "\(error)")
      }
      number += 1
    }
    // The folder is opened and synchronized behind the renaming.
    #expect(replaced == 2 && number > 4)
  }

  /// Reads a folder, which must have no damage. Returns whether it has no data yet.
  private func isUnstarted(_ folder: TemporaryFolder) async throws -> Bool {
    let store: SQLiteStore
    do { store = try SQLiteStore.reading(folder.path) } catch StoreError.unstarted { return true }
    #expect(store.losses == [])
    #expect(try await store.problems() == [])
    try store.close()
    return false
  }
}
