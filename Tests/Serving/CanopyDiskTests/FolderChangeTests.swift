import CanopyBackup
import CanopyEngine
import CanopySQLite
import CanopySystem
import CanopyTesting
import CanopyTree
import Foundation
import GRDB
import Testing

@testable import struct canopy.Backup

/// Files and folders that get another name, on a disk that fails. The disk has the new name when the call succeeds.
@Suite(.serialized, .timeLimit(.minutes(20))) struct FolderChangeTests {
  /// Makes a change in a new folder again and again. Each time the next call that changes own files fails once.
  ///
  /// - Parameters:
  ///   - renames: the number of renamings of the change.
  ///   - check: checks the folder after a change with a fault. `hasFailed` says whether the change has thrown an error.
  private func withFaults(
    renames: Int, _ prepare: (TemporaryFolder) throws -> Void,
    _ change: (TemporaryFolder) throws -> Void,
    check: (_ folder: TemporaryFolder, _ hasFailed: Bool, _ fault: String) throws -> Void
  ) throws {
    var number = 0
    while true {
      let folder = try TemporaryFolder()
      try prepare(folder)
      let disk = try Disk(folder)
      disk.plan(.fileError, at: number, seed: 1)
      var hasFailed = false
      do { try change(folder) } catch { hasFailed = true }
      disk.heal()
      guard disk.faults > 0 else {
        #expect(!hasFailed)
        #expect(disk.ownFiles.count([.rename]) == renames)
        #expect(disk.ownFiles.unsynchronizedFolders == [])
        return
      }
      try check(folder, hasFailed, disk.firstFault)
      number += 1
    }
  }

  private func write(_ text: String, to path: String) throws {
    try FileManager.default.createDirectory(
      atPath: URL(filePath: path).deletingLastPathComponent().path,
      withIntermediateDirectories: true)
    try Data(text.utf8).write(to: URL(filePath: path))
  }

  private func text(_ path: String) -> String? {
    FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `the backup of a server is moved to its file, and never lost`() throws {
    try withFaults(renames: 1) { folder in
      try write("new", to: folder.file("backups/made.tar"))
      try write("old", to: folder.file("file.tar"))
    } _: { folder in
      try Backup.move(
        folder.file("backups/made.tar"), to: folder.file("file.tar"),
        through: folder.file("file.tar.part"))
    } check: { folder, hasFailed, fault in
      #expect(hasFailed, "\(fault)")
      let (made, file) = (text(folder.file("backups/made.tar")), text(folder.file("file.tar")))
      #expect(made == nil ? file == "new" : (made == "new" && file == "old"), "\(fault)")
    }
  }

  @Test func `an empty folder is filled, the database last, or stays empty`() throws {
    try withFaults(renames: 3) { folder in
      for name in ["canopy.sqlite", "canopy.tail", "namespaces/shop/canopy.sqlite"] {
        try write(name, to: folder.file("data/.restoring-1/\(name)"))
      }
    } _: { folder in
      try NewFolder(folder.file("data")).fill(from: folder.file("data/.restoring-1"))
    } check: { folder, hasFailed, fault in
      #expect(hasFailed, "\(fault)")
      let names = try FileManager.default.contentsOfDirectory(atPath: folder.file("data")).sorted()
      // Only the name of the database is not on the disk yet.
      let isFilled = !names.contains(".restoring-1")
      #expect(
        names == (isFilled ? ["canopy.sqlite", "canopy.tail", "namespaces"] : [".restoring-1"]),
        "\(fault)")
      #expect(!isFilled || fault.hasPrefix("sync ") || fault.hasPrefix("open "), "\(fault)")
    }
  }

  @Test func `a folder that is restored or repaired is on the disk before it gets its name`() throws
  {
    var synchronized: Set<String> = []
    try withFaults(renames: 1) { folder in
      for name in ["canopy.sqlite", "rules.json", "namespaces/shop/canopy.sqlite"] {
        try write(name, to: folder.file("filling/\(name)"))
      }
    } _: { folder in
      try NewFolder(folder.file("data")).fill(from: folder.file("filling"))
    } check: { folder, hasFailed, fault in
      #expect(hasFailed, "\(fault)")
      if fault.hasPrefix("sync ") { synchronized.insert(fault) }
      let hasName = FileManager.default.fileExists(atPath: folder.file("data"))
      // Only the name itself is not on the disk yet.
      #expect(hasName == (fault == "open " || fault == "sync "), "\(fault)")
    }
    #expect(
      synchronized.map { $0.dropFirst(5) }.sorted() == [
        "", "filling", "filling/canopy.sqlite", "filling/namespaces", "filling/namespaces/shop",
        "filling/namespaces/shop/canopy.sqlite", "filling/rules.json",
      ])
  }

  @Test func `a folder is created on the disk, or not at all`() throws {
    // `canopy.tail` is renamed, and then the folder.
    try withFaults(renames: 2) { _ in
    } _: { folder in
      try FileManager.default.createDirectory(
        atPath: folder.file("namespaces"), withIntermediateDirectories: false)
      try SQLiteStore.create(
        folder: folder.file("namespaces/shop"), through: folder.file("namespaces/.new-shop"))
    } check: { folder, hasFailed, fault in
      guard hasFailed else { return }
      let names = try FileManager.default.contentsOfDirectory(atPath: folder.file("namespaces"))
      #expect(names == [], "\(fault)")
    }
  }

  @Test func `a folder is removed from the disk, or an error is reported`() throws {
    try withFaults(renames: 1) { folder in
      try SQLiteStore(folder: folder.file("shop")).close()
    } _: { folder in
      try SQLiteStore.remove(folder: folder.file("shop"), through: folder.file(".removed-shop"))
    } check: { folder, hasFailed, fault in
      let names = try folder.files()
      #expect(names == (hasFailed ? ["shop"] : []), "\(fault)")
    }
  }

  @Test func `a log in the place of the own one gets another name on the disk`() throws {
    // `canopy.tail` is renamed at the start, and the log at the end.
    try withFaults(renames: 2) { _ in
    } _: { folder in
      let log = folder.file("canopy.sqlite-wal")
      let store = try SQLiteStore(folder: folder.path)
      try store.append([try commit(1)], after: 0)
      let old = try Data(contentsOf: URL(filePath: log))
      try store.append([try commit(2)], after: 1)
      try FileManager.default.removeItem(atPath: log)
      try old.write(to: URL(filePath: log))
      try store.close()
    } check: { folder, _, fault in
      // The file that is not its own stays under one of both names.
      let names = try folder.files()
      let isReplaced = names.contains("canopy.sqlite-wal.replaced")
      #expect(isReplaced || names.contains("canopy.sqlite-wal"), "\(fault) \(names)")
      guard let queue = try? DatabaseQueue(path: folder.file("canopy.sqlite")), isReplaced else {
        return
      }
      let count = try queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM commits") }
      #expect(count == 2, "\(fault)")
      try queue.close()
    }
  }

  /// Fills a folder, and damages a page.
  private func makeDamaged(_ folder: TemporaryFolder) throws {
    let store = try SQLiteStore(folder: folder.path)
    for number in 1...300 as ClosedRange<Int64> {
      try store.append([try commit(number)], after: number - 1)
    }
    try store.close()
    let database = URL(filePath: folder.file("canopy.sqlite"))
    var data = try Data(contentsOf: database)
    data.replaceSubrange(data.count - 4_096..<data.count, with: Data(repeating: 0xFF, count: 4_096))
    try data.write(to: database)
  }

  private func acceptLosses(_ folder: TemporaryFolder, _ log: LineLog = LineLog()) throws {
    var configuration = SQLiteStore.Configuration()
    configuration.acceptsLoss = true
    configuration.logger = log.logger
    try SQLiteStore(folder: folder.path, configuration: configuration).close()
  }

  @Test func `the file with salvaged rows takes the place of the damaged one on the disk`() throws {
    let folder = try TemporaryFolder()
    try makeDamaged(folder)
    let disk = try Disk(folder)
    try acceptLosses(folder)
    #expect(try folder.files().contains("damaged-1.sqlite"))
    #expect(disk.ownFiles.count([.rename]) == 2)
    #expect(disk.ownFiles.unsynchronizedFolders == [])
  }

  @Test func `a damaged file is kept once and with a line in the log, whatever fails`() throws {
    // The copy and the salvaged file are renamed.
    try withFaults(renames: 2) { folder in
      try makeDamaged(folder)
    } _: { folder in
      let log = LineLog()
      defer {
        let copies = (try? folder.files().filter { $0.contains("damaged") }) ?? []
        let lines = log.lines.filter { $0.contains("the damaged file is kept") }
        #expect(copies == (lines.isEmpty ? [] : ["damaged-1.sqlite"]))
      }
      try acceptLosses(folder, log)
    } check: { folder, _, fault in
      for _ in 0..<2 { try acceptLosses(folder) }
      let copies = try folder.files().filter { $0.contains("damaged") }
      #expect(copies == ["damaged-1.sqlite"], "\(fault)")
    }
  }

  private func commit(_ sequence: Int64) throws -> Commit {
    let location = try Location("n")
    return Commit(
      sequence: sequence, time: sequence,
      assignments: [Assignment(location, Node(String(repeating: "a", count: 2_000)))],
      beforeImage: [Assignment(location, .absent)])
  }
}
