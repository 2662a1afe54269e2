import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Dispatch
import Testing

@testable import CanopySession

/// Writes of the tree that the rules deny whatever the data is.
@Suite(.timeLimit(.minutes(20))) struct DeniedWriteTests {
  private func submit(
    _ line: String, as identity: Identity, _ parts: LineParts, _ codes: ReplyCodes
  ) throws {
    let request = try Array(line.utf8).withUnsafeBytes {
      try Request(line: $0, limits: Limits())
    }
    guard case .write(let write) = request else {
      Issue.record("not a write: \(line)")
      return
    }
    parts.operations.write(write, as: identity, from: "10.0.0.1") { codes.add($0) }
  }

  private func update(_ count: Int) -> String {
    let members = (0..<count).map { "\"posts/p\($0)/title\":\"t\"" }.joined(separator: ",")
    return "UPDATE / {\(members)}"
  }

  @Test func `an UPDATE of many locations is made on another thread`() async throws {
    let parts = try await LineParts()
    /// An UPDATE of locations that are one below the other.
    func invalid(_ count: Int) -> String {
      let members = (1..<count).map { ",\"a/k\($0)\":1" }.joined()
      return "UPDATE / {\"a\":1\(members)}"
    }
    // There is one such thread at a time, and other work holds it.
    let mayEnd = DispatchSemaphore(value: 0)
    await withCheckedContinuation { continuation in
      Task {
        try await parts.operations.beside {
          continuation.resume()
          mayEnd.wait()
        }
      }
    }
    let codes = ReplyCodes()
    try submit(invalid(Operations.locationsMadeAtOnceMax), as: .anonymous, parts, codes)
    #expect(codes.all == [.invalidData])
    try submit(invalid(Operations.locationsMadeAtOnceMax + 1), as: .anonymous, parts, codes)
    try submit(
      "ONCE drawn-at-random-1 1 0 " + invalid(Operations.locationsMadeAtOnceMax + 1),
      as: .anonymous, parts, codes)
    #expect(codes.all == [.invalidData])
    mayEnd.signal()
    while codes.all.count < 3 { await Task.yield() }
    #expect(codes.all == [.invalidData, .invalidData, .invalidData])
  }

  @Test
  func `large values are encoded on another thread, and later requests of the connection wait`()
    async throws
  {
    let parts = try await LineParts()
    // There is one such thread at a time, and other work holds it.
    let mayEnd = DispatchSemaphore(value: 0)
    await withCheckedContinuation { continuation in
      Task {
        try await parts.operations.beside {
          continuation.resume()
          mayEnd.wait()
        }
      }
    }
    func lines(_ bytes: Int) -> [String] {
      let value = "\"\(String(repeating: "v", count: bytes))\""
      return [
        "SET /n/a \(value)", "UPDATE /n {\"b\":\(value)}", "CAS /n/c null_etag \(value)",
        "PUSH /n \(value)", "ONCE drawn-at-random-1 1 0 SET /n/d \(value)",
      ]
    }
    let codes = ReplyCodes()
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await parts.run() }
      let bytesMax = Operations.bytesEncodedAtOnceMax
      for line in lines(bytesMax - 100) + lines(bytesMax) {
        try? submit(line, as: .administrator, parts, codes)
      }
      while codes.all.count < 5 { await Task.yield() }
      _ = try? await parts.engine.transact { _ in Decision(nil, ()) }
      #expect(
        codes.all == [nil, nil, nil, nil, nil] && parts.engine.root.child("n").childCount == 5)
      mayEnd.signal()
      while codes.all.count < 10 { await Task.yield() }
      parts.engine.stop()
    }
    // The value for the second CAS exists already, and so does the commit of the second ONCE.
    #expect(codes.all.allSatisfy { $0 == nil })
    #expect(parts.engine.root.child("n").childCount == 6)
    for (bytes, isAlone) in [
      (Operations.bytesEncodedAtOnceMax - 100, false), (Operations.bytesEncodedAtOnceMax, true),
    ] {
      for line in lines(bytes) where !line.hasPrefix("CAS") {
        let request = try Array(line.utf8).withUnsafeBytes {
          try Request(line: $0, limits: Limits())
        }
        #expect(parts.operations.runsAlone(request) == isAlone, "\(line.prefix(20))")
      }
    }
  }

  @Test func `a large write of an anonymous client is refused without the writer`() async throws {
    let parts = try await LineParts()
    let codes = ReplyCodes()
    // The engine does not run, so an answer did not need it.
    try submit(update(9), as: .anonymous, parts, codes)
    // The number of locations is looked at first, because that costs least.
    try submit(update(2_000), as: .anonymous, parts, codes)
    while codes.all.count < 2 { await Task.yield() }
    #expect(codes.all == [.permissionDenied, .tooLarge])
    // A small one costs the writer little.
    try submit(update(8), as: .anonymous, parts, codes)
    // The writer must look whether this one was committed before.
    try submit("ONCE drawn-at-random-1 1 0 " + update(9), as: .anonymous, parts, codes)
    // The rules do not bind the administrator.
    try submit(update(9), as: .administrator, parts, codes)
    #expect(codes.all.count == 2)
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await parts.run() }
      _ = try? await parts.engine.transact { _ in Decision(nil, ()) }
      parts.engine.stop()
    }
    #expect(codes.all.dropFirst(2) == [.permissionDenied, .permissionDenied, nil])
    #expect(parts.engine.snapshot.sequence == 1)
  }
}
