import CanopyEngine
import CanopySession
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopyRealtime

/// Answers that a client does not read are charged with the memory of their values, not with their JSON.
@Suite(.timeLimit(.minutes(20))) struct HeldAnswerTests {
  /// A list that takes more than 50 bytes of memory for each element, which has five bytes of JSON.
  private static let count = 100_000
  private static let list = Node(children: (0..<count).map { (Key(index: Int32($0)), true) })

  @Test(arguments: [
    ("g", #"{"p":"/list"}"#), ("q", #"{"p":"/list","h":""}"#),
    ("p", #"{"p":"/list","d":1,"h":"x"}"#),
  ])
  func `an unread answer is charged with the memory of its nodes`(
    _ action: String, _ body: String
  ) async throws {
    try await withRealtime(.inProcess) { server in
      let write = try Write.set(Location("list"), WriteValue(Self.list))
      _ = try await server.parts.engine.transact { _ in Decision(write, ()) }
      let client = try await server.connect()
      let memory = server.parts.operations.memory
      let before = memory.used
      try await client.pauseReading()
      try await client.send(1, action, body)
      try await eventually { memory.used - before > 50 * Self.count }
      #expect(memory.used - before < 80 * Self.count)
    }
  }

  @Test func `the paths of unanswered requests are charged`() {
    let path = (0..<20).reduce(Path.root) { path, i in path.child(Key(index: Int32(i))) }
    var answers = PendingAnswers()
    #expect(answers.bytes == 0)
    answers.append(1, .transaction(Location(path)))
    #expect(answers.bytes >= 20 * MemoryLayout<Key>.stride)
    answers.append(2, .get)
    _ = answers.take()
    _ = answers.take()
    #expect(answers.bytes == 0)
  }
}
