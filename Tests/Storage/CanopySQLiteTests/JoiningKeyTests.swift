import CanopyEngine
import CanopyTesting
import CanopyTree
import Testing

@testable import CanopySQLite

/// Keys whose last scalar combines with the slash after it into one character, so that `key/.priority` has
/// no character `/`. (U+0600 combines with the next scalar.)
@Suite(.timeLimit(.minutes(20))) struct JoiningKeyTests {
  let folder: Folder
  let key: Key

  init() throws {
    folder = try Folder()
    key = "K\u{600}"
  }

  private func note(_ name: String...) throws -> Path {
    try Path(["notes", "u", key] + name.map { try Key($0) })
  }

  /// Makes a checkpoint, and checks that the folder opens again with the same tree.
  private func expectDurable(_ expected: Node) async throws {
    for _ in 0..<2 {
      try await folder.withStore { store in
        #expect(try await store.problems().isEmpty)
        let state = try await store.load()
        #expect(state.tree.root == expected)
        try await store.checkpoint(state.tree.root, through: state.sequence)
        #expect(try await store.checkpointRoot() == expected)
      }
    }
  }

  @Test func `two ordinary writes below such a key with a priority leave the folder readable`()
    async throws
  {
    let first = json(#"{".priority":1,"text":"a","at":1}"#)
    let place = try note()
    let text = try note("text")
    let root = try await folder.withStore { store in
      try await withEngine(store) { engine in
        _ = try await engine.transact { _ in
          Decision(try .set(Location(place), WriteValue(first)), ())
        }
        _ = try await engine.transact { _ in
          Decision(try .set(Location(text), WriteValue("b")), ())
        }
        return engine.root
      }
    }
    #expect(root.at(place) == json(#"{".priority":1,"text":"b","at":1}"#))
    try await expectDurable(root)
  }

  @Test
  func `a branch of several rows with a priority below such a key leaves the folder readable`()
    async throws
  {
    let text = Node(String(repeating: "x", count: 1_000))
    let big = Node(children: (0..<20).map { (Key(index: Int32($0)), text) }).withPriority(7)
    let place = try note()
    let root = try await folder.withStore { store in
      try await withEngine(store) { engine in
        _ = try await engine.transact { _ in
          Decision(try .set(Location(place), WriteValue(big)), ())
        }
        return engine.root
      }
    }
    try await expectDurable(root)
    try await folder.withStore { store in
      let rows = try await store.leaves()
      #expect(rows["notes/u/K\u{600}/.priority"] == "7")
    }
  }

  @Test func `an import of such data leaves the folder readable`() async throws {
    let text = String(repeating: "x", count: 9_000)
    let node = json(
      #"{"notes":{"u":{"K\#u{600}":{".priority":"p","a":"\#(text)","b":{".value":1,".priority":2}}}}}"#
    )
    try await folder.withStore { try await $0.replace(.root, with: node) { _ in } }
    try await expectDurable(node)
  }
}
