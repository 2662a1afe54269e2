import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopyRealtimeWire

/// The messages of clients.
struct ClientMessageTests {
  private func decode(_ text: String) throws -> ClientMessage {
    try text.withUTF8Bytes { bytes in
      Result { try ClientMessage(bytes, limits: Limits()) }
    }.get()
  }

  private func encoded(_ message: ClientMessage) -> String {
    var output = JSONOutput()
    output.append(message)
    return output.text
  }

  private static func request(_ action: String, _ body: String) -> String {
    #"{"t":"d","d":{"r":7,"a":"\#(action)","b":\#(body)}}"#
  }

  /// A message for each action, as official clients write it.
  private static let requests = [
    request("q", #"{"p":"/a/b","h":""}"#),
    request(
      "q",
      #"{"p":"/a","q":{"sp":1,"sin":true,"l":2,"vf":"l","i":"n"},"t":3,"h":"q"}"#),
    request("n", #"{"p":"/a/b"}"#),
    request("n", #"{"p":"/a","q":{"l":2,"vf":"r"},"t":1}"#),
    request("g", #"{"p":"/a","q":{}}"#),
    request("p", #"{"p":"/a","d":{"b":1}}"#),
    request("p", #"{"p":"/a/.priority","d":2,"h":"hash"}"#),
    request("p", #"{"p":"/a","d":{".sv":"timestamp"}}"#),
    request("m", #"{"p":"/a","d":{"b/c":1,"d":null}}"#),
    request("o", #"{"p":"/a","d":1}"#),
    request("om", #"{"p":"/a","d":{"b":1}}"#),
    request("oc", #"{"p":"/a","d":null}"#),
    request("auth", #"{"cred":"token"}"#),
    request("gauth", #"{"cred":"token"}"#),
    request("unauth", "{}"),
    request("s", "{}"),
    request("appcheck", "{}"),
    #"{"t":"c","d":{"t":"p","d":{}}}"#,
  ]

  @Test(arguments: requests)
  func `a message that is decoded and encoded is the same`(text: String) throws {
    #expect(try encoded(decode(text)) == text)
  }

  @Test func `there is a message for each action`() throws {
    let actions = try Self.requests.compactMap { text -> RealtimeAction? in
      guard case .request(7, let request) = try decode(text) else { return nil }
      return request.action
    }
    #expect(Set(actions) == Set(RealtimeAction.allCases))
  }

  @Test(arguments: [
    "", "{", "[]", "0", "null", #"{"t":"d"}"#, #"{"t":"d","d":1}"#, #"{"t":"x","d":{}}"#,
    #"{"d":{"r":1,"a":"s","b":{}}}"#, #"{"t":"d","d":{"a":"s","b":{}}}"#,
    #"{"t":"d","d":{"r":"1","a":"s","b":{}}}"#, #"{"t":"d","d":{"r":1.5,"a":"s","b":{}}}"#,
  ])
  func `a message without a number has no answer`(text: String) {
    let refusal = #expect(throws: RealtimeRefusal.self) { try decode(text) }
    #expect(refusal?.number == nil)
  }

  @Test(arguments: [
    (request("q", "{}"), WireError.Code.badRequest),
    (request("q", "1"), .invalidData),
    (request("q", #"{"p":"a.b"}"#), .invalidPath),
    (request("q", #"{"p":"a","h":1}"#), .badRequest),
    (request("q", #"{"p":"a","h":"\#(String(repeating: "x", count: 65))"}"#), .tooLarge),
    (request("q", #"{"p":"a","t":-1}"#), .badRequest),
    (request("q", #"{"p":"a","t":"1"}"#), .badRequest),
    (request("q", #"{"p":"a","q":[]}"#), .invalidQuery),
    (request("q", #"{"p":"a","q":{"x":1}}"#), .invalidQuery),
    (request("p", #"{"p":"a"}"#), .badRequest),
    (request("p", #"{"p":"a","d":1,"h":false}"#), .badRequest),
    (request("p", #"{"p":"a","d":}"#), .invalidData),
    (request("p", #"{"p":"a","d":{"$":1}}"#), .invalidData),
    (request("m", #"{"p":"a","d":1}"#), .invalidData),
    (request("auth", "{}"), .badRequest),
    (request("gauth", #"{"cred":"owner","noauth":true}"#), .badRequest),
    (request("gauth", #"{"cred":"owner","authvar":{"uid":"u"}}"#), .badRequest),
    (request("zz", "{}"), .unknownVerb),
  ])
  func `a request that is malformed gets an answer`(text: String, code: WireError.Code) {
    let refusal = #expect(throws: RealtimeRefusal.self) { try decode(text) }
    #expect(refusal?.number == 7)
    #expect(refusal?.error.code == code)
  }

  @Test func `the JSON of a query has a bound`() throws {
    func query(_ count: Int) -> String {
      // The rest of the object has 16 bytes.
      let spaces = String(repeating: " ", count: count - 16)
      return Self.request("q", #"{"p":"a","q":{"l":1,"vf":"l"\#(spaces)}}"#)
    }
    #expect(throws: Never.self) { try decode(query(ListenBody.queryBytesMax)) }
    let refusal = #expect(throws: RealtimeRefusal.self) {
      try decode(query(ListenBody.queryBytesMax + 1))
    }
    #expect(refusal?.error.code == .tooLarge)
  }

  @Test func `random bytes are refused or decoded`() {
    var random = SeededGenerator(printingSeedFor: "random messages")
    for _ in 0..<2000 {
      var bytes: [UInt8]
      if random.oneIn(3) {
        bytes = random.bytes(Int.random(in: 0..<64, using: &random))
      } else {
        bytes = Array(random.pick(Self.requests).utf8)
        for _ in 0..<Int.random(in: 1...4, using: &random) where !bytes.isEmpty {
          let index = Int.random(in: 0..<bytes.count, using: &random)
          switch Int.random(in: 0..<3, using: &random) {
          case 0: bytes[index] = UInt8.random(in: .min ... .max, using: &random)
          case 1: bytes.remove(at: index)
          default: bytes.insert(random.pick(Array("{}[]\",:0\\".utf8)), at: index)
          }
        }
      }
      bytes.withUnsafeBytes { bytes in
        guard let message = try? ClientMessage(bytes, limits: Limits()) else { return }
        let text = encoded(message)
        // The text of a query is that of the client, which need not be in this form.
        #expect(throws: Never.self) { _ = try decode(text) }
      }
      _ = ClientMessage.number(inBeginning: bytes)
    }
  }

  @Test func `random requests are the same when they are encoded and decoded`() throws {
    var random = SeededGenerator(printingSeedFor: "random requests")
    let writes = RandomWrites()
    for number in 0..<500 {
      let items = writes.next(&random).items
      let first = try #require(items.first)
      let changes = items.map { Request.Update(location: $0.location, value: $0.value) }
      let listening = try Listening.random(&random)
      let target = ListenTarget(
        listening.path, listening.query, tag: random.oneIn(2) ? nil : Int64(number))
      let requests: [RealtimeRequest] = [
        .put(PutBody(first.location, first.value, hash: random.oneIn(2) ? nil : "h")),
        .merge(MergeBody(.root, changes)), .disconnectPut(first.location, first.value),
        .disconnectMerge(.root, changes), .unlisten(target),
        .get(listening.path, listening.query),
      ]
      for request in requests {
        let text = encoded(.request(Int64(number), request))
        #expect(try encoded(decode(text)) == text)
      }
    }
  }

  @Test func `the number of a request is found in the beginning of its message`() {
    func number(_ text: String) -> Int64? { ClientMessage.number(inBeginning: Array(text.utf8)) }
    #expect(number(#"{"t":"d","d":{"r":12,"a":"p""#) == 12)
    #expect(number(#"{"t":"d","d":{"r":12"#) == nil)
    #expect(number(#"{"t":"d","d":{"a":"p""#) == nil)
    #expect(number("") == nil)
    #expect(number(#""r":"#) == nil)
    #expect(number(#""r":99999999999999999999,"#) == nil)
  }

  @Test(arguments: [("p", "?"), ("m", #"{"b":?}"#), ("o", "?"), ("om", #"{"b":?}"#)])
  func `a long value is decoded with pauses`(action: String, data: String) throws {
    let list = "[" + (0..<1_000).map { "\($0)" }.joined(separator: ",") + "]"
    let body = #"{"p":"/a","d":"# + data.replacing("?", with: list) + "}"
    let bytes = Array(Self.request(action, body).utf8)
    var pauses = 0
    let pause = DecodingPause { pauses += 1 }
    _ = try bytes.withUnsafeBytes { bytes in
      Result { try ClientMessage(bytes, limits: Limits(), pausing: pause) }
    }.get()
    #expect(pauses >= 1_000)
  }
}
