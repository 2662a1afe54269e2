import CanopyEngine
import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

/// Returns the node of a JSON text. Invalid JSON gives a string that says so.
func json(_ text: String) -> Node {
  (try? Node(json: text)) ?? Node("not JSON: \(text)")
}

/// Returns the push id after another: the next one that an engine creates while its clock stands still.
func successor(of id: Key) throws -> Key {
  let digits = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)
  var bytes = Array(id.text.utf8)
  for i in bytes.indices.reversed() {
    let next = try #require(digits.firstIndex(of: bytes[i])) + 1
    bytes[i] = digits[next % digits.count]
    if next < digits.count { break }
  }
  return try Key(String(decoding: bytes, as: UTF8.self))
}

/// The `decide` of a transaction, for `Engine.transact`.
typealias BlogTransaction<Result: Sendable> =
  @Sendable (inout Proposal) throws -> Decision<Result>

/// The blog on an engine with a journal in memory. After every request, the tree must be consistent. It
/// must have one more commit, or be unchanged.
struct Blog: Sendable {
  let engine: Engine
  let journal: InMemoryJournal
  let clock: ManualClock

  /// Runs a blog with the users ada, bob and eve, whose uids are their names.
  static func with<R: Sendable>(
    clock: ManualClock = ManualClock(1_000), seed: UInt64 = 1,
    _ body: @escaping @Sendable (Blog) async throws -> R
  ) async throws -> R {
    let journal = InMemoryJournal()
    var configuration = Engine.Configuration()
    configuration.indexPlan = Layout.indexPlan
    return try await withEngine(journal, configuration: configuration, clock: clock, seed: seed) {
      let blog = Blog(engine: $0, journal: journal, clock: clock)
      for name in ["ada", "bob", "eve"] { try await blog.join(name) }
      return try await body(blog)
    }
  }

  var root: Node { engine.root }

  func at(_ path: String) -> Node {
    (try? Path(path)).map { root.at($0) } ?? .absent
  }

  /// Runs a request, and checks the tree and the number of commits.
  @discardableResult
  func make<R: Sendable>(
    _ transaction: @escaping BlogTransaction<R>, at location: SourceLocation = #_sourceLocation
  ) async throws -> R {
    let before = root
    let count = journal.commits.count
    do {
      let committed = try await engine.transact(transaction)
      #expect(journal.commits.count == count + 1, "one commit", sourceLocation: location)
      #expect(committed.sequence == Int64(count + 1), sourceLocation: location)
      #expect(SocialCheck.problems(in: root) == [], sourceLocation: location)
      #expect(root.brokenInvariant() == nil, sourceLocation: location)
      return committed.result
    } catch {
      #expect(root == before, "a refusal changes nothing", sourceLocation: location)
      #expect(journal.commits.count == count, sourceLocation: location)
      throw error
    }
  }

  /// Checks that a request is refused, and returns the error.
  @discardableResult
  func refusal<R: Sendable>(
    of transaction: @escaping BlogTransaction<R>, at location: SourceLocation = #_sourceLocation
  ) async -> SocialError? {
    await #expect(throws: SocialError.self, sourceLocation: location) {
      _ = try await make(transaction, at: location)
    }
  }

  func join(_ name: String, uid: Key? = nil) async throws {
    try await make { try Users.claim(name, for: uid ?? Key(name), in: &$0) }
  }

  func post(
    _ uid: Key = "ada", _ title: String = "title", _ body: String = "body"
  ) async throws -> Key {
    try await make { try Posts.create(by: uid, title: title, body: body, in: &$0) }
  }

  /// Writes a post as a client of the tree may: without counts.
  func write(_ id: Key, by uid: Key) async throws {
    let post = json(#"{"uid":"\#(uid)","author":"\#(uid)","title":"raw","body":"raw"}"#)
    try await make { _ in
      let copies = [Path.root.child("posts"), Path.root.child("user-posts").child(uid)]
      return Decision(try Write(copies.map { .init($0.child(id), post) }), ())
    }
  }

  func comment(_ uid: Key, on id: Key, _ text: String = "text") async throws -> Key {
    try await make { try Comments.create(on: id, by: uid, text: text, in: &$0) }
  }

  @discardableResult
  func star(_ uid: Key, _ id: Key) async throws -> Posts.StarState {
    try await make { try Posts.toggleStar(id, by: uid, in: &$0) }
  }
}
