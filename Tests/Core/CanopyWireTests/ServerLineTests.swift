import CanopyTree
import Testing

@testable import CanopyWire

/// The client decodes the lines that the server encodes.
struct ServerLineTests {
  private func read(_ text: String) throws(TreeError) -> ServerLine {
    let result: Result<ServerLine, TreeError> = Array(text.utf8).withUnsafeBytes { bytes in
      do throws(TreeError) { return .success(try ServerLine(bytes)) } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }

  private func event(
    _ write: (inout JSONOutput) -> Void
  ) throws -> SyncEvent {
    var output = JSONOutput()
    EventLine.begin(7, to: &output)
    write(&output)
    // A line end is one character.
    guard case .event(let event) = try read(String(output.text.dropLast())) else {
      throw TreeError.invalidData("no event: \(output.text)")
    }
    return event
  }

  @Test func `replies survive a round trip`() throws {
    guard case .success(let bytes) = try read("+{\"seq\":4}") else {
      return #expect(Bool(false), "a success")
    }
    #expect(String(decoding: bytes, as: UTF8.self) == "{\"seq\":4}")
    guard case .failure(let error) = try read("-CONFLICT it has changed") else {
      return #expect(Bool(false), "a failure")
    }
    #expect(error == WireError(.conflict, "it has changed"))
    guard case .failure(let joined) = try read("-CONFLICT \u{301}it has changed") else {
      return #expect(Bool(false), "a failure")
    }
    #expect(joined == WireError(.conflict, "\u{301}it has changed"))
    guard case .failure(let later) = try read("-OF_A_LATER_SERVER so it is") else {
      return #expect(Bool(false), "a failure")
    }
    #expect(later == WireError(.internalError, "so it is"))
  }

  @Test func `a time to wait survives a round trip`() throws {
    for wait: Int64? in [nil, 0, 1, 1_250, 999_999_999_999_999_999] {
      let error = WireError(.rateLimited, retryMilliseconds: wait, "too many; wait [5 ms] please")
      var output = JSONOutput()
      ReplyLine.failure(error, to: &output)
      guard case .failure(let decoded) = try read(String(output.text.dropLast())) else {
        return #expect(Bool(false), "a failure")
      }
      #expect(decoded == error)
      #expect(WireError(.rateLimited, text: error.text) == error)
    }
    // Nothing else is a time.
    for text in [
      "", "[", "[5", "[5 ms", "[5 ms]", "[ms] x", "[ ms] x", "[-1 ms] x", "[1.5 ms] x",
      "x [5 ms] y",
      "[9999999999999999999 ms] x", "[5 ms]\u{301}x", "[5ms] x",
    ] {
      let error = WireError(.rateLimited, text: text)
      #expect(error.retryMilliseconds == nil && error.sentence == text, "\(text)")
    }
    #expect(WireError.words(1) == "1 second" && WireError.words(1_001) == "2 seconds")
    #expect(WireError.words(120_000) == "120 seconds" && WireError.words(120_001) == "3 minutes")
  }

  @Test(arguments: [nil] + WireError.Reason.allCases)
  func `a reason survives a round trip`(_ reason: WireError.Reason?) throws {
    let error = WireError(.invalidData, reason: reason, "choose [another] one")
    var output = JSONOutput()
    ReplyLine.failure(error, to: &output)
    guard case .failure(let decoded) = try read(String(output.text.dropLast())) else {
      return #expect(Bool(false), "a failure")
    }
    #expect(decoded == error)
  }

  @Test(arguments: [
    ("[TAKEN] x", WireError(.conflict, reason: .taken, "x")),
    ("[TAKEN] ", WireError(.conflict, reason: .taken, "")),
    ("[OF_A_LATER_SERVER] x", WireError(.conflict, "x")),
    ("[TAKEN]x", WireError(.conflict, "[TAKEN]x")), ("[TAKEN", WireError(.conflict, "[TAKEN")),
    ("[TAKEN]", WireError(.conflict, "[TAKEN]")), ("[taken] x", WireError(.conflict, "[taken] x")),
    ("[] x", WireError(.conflict, "[] x")), ("[", WireError(.conflict, "[")),
    ("", WireError(.conflict, "")), ("x [TAKEN] ", WireError(.conflict, "x [TAKEN] ")),
  ])
  func `only a sentence that begins with a name in brackets has a reason`(
    _ text: String, _ expected: WireError
  ) throws {
    guard case .failure(let error) = try read("-CONFLICT " + text) else {
      return #expect(Bool(false), "a failure")
    }
    #expect(error == expected)
  }

  @Test func `events survive a round trip`() throws {
    let node = try Node(json: #"{"a":[1,{"b":"\"}{,:"}],"é":{".value":1,".priority":2}}"#)
    let put = try event { output in
      EventLine.put(.init(.root), 41, to: &output) { $0.append(node, style: .export) }
    }
    #expect(put.subscription == 7 && put.sequence == 41)
    guard case .put(let puts) = put.change else { return #expect(Bool(false), "a put") }
    #expect(puts == [Assignment(.root, node)])
    let assignments = [
      Assignment(try Path("x/y"), node), Assignment(try Path("z"), .absent),
      Assignment(try Location("q/.priority"), "p"),
    ]
    let patch = try event { EventLine.patch(assignments, 42, to: &$0) }
    guard case .put(let patched) = patch.change else { return #expect(Bool(false), "a patch") }
    #expect(patched == assignments && patch.sequence == 42)
    let end = try event { EventLine.cancel(.permissionDenied, to: &$0) }
    guard case .cancel(.permissionDenied) = end.change else {
      return #expect(Bool(false), "a cancellation")
    }
  }

  @Test(arguments: [
    "", "x", ">", ">{", ">{}", ">[]", ">{\"sub\":1}", ">{\"sub\":1,\"event\":\"put\"}",
    ">{\"sub\":1,\"event\":\"put\",\"data\":{,\"seq\":1}",
    ">{\"sub\":1,\"event\":\"put\",\"data\":x,\"seq\":1}",
    ">{\"sub\":1,\"event\":\"value\",\"data\":1,\"seq\":1}",
    ">{\"sub\":\"1\",\"event\":\"put\",\"data\":1,\"seq\":1}",
    ">{\"sub\":1,\"event\":\"put\",\"data\":1,\"seq\":1",
    ">{\"sub\":1,\"event\":\"put\",\"data\":1,\"seq\":1}}",
    ">{\"sub\":1,\"event\":\"patch\",\"data\":1,\"seq\":1}", ">{\"a", ">{\"a\"", ">{\"a\":",
    ">{\"a\":\"",
    ">{\"sub\":1,\"event\":\"put\",\"path\":\"/a.b\",\"data\":1,\"seq\":1}", ">{\"a\\",
  ])
  func `an invalid server line is an error`(_ text: String) {
    #expect(throws: TreeError.self) { try read(text) }
  }
}
