public import CanopyAccounts
internal import CanopySystem
internal import CanopyTree
internal import Crypto
internal import Foundation
internal import JWTKit
internal import Synchronization

/// The keys that sign identity tokens (ES256), in a file of the data folder that only its owner may read, or in the
/// store of several nodes.
///
/// The newest key signs. After ``rotate()`` the former keys still verify until the last token that they signed has
/// expired. Safe to use from any task.
public final class IdentityKeys: Sendable {
  /// The file's name in the data folder.
  public static let fileName = "identity-keys"

  /// The time for which a key verifies after a newer one has taken its place, in milliseconds: the longest lifetime of a
  /// token, an hour, and five minutes for clocks that differ.
  public static let retiredMilliseconds: Int64 = 65 * 60 * 1_000

  private static let fileBytesMax = 64 * 1024

  private struct State {
    /// The keys, newest first.
    var keys: [SigningKey]
    var isRotating = false
  }

  /// The file; nil if the keys are in a store.
  private let path: String?
  private let environment: AccountEnvironment
  private let state: Mutex<State>

  private init(path: String?, environment: AccountEnvironment, keys: [SigningKey]) {
    self.path = path
    self.environment = environment
    state = Mutex(State(keys: keys))
  }

  /// Returns the keys in `folder`; creates the first one if the file does not exist.
  ///
  /// The file has mode 0600 and is replaced atomically, so a crash leaves either no file or a complete one. Blocks for a
  /// synchronization of the disk if it creates the file. Precondition: no other process uses the folder.
  ///
  /// - Parameters:
  ///   - folder: the data folder, which must exist.
  ///   - environment: the clock and the source of new keys.
  /// - Throws: ``IdentityKeysError`` if the file is malformed, if other users may read it, or if a system call fails.
  public static func loadOrCreate(
    in folder: String, environment: AccountEnvironment = .live
  ) async throws -> IdentityKeys {
    let path = folder.hasByteSuffix("/") ? folder + fileName : folder + "/" + fileName
    do {
      if let bytes = try PrivateFile.read(path, bytesMax: fileBytesMax) {
        let keys = try await read(bytes)
        return IdentityKeys(path: path, environment: environment, keys: keys)
      }
      let keys = IdentityKeys(path: path, environment: environment, keys: [])
      try await keys.rotate()
      return keys
    } catch let problem as PrivateFileProblem {
      throw IdentityKeysError(path: path, problem: problem)
    }
  }

  /// Returns the keys that all nodes of a server share; creates the first one if the store has none.
  ///
  /// - Throws: ``IdentityKeysError`` if the stored keys are malformed; the store's error.
  public static func loadOrCreate(
    in store: any SecretStore, environment: AccountEnvironment = .live
  ) async throws -> IdentityKeys {
    var stored = try await store.secret(fileName)
    if stored == nil {
      let key = try await SigningKey.make(now: environment.now(), random: environment.random)
      // Another node may have created one meanwhile.
      stored = try await store.insertSecret(fileName, text(of: [key]))
    }
    do {
      return IdentityKeys(path: nil, environment: environment, keys: try await read(stored ?? []))
    } catch let problem as PrivateFileProblem {
      throw IdentityKeysError(path: "the secret \(fileName) in the database", problem: problem)
    }
  }

  /// Creates a new key, with which tokens are signed from now on, and removes the keys that verify no longer. Does nothing
  /// while another rotation is running, and for keys in a store, which the other nodes would not read again. Blocks for a
  /// synchronization of the disk.
  ///
  /// - Throws: ``IdentityKeysError``; the keys are then unchanged.
  public func rotate() async throws {
    guard let path else { return }
    let present: [SigningKey]? = state.withLock { state in
      guard !state.isRotating else { return nil }
      state.isRotating = true
      return state.keys
    }
    guard let present else { return }
    defer { state.withLock { $0.isRotating = false } }
    let now = environment.now()
    let new = try await SigningKey.make(now: now, random: environment.random)
    let former = present.map { key in
      var key = key
      key.retiredAt = key.retiredAt ?? now
      return key
    }
    let keys = [new] + former.filter { $0.verifies(at: now) }
    do {
      try AtomicFile.replace(path, with: Self.text(of: keys))
    } catch {
      throw IdentityKeysError(
        path: path, problem: .system(operation: error.operation, reason: error.reason))
    }
    state.withLock { $0.keys = keys }
  }

  /// The key that signs.
  var signing: SigningKey? { state.withLock { $0.keys.first } }

  /// Returns the key with an identifier, if it verifies still.
  func key(_ identifier: String, now: Int64) -> SigningKey? {
    state.withLock { state in
      state.keys.first { $0.identifier.hasSameBytes(as: identifier) && $0.verifies(at: now) }
    }
  }

  /// Returns the public keys as a JWK set.
  func published(now: Int64) -> JSONValue {
    let keys = state.withLock { $0.keys }.filter { $0.verifies(at: now) }
    return .object([
      (
        "keys",
        .array(
          keys.map { key in
            .object([
              ("kty", .text("EC")), ("use", .text("sig")), ("alg", .text("ES256")),
              ("kid", .text(key.identifier)), ("crv", .text("P-256")),
              ("x", .text(key.x)), ("y", .text(key.y)),
            ])
          })
      )
    ])
  }

