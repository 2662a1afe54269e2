import CanopyTesting
import CanopyTree
import Foundation
import Testing

/// Clients that listen again after the server was killed and restarted.
@Suite(.timeLimit(.minutes(20)), .serialized) struct ResumeTests {
  private func connect(_ server: ServerProcess, _ data: String) async throws -> LineSocketClient {
    let client = try await server.connect()
    try await client.value(try ServerProcess.authentication(data: data))
    return client
  }

  /// Listens, and returns the lines of the first events without the subscription's number.
  private func listen(
    _ client: LineSocketClient, _ path: String, _ options: String
  ) async throws -> (sequence: Int64, events: [String]) {
    let reply = try await client.value("LISTEN \(path) \(options)")
    let count = Int(try #require(reply["initial"]?.integer))
    let sub = try #require(reply["sub"]?.integer)
    let lines = try await client.readLines(count)
    try await client.value("UNLISTEN \(sub)")
    return (
      try #require(reply["seq"]?.integer),
      lines.map { $0.replacing(">{\"sub\":\(sub),", with: "{") }
    )
  }

  @Test func `a client receives exactly the changes, in each form`() async throws {
    let folder = try TemporaryFolder()
    var server = try await ServerProcess(data: folder.path, ["--checkpoint-every", "3"])
    var client = try await connect(server, folder.path)
    try await client.value("SET /list {\"a\":1,\"b\":2,\"c\":3,\"e\":{\"x\":1,\"y\":1}}")
    let known = try await listen(client, "/list", "{}").sequence
    try await client.value("REMOVE /list/a")
    try await client.value("SET /list/b 20")
    try await client.value("SET /other 1")
    try await client.value("SET /list/d 4")
    try await client.value("SET /list/temporary 4")
    try await client.value("UPDATE /list/e {\"x\":2,\"z\":3}")
    try await client.value("REMOVE /list/temporary")
    try await server.destroy()
    server = try await ServerProcess(data: folder.path)
    client = try await connect(server, folder.path)
    let seq = known + 7
    func since(_ form: String, _ more: String = "") -> String {
      "{\"events\":\"\(form)\",\"since\":\(known)\(more)}"
    }
    let child = try await listen(client, "/list", since("child"))
    #expect(child.sequence == seq)
    #expect(
      child.events == [
        "{\"event\":\"child_removed\",\"key\":\"a\",\"data\":1,\"more\":true,\"seq\":\(seq)}",
        "{\"event\":\"child_added\",\"key\":\"d\",\"prev\":\"c\",\"data\":4,\"more\":true,\"seq\":\(seq)}",
        "{\"event\":\"child_changed\",\"key\":\"b\",\"prev\":null,\"data\":20,\"more\":true,\"seq\":\(seq)}",
        "{\"event\":\"child_changed\",\"key\":\"e\",\"prev\":\"d\",\"data\":{\"x\":2,\"y\":1,\"z\":3},\"seq\":\(seq)}",
      ])
    let limited = ",\"orderBy\":\"$key\",\"limitToFirst\":2"
    #expect(
      try await listen(client, "/list", since("child", limited)).events == [
        "{\"event\":\"child_removed\",\"key\":\"a\",\"data\":1,\"more\":true,\"seq\":\(seq)}",
        "{\"event\":\"child_added\",\"key\":\"c\",\"prev\":\"b\",\"data\":3,\"more\":true,\"seq\":\(seq)}",
        "{\"event\":\"child_changed\",\"key\":\"b\",\"prev\":null,\"data\":20,\"seq\":\(seq)}",
      ])
    let now = "{\"b\":20,\"c\":3,\"d\":4,\"e\":{\"x\":2,\"y\":1,\"z\":3}}"
    #expect(
      try await listen(client, "/list", since("value")).events == [
        "{\"event\":\"value\",\"data\":\(now),\"seq\":\(seq)}"
      ])
    let patch =
      "\"a\":null,\"b\":20,\"d\":4,\"e/x\":2,\"e/z\":3,\"temporary\":null"
    #expect(
      try await listen(client, "/list", since("sync")).events == [
        "{\"event\":\"patch\",\"path\":\"/\",\"data\":{\(patch)},\"seq\":\(seq)}"
      ])
    // There are no events without changes, and none since the last commit.
    for form in ["child", "value", "sync"] {
      #expect(try await listen(client, "/list/c", since(form)).events == [])
      let last = "{\"events\":\"\(form)\",\"since\":\(seq)}"
      #expect(try await listen(client, "/list", last).events == [])
    }

    // Later events arrive as usual.
    let reply = try await client.value("LISTEN /list \(since("child"))")
    _ = try await client.readLines(Int(try #require(reply["initial"]?.integer)))
    try await client.send("SET /list/f 5\n")
    #expect(try await client.readLine().contains("\"child_added\",\"key\":\"f\",\"prev\":\"e\""))
    try await client.expectNext(to: "SET /list/f 5", "+{\"seq\":\(seq + 1)}")
    #expect(try await server.terminate() == 0)
  }

  @Test func `a client that resumes from before an import receives the whole state`() async throws {
    let folder = try TemporaryFolder()
    var server = try await ServerProcess(data: folder.path)
    var client = try await connect(server, folder.path)
    try await client.value("SET /list {\"a\":1,\"b\":2}")
    let known = try await listen(client, "/list", "{}").sequence
    #expect(try await server.terminate() == 0)
    try await Command.run(["import", "--data", folder.path, "/list/c"], input: "3")
    server = try await ServerProcess(data: folder.path)
    client = try await connect(server, folder.path)
    for (form, event) in [
      ("child", "\"put\",\"path\":\"/\""), ("value", "\"value\""),
      ("sync", "\"put\",\"path\":\"/\""),
    ] {
      let (sequence, events) = try await listen(
        client, "/list", "{\"events\":\"\(form)\",\"since\":\(known)}")
      #expect(sequence == known + 1)
      #expect(
        events == [
          "{\"event\":\(event),\"data\":{\"a\":1,\"b\":2,\"c\":3},\"seq\":\(sequence)}"
        ])
    }
    #expect(try await server.terminate() == 0)
  }
}
