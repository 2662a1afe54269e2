import CanopyTree
import NIOCore
import NIOEmbedded
import Testing

@testable import CanopyEngine
@testable import CanopyEvents
@testable import CanopyLineServer

/// The bound on the events that wait for an event loop.
struct PendingEventsTests {
  /// Commits to one place, one after the other.
  private struct Commits {
    private var tree = Tree()
    private var sequence: Int64 = 0

    mutating func next(bytes: Int = 0, memory: Int = 0) throws -> CommittedChange {
      let before = tree.root
      sequence += 1
      let assignments = [Assignment(Location(try Path("a")), Node(sequence))]
      tree.apply(assignments)
      let commit = Commit(sequence: sequence, time: 0, assignments: assignments)
      let change = Change(
        commit: commit, views: ConcernedViews(), before: before, after: tree.root)
      return CommittedChange(change, bytes: bytes, memory: memory)
    }
  }

  /// Returns the sequence numbers of the commits; nil for a call.
  private static func sequences(_ events: PendingEvents) -> [Int64?] {
    events.events.map { event in
      switch event {
      case .notification(_, let notification, _): notification.sequence
      case .change(let change): change.sequence
      case .call: nil
      }
    }
  }

  @Test func `commits within the bound stay as they are, and one more merges all`() throws {
    var commits = Commits()
    var events = PendingEvents(bytesMax: 10 * PendingEvents.eventBytes)
    for _ in 0..<10 { events.append(.change(try commits.next())) }
    #expect(Self.sequences(events) == Array(1...10))
    events.append(.change(try commits.next()))
    #expect(Self.sequences(events) == [11])
    #expect(events.bytes < 2 * PendingEvents.eventBytes)
    guard case .change(let merged)? = events.events.first else { return }
    let listening = Listening(try Path("a"), form: .value)
    #expect(merged.events(for: listening) == [.value(11)])
    #expect(events.take().count == 1 && events.isEmpty && events.bytes == 0)
  }

  @Test func `large commits are merged when few of them wait`() throws {
    var commits = Commits()
    var events = PendingEvents(bytesMax: 1_000_000)
    events.append(.change(try commits.next(bytes: 900_000)))
    #expect(Self.sequences(events) == [1])
    events.append(.change(try commits.next(bytes: 900_000)))
    #expect(Self.sequences(events) == [2])
    #expect(events.bytes < 10_000)
  }

  @Test func `commits count with the memory of their values`() throws {
    var commits = Commits()
    var events = PendingEvents(bytesMax: 1_000_000)
    events.append(.change(try commits.next(bytes: 100, memory: 900_000)))
    #expect(Self.sequences(events) == [1])
    events.append(.change(try commits.next(bytes: 100, memory: 900_000)))
    #expect(Self.sequences(events) == [2])
  }

  @Test func `commits are not merged across a call`() throws {
    var commits = Commits()
    var events = PendingEvents(bytesMax: 10 * PendingEvents.eventBytes)
    for index in 0..<9 {
      if index == 4 { events.append(.call {}) }
      events.append(.change(try commits.next()))
    }
    #expect(Self.sequences(events) == [1, 2, 3, 4, nil, 5, 6, 7, 8, 9])
    events.append(.change(try commits.next()))
    #expect(Self.sequences(events) == [4, nil, 10])
  }

  @Test func `the notifications of a commit become the commit before commits are merged`()
    async throws
  {
    let loop = NIOAsyncTestingEventLoop()
    try await loop.executeInContext {
      var commits = Commits()
      let listenings = try (0..<20).map { Listening(try Path("a/\($0)")) }
      var events = PendingEvents(bytesMax: 50 * PendingEvents.eventBytes)
      for _ in 0..<3 {
        let change = try commits.next()
        for (index, listening) in listenings.enumerated() {
          let view = LocalView(listening, Limits(), number: index)
          events.append(
            .notification(
              .init(view, eventLoop: loop), change.notification(for: listening), change))
        }
      }
      // The eleventh notification of the third commit reduces the list. The commit then stands for its other
      // views as well.
      #expect(Self.sequences(events) == [1, 2, 3])
    }
    await loop.shutdownGracefully()
  }

  @Test func `the memory is bounded however many commits wait, and the work is linear`() throws {
    var commits = Commits()
    var events = PendingEvents(bytesMax: 100 * PendingEvents.eventBytes)
    var reductions = 0
    for _ in 0..<20_000 {
      let before = events.events.count
      events.append(.change(try commits.next()))
      if events.events.count <= before { reductions += 1 }
      #expect(events.events.count <= 100)
      #expect(events.bytes <= 100 * PendingEvents.eventBytes)
    }
    #expect(reductions < 20_000 / 90)
    #expect(Self.sequences(events).last == 20_000)
  }

  @Test func `a list that is moved to another keeps the order and the bound`() throws {
    var commits = Commits()
    var all = PendingEvents(bytesMax: 10 * PendingEvents.eventBytes)
    for round in 0..<5 {
      var batch = PendingEvents(bytesMax: 10 * PendingEvents.eventBytes)
      for _ in 0..<3 { batch.append(.change(try commits.next())) }
      all.append(takingFrom: &batch)
      #expect(batch.isEmpty && batch.bytes == 0)
      let expected: [Int64] =
        switch round {
        case 0...2: Array(1...Int64(3 * round + 3))
        case 3: [12]
        default: [12, 13, 14, 15]
        }
      #expect(Self.sequences(all) == expected)
    }
  }
}
