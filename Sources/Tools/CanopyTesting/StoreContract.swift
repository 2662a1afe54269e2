package import CanopyEngine
internal import CanopyTree
internal import Testing

/// A kind of store that the contract suites open, close and open again.
///
/// A fixture is one data folder, or one namespace of a database.
package protocol StoreFixture: Sendable {
  /// The store.
  associatedtype Store: Journal, DisconnectStore, RulesRecordStore
  /// Whether the store refuses commits that complete on-disconnect writes which it does not have.
  static var refusesUnknownDisconnectWrites: Bool { get }
  /// Creates the data of an empty store.
  init() async throws
  /// Opens the store.
  func open(_ settings: StoreSettings) async throws -> Store
  /// Closes the store. Changes that were confirmed survive.
  func close(_ store: Store) async throws
  /// Returns one sentence for each problem of the stored data.
  func problems(of store: Store) async throws -> [String]
  /// Returns the number of commits that the journal has.
  func commitCount(of store: Store) async throws -> Int64
}

/// The settings that the contract suites vary.
package struct StoreSettings: Sendable {
  /// The number of commits to keep after a checkpoint.
  package var retainedCommits: Int64 = 100_000
  /// The age in milliseconds up to which commits are kept.
  package var retainedMilliseconds: Int64 = 3_600_000
  /// The number of rows of one step of a checkpoint.
  package var stepRows = 256
  /// The number of locations in one batch of a checkpoint.
  package var batchLocations = 250_000
  /// Called after each step of a checkpoint.
  package var afterStep: @Sendable () async throws -> Void = {}

  /// Creates the defaults.
  package init() {}
}

/// A requirement of a store, as a test with a name.
package struct ContractCheck<Fixture: StoreFixture>: Sendable, CustomTestStringConvertible {
  /// The requirement as a sentence.
  package let testDescription: String
  private let body: @Sendable (Fixture) async throws -> Void

  init(_ sentence: String, _ body: @escaping @Sendable (Fixture) async throws -> Void) {
    testDescription = sentence
    self.body = body
  }

  /// Checks the requirement with an empty store.
  package func run() async throws {
    try await body(Fixture())
  }
}

extension StoreFixture {
  /// Opens the store, runs `body`, and closes it.
  package func withStore<R>(
    _ settings: StoreSettings = StoreSettings(), isolation: isolated (any Actor)? = #isolation,
    _ body: (Store) async throws -> R
  ) async throws -> R {
    let store = try await open(settings)
    let result: Result<R, any Error>
    do { result = .success(try await body(store)) } catch { result = .failure(error) }
    try await close(store)
    return try result.get()
  }
}

extension Journal {
  /// Returns the commits of a range in order, with their before-images.
  package func wholeHistory(
    after first: Int64 = 0, through last: Int64 = .max
  ) async throws -> [Commit] {
    var commits: [Commit] = []
    var next = last
    while true {
      let page = try await history(after: first, through: next) { _ in true }
      guard let read = page.read else { break }
      commits += page.commits
      next = read.lowerBound - 1
    }
    return commits.reversed()
  }
}

/// Returns a commit that sets one location.
func contractCommit(_ sequence: Int64, _ location: String, _ value: Node) throws -> Commit {
  Commit(
    sequence: sequence, time: 1_000 + sequence,
    assignments: [Assignment(try Location(location), value)])
}

/// Returns the node of a JSON text. Invalid JSON gives a string that says so.
func contractNode(_ text: String) -> Node {
  (try? Node(json: text)) ?? Node("not JSON: \(text)")
}
