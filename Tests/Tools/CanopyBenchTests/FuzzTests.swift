import CanopyTree
import Foundation
import Testing

@testable import CanopyBench

/// A small run of the fuzzer on a server process. `CanopyBench fuzz` is the long one.
@Suite(.timeLimit(.minutes(20))) struct FuzzTests {
  @Test func `malformed requests leave a server as it was, and its clients served`() async throws {
    let given = ProcessInfo.processInfo.environment["CANOPY_SEED"].flatMap { UInt64($0) }
    let seed = given ?? UInt64.random(in: 1...UInt64.max >> 16)
    print("FuzzTests: CANOPY_SEED=\(seed)")
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-fuzz-test-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let result: FuzzRun.Result = try await withCheckedThrowingContinuation { done in
      Thread.detachNewThread {
        done.resume(
          with: Result {
            var run = FuzzRun(seed: seed, requests: 4_000, folder: folder)
            run.connections = 4
            run.batch = 40
            // Other tests take the processor.
            run.secondsMax = 60
            return try run.run { print("FuzzTests: \($0)") }
          })
      }
    }
    #expect(result.problems == [])
    // A busy machine may cut off so much of a small run that an action has no answer.
    #expect(result.depth.total > 0)
  }

  @Test func `the messages of a fixed seed have every action, and half of them are changed`() {
    var sent: [String: Int] = [:]
    for number in 0..<40 {
      let script = FuzzScript(seed: 11, connection: number, requests: 40, token: "token")
      for action in script.actions.values { sent[action, default: 0] += 1 }
    }
    #expect(Set(sent.keys) == Set(FuzzConversation.actions))
    var text = FuzzText(seed: 3, token: "token")
    var value = FuzzJSON.object([("p", .string("/a")), ("d", .text("1"))])
    let before = value.description
    #expect(before == #"{"p":"/a","d":1}"#)
    text.change(&value)
    #expect(value.description != before)
  }

  @Test func `answers are counted by action and status, however the bytes are cut`() {
    func frame(_ text: String) -> [UInt8] {
      let bytes = Array(text.utf8)
      let length =
        bytes.count < 126
        ? [UInt8(bytes.count)] : [126, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)]
      return [0x81] + length + bytes
    }
    let long = String(repeating: "x", count: 300)
    let bytes =
      Array("HTTP/1.1 101 Switching Protocols\r\n\r\n".utf8)
      + frame(#"{"t":"c","d":{"t":"h"}}"#)
      + frame(#"{"t":"d","d":{"r":1,"b":{"s":"ok","d":"\#(long)"}}}"#)
      + frame(#"{"t":"d","d":{"r":2,"b":{"s":"datastale","d":""}}}"#)
      + frame(#"{"t":"d","d":{"r":9,"b":{"s":"ok","d":""}}}"#)
      + frame(#"{"t":"c","d":{"t":"e","d":"a reason"}}"#)
    for size in [1, 2, 7, 100, bytes.count] {
      var answers = FuzzAnswers([1: "q", 2: "p"])
      var rest = bytes[...]
      while !rest.isEmpty {
        answers.receive(rest.prefix(size))
        rest = rest.dropFirst(size)
      }
      #expect(answers.depth.accepted == ["q": 1])
      #expect(answers.depth.refused == ["p": ["datastale": 1]])
      #expect(answers.depth.total == 2)
      #expect(answers.depth.endings == ["a reason": 1])
    }
  }

  @Test func `the number of a connection repeats its bytes`() {
    func script(_ number: Int) -> FuzzScript {
      FuzzScript(seed: 7, connection: number, requests: 20, token: "token")
    }
    #expect(script(3).bytes == script(3).bytes)
    #expect(script(3).bytes != script(4).bytes)
  }

  @Test func `half of the connections speak HTTP, and the others WebSockets of both kinds`() {
    let starts = (0..<2_000).map { number in
      let bytes = FuzzScript(seed: 1, connection: number, requests: 1, token: "").bytes
      let text = String(decoding: bytes.prefix(10), as: UTF8.self)
      return text.hasPrefix("GET /.ws") ? "realtime" : text.hasPrefix("GET /line") ? "line" : "HTTP"
    }
    let counts = starts.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    #expect((900...1_100).contains(counts["HTTP"] ?? 0))
    #expect((700...900).contains(counts["realtime"] ?? 0))
    #expect((120...280).contains(counts["line"] ?? 0))
  }
}
