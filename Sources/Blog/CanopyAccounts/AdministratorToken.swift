internal import CanopySystem
import Crypto

/// The token that permits administration. Any user who may read the server's data folder has it.
///
/// The server creates it at the first start, in a file that only the server's user can read, and never sends it. Its
/// description and mirror do not contain it.
public struct AdministratorToken: Sendable {
  /// The file's name in the data folder.
  public static let fileName = "admin-token"

  /// The token: 43 characters of base64url, 256 random bits. A secret.
  public let text: String
  private let digest: [UInt8]

  /// The maximum size of a candidate that is hashed. A longer text is not a token.
  private static let candidateBytesMax = 1_024

  /// Creates the token from its text; nil if the text is not a token.
  init?(_ text: String) {
    guard let token = SessionToken(text) else { return nil }
    self.text = token.text
    self.digest = Self.digest(of: token.text)
  }

  /// Whether `candidate` is the token.
  ///
  /// Compares digests in constant time, so that the response time reveals neither the length nor the beginning of the
  /// token. O(length), at most 1 KiB.
  public func matches(_ candidate: String) -> Bool {
    guard candidate.utf8.count <= Self.candidateBytesMax else { return false }
    return ConstantTime.areEqual(Self.digest(of: candidate), digest)
  }

  private static func digest(of text: String) -> [UInt8] {
    Array(SHA256.hash(data: Array(text.utf8)))
  }
}

extension AdministratorToken: CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// The name of the type, without the token.
  public var description: String { "AdministratorToken(<redacted>)" }

  /// The same as ``description``.
  public var debugDescription: String { description }

  /// A mirror without children.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension AdministratorToken {
  /// Returns the token in `folder`; creates it if it does not exist.
  ///
  /// Creates the file with mode 0600, by ``CanopySystem/AtomicFile``, so a crash leaves either no token or a complete one.
  /// Blocks for a synchronization of the disk if it creates the file. Precondition: no other process uses the folder.
  ///
  /// - Parameters:
  ///   - folder: the data folder, which must exist.
  ///   - random: the source of a new token.
  /// - Throws: ``AccountError/administratorTokenUnusable(path:problem:)`` if the file is malformed, if other users may
  ///   read it, or if a system call fails. The permissions are not corrected silently, because other users may have
  ///   read the token already.
  public static func loadOrCreate(
    in folder: String, random: RandomBytes = AccountEnvironment.live.random
  ) throws -> AdministratorToken {
    if let token = try load(from: folder) { return token }
    let token = SessionToken.make(random: random).text
    let path = path(in: folder)
    do {
      try AtomicFile.replace(path, with: Array((token + "\n").utf8))
    } catch {
      throw AccountError.administratorTokenUnusable(
        path: path, problem: .system(operation: error.operation, reason: error.reason))
    }
    guard let loaded = try load(from: folder) else {
      throw AccountError.administratorTokenUnusable(path: path, problem: .malformed)
    }
    return loaded
  }

  /// Returns the token that all nodes of a server share, and keeps a copy in `folder` for commands on the machine of the
  /// node.
  ///
  /// The first node stores the token of its folder, or a new one. A different token in the folder of a later node is
  /// replaced. Precondition: no other process uses the folder.
  ///
  /// - Throws: `AccountError.administratorTokenUnusable` as ``loadOrCreate(in:random:)``; the store's error.
  public static func loadOrCreate(
    in folder: String, sharedBy store: any SecretStore,
    random: RandomBytes = AccountEnvironment.live.random
  ) async throws -> AdministratorToken {
    let own = try load(from: folder)
    var stored = try await store.secret(fileName)
    if stored == nil {
      let text = own?.text ?? SessionToken.make(random: random).text
      stored = try await store.insertSecret(fileName, Array(text.utf8))
    }
    guard let token = AdministratorToken(String(decoding: stored ?? [], as: UTF8.self)) else {
      throw AccountError.administratorTokenUnusable(
        path: "the secret \(fileName) in the database", problem: .malformed)
    }
    if own?.matches(token.text) != true { try token.write(to: path(in: folder)) }
    return token
  }

  private func write(to path: String) throws {
    do {
      try AtomicFile.replace(path, with: Array((text + "\n").utf8))
    } catch {
      throw AccountError.administratorTokenUnusable(
        path: path, problem: .system(operation: error.operation, reason: error.reason))
    }
  }

  /// Returns the token in `folder`; nil if it does not exist. For commands on the same machine, which must not create
  /// one. Throws the errors of ``loadOrCreate(in:random:)``.
  public static func load(from folder: String) throws -> AdministratorToken? {
    let path = path(in: folder)
    do {
      guard let content = try PrivateFile.read(path, bytesMax: SessionToken.characters + 1) else {
        return nil
      }
      guard let token = AdministratorToken(content: content) else {
        throw PrivateFileProblem.malformed
      }
      return token
    } catch let problem as PrivateFileProblem {
      throw AccountError.administratorTokenUnusable(path: path, problem: problem)
    }
  }

  /// Checks the contents of the file, as ``load(from:)`` does.
  ///
  /// - Throws: ``AccountError/administratorTokenUnusable(path:problem:)`` with `path` if they are malformed.
  public static func check(_ content: [UInt8], of path: String) throws {
    guard AdministratorToken(content: content) != nil else {
      throw AccountError.administratorTokenUnusable(path: path, problem: .malformed)
    }
  }

  /// Creates the token from the contents of its file; nil if they are malformed.
  private init?(content: [UInt8]) {
    let text = content.last == UInt8(ascii: "\n") ? content.dropLast() : content[...]
    self.init(String(decoding: text, as: UTF8.self))
  }

  private static func path(in folder: String) -> String {
    folder.utf8.last == UInt8(ascii: "/") ? folder + fileName : folder + "/" + fileName
  }
}