  private static func text(of keys: [SigningKey]) -> [UInt8] {
    let list = keys.map { key in
      var members: JSONMembers = [
        ("kid", .text(key.identifier)), ("d", .text(key.secret)),
        ("createdAt", .number(key.createdAt)),
      ]
      if let retiredAt = key.retiredAt { members.append(("retiredAt", .number(retiredAt))) }
      return JSONValue.object(members)
    }
    return JSONValue.object([("keys", .array(list))]).jsonBytes + [UInt8(ascii: "\n")]
  }

  private static func read(_ bytes: [UInt8]) async throws -> [SigningKey] {
    var keys: [SigningKey] = []
    for stored in try storedKeys(bytes) {
      guard
        let key = try? await SigningKey(
          identifier: stored.identifier, secret: stored.secret, createdAt: stored.createdAt,
          retiredAt: stored.retiredAt)
      else { throw PrivateFileProblem.malformed }
      keys.append(key)
    }
    return keys
  }

  /// Checks the contents of the file, as `loadOrCreate` does.
  ///
  /// - Throws: ``IdentityKeysError`` with `path` if they are malformed.
  public static func check(_ content: [UInt8], of path: String) throws {
    guard content.count <= fileBytesMax, (try? storedKeys(content)) != nil else {
      throw IdentityKeysError(path: path, problem: .malformed)
    }
  }

  /// The members of a key in the file.
  private typealias StoredKey = (
    identifier: String, secret: String, createdAt: Int64, retiredAt: Int64?
  )

  private static func storedKeys(_ bytes: [UInt8]) throws -> [StoredKey] {
    guard let list = JSONValue(bytes: bytes)?["keys"]?.elements, !list.isEmpty else {
      throw PrivateFileProblem.malformed
    }
    return try list.map { value in
      guard let identifier = value["kid"]?.string, let secret = value["d"]?.string,
        let createdAt = value["createdAt"]?.integerNumber,
        (try? SigningKey.privateKey(secret)) != nil
      else { throw PrivateFileProblem.malformed }
      return (identifier, secret, createdAt, value["retiredAt"]?.integerNumber)
    }
  }
}

/// The file of the keys cannot be used.
public struct IdentityKeysError: Error, Equatable, CustomStringConvertible {
  /// The file.
  public let path: String
  /// The problem.
  public let problem: PrivateFileProblem

  /// One sentence that says what to do.
  public var sentence: String { problem.sentence(path: path, content: "keys of identity tokens") }

  /// The same as ``sentence``.
  public var description: String { sentence }
}

/// A key pair. Its description and mirror do not contain the secret.
struct SigningKey: Sendable {
  /// The number of random bytes of an identifier.
  private static let identifierBytes = 15
  private static let secretBytes = 32

  /// The key id in the headers of tokens.
  let identifier: String
  /// The private key as base64url.
  let secret: String
  /// The time of creation, in milliseconds since 1970.
  let createdAt: Int64
  /// The time at which a newer key took its place; nil for the key that signs.
  var retiredAt: Int64?
  /// The coordinates of the public key as base64url.
  let x, y: String
  private let algorithm: any JWTAlgorithm

  /// Creates a key from its secret. Throws if that is not a private key.
  init(identifier: String, secret: String, createdAt: Int64, retiredAt: Int64?) async throws {
    let key = try Self.privateKey(secret)
    let point = [UInt8](key.publicKey.rawRepresentation)
    x = Base64.encode(Array(point.prefix(32)), as: .url)
    y = Base64.encode(Array(point.suffix(32)), as: .url)
    let collection = await JWTKeyCollection().add(
      ecdsa: try ES256PrivateKey(backing: key), kid: JWKIdentifier(string: identifier))
    algorithm = try await collection.getKey(for: JWKIdentifier(string: identifier))
    self.identifier = identifier
    self.secret = secret
    self.createdAt = createdAt
    self.retiredAt = retiredAt
  }

  /// Returns the private key of a secret. Throws if it is not one.
  static func privateKey(_ secret: String) throws -> P256.Signing.PrivateKey {
    guard let bytes = Base64.decode(secret, as: .url), bytes.count == secretBytes else {
      throw PrivateFileProblem.malformed
    }
    return try P256.Signing.PrivateKey(rawRepresentation: bytes)
  }

  /// Creates a new key.
  static func make(now: Int64, random: RandomBytes) async throws -> SigningKey {
    let identifier = Base64.encode(random(identifierBytes), as: .url)
    // One of 2^32 texts is not a private key.
    for _ in 0..<8 {
      let secret = Base64.encode(random(secretBytes), as: .url)
      if let key = try? await SigningKey(
        identifier: identifier, secret: secret, createdAt: now, retiredAt: nil)
      {
        return key
      }
    }
    throw PrivateFileProblem.malformed
  }

  /// Whether tokens of this key are accepted.
  func verifies(at now: Int64) -> Bool {
    guard let retiredAt else { return true }
    let (end, overflow) = retiredAt.addingReportingOverflow(IdentityKeys.retiredMilliseconds)
    return overflow || now < end
  }

  /// Returns the signature of bytes, 64 bytes.
  func sign(_ bytes: [UInt8]) throws -> [UInt8] {
    try algorithm.sign(bytes)
  }

  /// Whether a signature of bytes is by this key.
  func isValid(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
    signature.count == 64 && (try? algorithm.verify(signature, signs: bytes)) == true
  }
}

extension SigningKey: CustomStringConvertible, CustomReflectable {
  var description: String { "SigningKey(\(identifier), <redacted>)" }
  var customMirror: Mirror { Mirror(self, children: ["identifier": identifier]) }
}
