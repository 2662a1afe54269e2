import CanopyTree
import Foundation
import Testing

@testable import CanopyBench

/// A small run of the fuzzer on a server process. `CanopyBench fuzz` is the long one.
@Suite(.timeLimit(.minutes(5))) struct FuzzTests {
  @Test func `malformed requests leave a server as it was, and its clients served`() async throws {
    let given = ProcessInfo.processInfo.environment["CANOPY_SEED"].flatMap { UInt64($0) }
    let seed = given ?? UInt64.random(in: 1...UInt64.max >> 16)
    print("FuzzTests: CANOPY_SEED=\(seed)")
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("canopy-fuzz-test-\(ProcessInfo.processInfo.processIdentifier)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let problems = try await withCheckedThrowingContinuation { done in
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
    #expect(problems == [])
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
