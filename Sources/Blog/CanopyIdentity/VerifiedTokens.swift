internal import Crypto
internal import Synchronization

/// The tokens that were verified last, so that a client that sends its token with each request costs one verification
/// of a signature in an hour.
///
/// A token is known by its SHA-256, so that no copy of it stays in memory. There are two generations: if the younger
/// one is full, the older one is dropped and the younger one becomes the older one. So each operation is O(1), and a
/// token that is in use stays. Bounded by a number of tokens and of bytes. Safe to use from any thread.
final class VerifiedTokens: Sendable {
  /// The SHA-256 of a token.
  struct Key: Hashable, Sendable {
    fileprivate let digest: SHA256Digest

    /// Creates the key of a token. O(bytes of the token).
    init(_ token: String) {
      var token = token
      digest = token.withUTF8 { SHA256.hash(data: UnsafeRawBufferPointer($0)) }
    }
  }

  private struct Entry {
    let identity: VerifiedIdentity
    let bytes: Int
  }

  private struct Generation {
    var entries: [Key: Entry] = [:]
    var bytes = 0

    mutating func add(_ entry: Entry, for key: Key) {
      remove(key)
      entries[key] = entry
      bytes += entry.bytes
    }

    @discardableResult
    mutating func remove(_ key: Key) -> Entry? {
      guard let entry = entries.removeValue(forKey: key) else { return nil }
      bytes -= entry.bytes
      return entry
    }
  }

  private struct State {
    var young = Generation()
    var old = Generation()
  }

  private let generationMax: Int
  private let generationBytesMax: Int
  private let state = Mutex(State())

  /// Creates an empty memory.
  ///
  /// - Parameters:
  ///   - capacity: the maximum number of tokens.
  ///   - bytesMax: the maximum of their ``bytes(ofTokenWith:)`` together, except for a single token that is larger.
  init(capacity: Int, bytesMax: Int) {
    generationMax = max(1, capacity / 2)
    generationBytesMax = max(1, bytesMax / 2)
  }

  /// The number of tokens in memory.
  var count: Int { state.withLock { $0.young.entries.count + $0.old.entries.count } }

  /// The bytes of the tokens in memory.
  var bytes: Int { state.withLock { $0.young.bytes + $0.old.bytes } }

  /// Returns an upper estimate of the memory of the identity of a token: each byte of the claims is in the tree values
  /// of `auth`, and each claim has a node.
  ///
  /// - Parameter count: the bytes of the token.
  static func bytes(ofTokenWith count: Int) -> Int { 1_024 + 4 * count }

  subscript(key: Key) -> VerifiedIdentity? {
    state.withLock { state in
      if let entry = state.young.entries[key] { return entry.identity }
      guard let entry = state.old.remove(key) else { return nil }
      add(entry, for: key, to: &state)
      return entry.identity
    }
  }

  /// Adds an identity.
  ///
  /// - Parameter bytes: see ``bytes(ofTokenWith:)``.
  func add(_ identity: VerifiedIdentity, for key: Key, bytes: Int) {
    state.withLock { add(Entry(identity: identity, bytes: bytes), for: key, to: &$0) }
  }

  func remove(_ key: Key) {
    state.withLock { state in
      state.young.remove(key)
      state.old.remove(key)
    }
  }

  private func add(_ entry: Entry, for key: Key, to state: inout State) {
    let isFull =
      state.young.entries.count >= generationMax
      || !state.young.entries.isEmpty && state.young.bytes + entry.bytes > generationBytesMax
    if isFull {
      state.old = state.young
      state.young = Generation()
    }
    state.young.add(entry, for: key)
  }
}
