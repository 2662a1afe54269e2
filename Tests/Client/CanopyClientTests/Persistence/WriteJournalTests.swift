import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

struct WriteJournalTests {
  private let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder()
  }

  private func change(_ id: Int64, _ value: WriteValue = WriteValue(1)) throws -> StateChange {
    .writeAdded(WriteID(id), try Write.set(Location("a"), value), milliseconds: id * 10)
  }

  private func ids(_ journal: WriteJournal) -> [Int64] { journal.read().writes.map(\.id.number) }

  @Test func `writes are read as they were noted, by the same process and by the next`() throws {
    var random = SeededGenerator(printingSeedFor: "WriteJournalTests")
    var writes = RandomWrites()
    writes.keysMax = 5
    let journal = try WriteJournal(folder: folder.path)
    var noted: [(write: Write, milliseconds: Int64)] = []
    for id in 0..<300 {
      let write = writes.next(&random)
      noted.append((write, Int64(id)))
      try journal.note([
        .writeAdded(WriteID(Int64(id)), write, milliseconds: Int64(id)),
        .writeRemoved(WriteID(7)),
      ])
      if random.oneIn(50) { journal.turn() }
    }
    for journal in [journal, try WriteJournal(folder: folder.path)] {
      let read = journal.read().writes
      try #require(read.map(\.id.number) == (0..<300).map { Int64($0) })
      for (one, other) in zip(read, noted) {
        #expect(one.milliseconds == other.milliseconds)
        #expect(one.write.items.map(\.location) == other.write.items.map(\.location))
        #expect(one.write.items.map(\.value.node) == other.write.items.map(\.value.node))
        #expect(
          one.write.items.map(\.value.serverValues.count)
            == other.write.items.map(\.value.serverValues.count))
      }
    }
  }

  @Test func `the end of a write is noted in either file`() throws {
    let journal = try WriteJournal(folder: folder.path)
    try journal.note([change(1), change(2)])
    journal.turn()
    try journal.note([.writeRemoved(WriteID(2))])
    try journal.note([change(3), .writeRemoved(WriteID(3))])
    let read = journal.read()
    #expect(read.writes.map(\.id.number) == [1, 2, 3])
    #expect(read.removed.map(\.number) == [2, 3])
    journal.clear()
    #expect(journal.read().removed.isEmpty)
  }

  @Test func `the files take turns, and only the older one is cleared`() throws {
    let journal = try WriteJournal(folder: folder.path)
    try journal.note([change(1)])
    journal.turn()
    try journal.note([change(2)])
    journal.clearOlder()
    #expect(ids(journal) == [2])
    journal.turn()
    try journal.note([change(3)])
    #expect(ids(journal) == [2, 3])
    journal.clearOlder()
    #expect(ids(journal) == [3])
    journal.clear()
    #expect(ids(journal).isEmpty)
  }

  @Test func `a file may end anywhere and contain anything`() throws {
    let journal = try WriteJournal(folder: folder.path)
    try journal.note([change(1, WriteValue("tab \t, line feed \n, é")), change(2)])
    let file = URL(filePath: folder.file("writes-0"))
    let whole = try Data(contentsOf: file)
    let first = whole.prefix { $0 != UInt8(ascii: "\n") }.count + 1
    for count in 0...whole.count {
      try whole.prefix(count).write(to: file)
      let expected: [Int64] = count == whole.count ? [1, 2] : count >= first ? [1] : []
      #expect(ids(journal) == expected, "\(count) bytes")
    }
    let damaged = [
      "", "\t", "3", "3\t", "x\t1", "-1\t1", "\(Int64.max)\t1", "3\t1\ta", "3\t1\ta\t{",
      "3\t1\t$\t1",
      "3\t1\ta\t1\ta/b\t1", "\0\0\0",
    ]
    for line in damaged {
      try (Data((line + "\n").utf8) + whole).write(to: file)
      #expect(ids(journal) == [1, 2], "\(line)")
    }
  }

  @Test func `a write that cannot be noted is an error`() throws {
    // A device that is always full, as far as this user may create it.
    guard mknod(folder.file("writes-0"), S_IFCHR | 0o600, dev_t(0x107)) == 0 else { return }
    let journal = try WriteJournal(folder: folder.path)
    let error = #expect(throws: PersistenceError.self) { try journal.note([change(1)]) }
    #expect(error?.description.contains("writes-0 cannot be written") == true)
    journal.turn()
    try journal.note([change(2)])
  }
}
