import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyClient

struct SQLitePersistenceTests {
  private let folder: TemporaryFolder
  private var file: String { folder.file("new/client.sqlite") }

  init() throws {
    folder = try TemporaryFolder()
  }

  @Test
  func `recorded state is complete when the file is opened again`()
    throws
  {
    var random = SeededGenerator(printingSeedFor: "SQLitePersistenceTests")
    var writes = RandomWrites()
    writes.keysMax = 5
    writes.bigOnceIn = 100
    var naive = NaiveStore()
    var store = try SQLitePersistence(path: file)
    let specs = [
      QuerySpec(.root), try QuerySpec("a/b"),
      QuerySpec(
        .root,
        try Query(
          order: .child(try Path("x")), lower: .init(.string(Array("é".utf8)), key: "k"),
          limit: .last(3))),
      QuerySpec(.root, try Query(order: .key, upper: .init(.absent, key: "b c"))),
    ]
    var trees: [QuerySpec: Tree] = [:]
    var pending: [WriteID] = []
    for step in 1...600 {
      var changes: [StateChange] = []
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
          let id = WriteID(Int64(step * 10 + changes.count))
          pending.append(id)
          changes.append(.writeAdded(id, writes.next(&random), milliseconds: Int64(step)))
        case 1 where !pending.isEmpty:
          let index = Int.random(in: pending.indices, using: &random)
          changes.append(.writeRemoved(pending.remove(at: index)))
        default:
          // The server sends the assignments that `Tree.apply` returns: see `Assignment`.
          let spec = random.pick(specs)
          let write = writes.next(&random)
          var tree = trees[spec, default: Tree()]
          let reported = tree.apply(write.resolved(in: tree.root, at: 0))
          trees[spec] = tree
          changes.append(.received(spec, reported, sequence: Int64(step)))
        }
      }
      naive.record(changes)
      #expect(try store.record(changes).isEmpty)
      guard random.oneIn(60) || step == 600 else { continue }
      try store.close()
      store = try SQLitePersistence(path: file)
      let (found, expected) = (try store.load(), naive.load())
      try #require(Set(found.queries.keys) == Set(expected.queries.keys))
      for (spec, saved) in expected.queries {
        try #require(found.queries[spec]?.node == saved.node, "\(spec)")
        try #require(found.queries[spec]?.sequence == saved.sequence)
      }
      try #require(found.writes.map(\.id) == expected.writes.map(\.id))
      for (a, b) in zip(found.writes, expected.writes) {
        try #require(a.milliseconds == b.milliseconds)
        try #require(a.write.items.map(\.location) == b.write.items.map(\.location))
        try #require(a.write.items.map(\.value.node) == b.write.items.map(\.value.node))
      }
    }
  }

  @Test func `server values of a pending write are stored unresolved`() throws {
    let json = #"{"n":{".sv":{"increment":2}},"t":{".sv":"timestamp"},"x":1}"#
    let write = try Write.set(Location("a"), try WriteValue(json: json))
    let store = try SQLitePersistence(path: file)
    _ = try store.record([.writeAdded(WriteID(3), write, milliseconds: 1_000)])
    try store.close()
    let saved = try SQLitePersistence(path: file).load()
    var tree = SyncTree(restoring: saved)
    #expect(tree.value(of: try QuerySpec("a"))?.json() == #"{"n":2,"t":1000,"x":1}"#)
    _ = tree.connected()
    guard case .write(WriteID(3), let sent)? = tree.nextRequest() else {
      Issue.record("the write is to be sent")
      return
    }
    #expect(sent.items.first?.value.serverValues.count == 2)
    #expect(tree.write(try Write.set(Location("a"), WriteValue(1)), at: 0).id == WriteID(4))
  }

  @Test
  func `the least recently used data is dropped first, but none in use or to be kept`()
    throws
  {
    let store = try SQLitePersistence(path: file, bytesMax: 1_000)
    let (kept, old, new) = (try QuerySpec("kept"), try QuerySpec("old"), try QuerySpec("new"))
    let data = [Assignment(Path.root.child("x"), Node(String(repeating: "x", count: 396)))]
    let write = try Write.set(Location("w"), WriteValue(Node(String(repeating: "w", count: 5_000))))
    #expect(try store.record([.writeAdded(WriteID(1), write, milliseconds: 0)]).isEmpty)
    for spec in [kept, old] {
      #expect(
        try store.record([
          .listening(spec, true), .received(spec, data, sequence: 1), .listening(spec, false),
          .kept(spec, spec == kept),
        ]).isEmpty)
    }
    let dropped = try store.record([.listening(new, true), .received(new, data, sequence: 1)])
    #expect(dropped == [old])
    let more = data.map { Assignment(Path.root.child("y"), $0.value) }
    #expect(try store.record([.received(new, more, sequence: 2)]).isEmpty, "in use")
    #expect(try store.record([.listening(new, false)]) == [new])
    let saved = try store.load()
    #expect(Set(saved.queries.keys) == [kept])
    #expect(saved.writes.count == 1)
  }

  @Test func `data at the size limit is kept, and one byte more is not`() throws {
    for (bytesMax, isKept) in [(12, true), (11, false)] {
      let folder = try TemporaryFolder()
      let file = folder.file("client.sqlite")
      let store = try SQLitePersistence(path: file, bytesMax: bytesMax)
      let spec = try QuerySpec("a")
      // `bc` and `"12345678"`.
      let data = [Assignment(Path.root.child("bc"), "12345678")]
      let dropped = try store.record([
        .listening(spec, true), .received(spec, data, sequence: 1), .listening(spec, false),
      ])
      #expect(dropped.isEmpty == isKept)
    }
  }

  @Test func `changes are recorded all or none`() throws {
    let store = try SQLitePersistence(path: file)
    let write = try Write.set(Location("a"), WriteValue(1))
    let added = StateChange.writeAdded(WriteID(1), write, milliseconds: 0)
    _ = try store.record([added])
    #expect(throws: (any Error).self) {
      try store.record([.received(try QuerySpec("b"), [Assignment(.root, 1)], sequence: 1), added])
    }
    let saved = try store.load()
    #expect(saved.queries.isEmpty)
    #expect(saved.writes.count == 1)
  }

  @Test func `a damaged file is refused`() throws {
    let store = try SQLitePersistence(path: file)
    let write = try Write.set(Location("a"), WriteValue(1))
    _ = try store.record([.writeAdded(WriteID(1), write, milliseconds: 0x3B9A_CA07)])
    try store.close()
    var data = try Data(contentsOf: URL(filePath: file))
    // The row's columns, a null and an integer of four bytes, become two nulls.
    let row = try #require(data.range(of: Data([3, 0, 4, 0x3B, 0x9A, 0xCA, 0x07])))
    data[row.lowerBound + 2] = 0
    try data.write(to: URL(filePath: file))
    let damaged = try SQLitePersistence(path: file)
    #expect(throws: PersistenceError.self) { try damaged.load() }
  }

  @Test(arguments: [-1, Int64.max / 2 + 1, .max])
  func `a write number close to overflow is refused`(_ number: Int64) throws {
    let store = try SQLitePersistence(path: file)
    let write = try Write.set(Location("a"), WriteValue(1))
    _ = try store.record([.writeAdded(WriteID(Int64.max / 2), write, milliseconds: 0)])
    #expect(try store.load().writes.count == 1)
    _ = try store.record([.writeAdded(WriteID(number), write, milliseconds: 0)])
    #expect(throws: PersistenceError.self) { try store.load() }
  }

  @Test func `a file of another program is not changed, and a file in use is refused`() throws {
    let file = folder.file("foreign.sqlite")
    try Data("not a database, but long enough to be taken for one".utf8).write(
      to: URL(filePath: file))
    #expect(throws: PersistenceError.self) { try SQLitePersistence(path: file) }
    let other = self.file
    let store = try SQLitePersistence(path: other)
    let error = #expect(throws: PersistenceError.self) { try SQLitePersistence(path: other) }
    #expect(error?.description.contains("in use by another process") == true)
    try store.close()
    _ = try SQLitePersistence(path: other)
  }
}
