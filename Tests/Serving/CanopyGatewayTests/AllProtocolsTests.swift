import CanopyEngine
import CanopyEvents
import CanopySession
import CanopyTesting
import CanopyTree
import Foundation
import Testing

@testable import CanopyGateway

/// A random run of clients of all protocols on one tree, with cuts.
@Suite(.timeLimit(.minutes(20))) struct AllProtocolsTests {
  /// The writes of each client; `CANOPY_STEPS` sets another number.
  private static var steps: Int {
    ProcessInfo.processInfo.environment["CANOPY_STEPS"].flatMap { Int($0) } ?? 60
  }

  @Test func `the copies of the clients of all protocols are equal at the end, across cuts`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "random run of all protocols")
    try await withGateway(rules: #"{"rules":{".read":true,".write":true}}"#) { server in
      let clients: [any CopyingClient] = [
        RealtimeCopy(seed: random.next()), RealtimeCopy(seed: random.next()),
        LineCopy(seed: random.next()), RESTCopy(seed: random.next()),
        StreamCopy(seed: random.next()),
      ]
      let (written, noteWritten) = AsyncStream.makeStream(of: Void.self)
      try await withThrowingTaskGroup(of: Copy.self) { group in
        for client in clients {
          group.addTask { [port = server.port, steps = Self.steps] in
            do {
              return try await client.run(on: port, steps: steps) { noteWritten.yield() }
            } catch {
              noteWritten.finish()
              throw error
            }
          }
        }
        var done = written.makeAsyncIterator()
        for _ in clients where await done.next() == nil {
          // A client has failed. The others would wait for the mark.
          for try await _ in group {}
        }
        // The requests of cut connections reach the engine before the mark, or never.
        try await eventually { server.gate.count == clients.count }
        _ = try await server.parts.engine.transact { _ in Decision(nil, ()) }
        let mark = try Write.set(Copy.mark, WriteValue(true))
        _ = try await server.parts.engine.transact { _ in Decision(mark, ()) }
        let root = server.parts.engine.root
        for try await copy in group {
          let expected = copy.hasPriorities ? root : try root.withoutPriorities
          #expect(copy.root == expected, "\(copy.client)")
          #expect(copy.root.hash == expected.hash, "\(copy.client)")
          #expect(copy.queries.allSatisfy { $0.isEqual(in: root) }, "\(copy.client)")
          if let etag = copy.etag { #expect(etag == root.etag) }
        }
      }
    }
  }
}

/// The data of a client at the end.
struct Copy: Sendable {
  /// The copy of the result of a query.
  struct OfQuery: Sendable {
    var path: Path
    var query: Query
    var tree = Tree()

    func isEqual(in root: Node) -> Bool {
      tree.root.at(path) == query.value(of: root.at(path))
    }
  }

  /// The last value that a client gets: all writes are before it.
  static let mark = Location(Path.root.child("mark"))

  var client: String
  var root: Node
  var hasPriorities = true
  var queries: [OfQuery] = []
  var etag: String?
}

/// A client that writes at random and copies the tree from the server's events or responses.
protocol CopyingClient: Sendable {
  /// Writes, with cuts, then waits for the mark.
  ///
  /// - Parameter whenWritten: called once after the last write.
  func run(on port: Int, steps: Int, whenWritten: @escaping @Sendable () -> Void) async throws
    -> Copy
}

extension CopyingClient {
  /// The writes of the run: to few locations, so that they overlap.
  static var writes: RandomWrites {
    var writes = RandomWrites()
    writes.keysMax = 4
    writes.depthMax = 3
    return writes
  }

  /// Returns the number of steps until the next cut.
  static func stepsToCut(_ left: Int, _ random: inout SeededGenerator) -> Int {
    min(left, Int.random(in: 1...25, using: &random))
  }
}

extension Node {
  /// The node as JSON without priorities shows it.
  var withoutPriorities: Node {
    get throws {
      var output = JSONOutput()
      output.append(self, style: .plain)
      return try WriteValue(json: output.text).node
    }
  }
}
