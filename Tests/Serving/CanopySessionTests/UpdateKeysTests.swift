import CanopyEngine
import CanopyTesting
import CanopyTree
import CanopyWire
import Testing

@testable import CanopySession

/// The bound on the keys in the paths of an update, all of which the writer goes through.
@Suite(.timeLimit(.minutes(20))) struct UpdateKeysTests {
  /// Returns an update with some keys in all of its paths together, eight for each location but the last.
  private func update(keys: Int) throws -> (path: Path, changes: [Request.Update]) {
    let changes = try (0..<keys / 8).map { number in
      // The path of the update counts for each location.
      let rest = number == 0 ? keys % 8 : 0
      let location = (0..<5 + rest).map { "k\($0)" }.joined(separator: "/") + "/n\(number)"
      return Request.Update(location: try Location(location), value: WriteValue(1))
    }
    return (try Path("a/b"), changes)
  }

  private func withParts(_ body: (LineParts) async throws -> Void) async throws {
    let parts = try await LineParts()
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { await parts.run() }
      _ = try await parts.rules.replace(by: #"{"rules":{".write":true}}"#, in: parts.engine)
      try await body(parts)
      parts.engine.stop()
      try await group.waitForAll()
    }
  }

  @Test(arguments: [Operations.updateKeysMax, Operations.updateKeysMax + 1])
  func `an update may have so many keys, and no more unless it is the administrator's`(
    keys: Int
  ) async throws {
    try await withParts { parts in
      let (path, changes) = try update(keys: keys)
      #expect(TreeWrite.update(path, changes).keyCount == keys)
      for identity in [Identity.anonymous, .administrator] {
        let isAllowed: Bool
        if case .administrator = identity {
          isAllowed = true
        } else {
          isAllowed = keys <= Operations.updateKeysMax
        }
        let codes = ReplyCodes()
        parts.operations.write(
          .tree(.update(path, changes)), as: identity, from: "192.0.2.1"
        ) { codes.add($0) }
        try await eventually { codes.all.count == 1 }
        #expect(codes.all == [isAllowed ? nil : .tooLarge])
        let request = DisconnectRequest.update(path, changes)
        let completion = await parts.operations.onDisconnect(
          request, text: "UPDATE", as: identity, [])
        #expect((completion.armed?.count == 1) == isAllowed)
      }
    }
  }
}
