internal import CanopyAccounts
public import CanopyEngine
internal import CanopyRules
package import CanopyTree
internal import CanopyWire

/// A write that waits for its connection to end.
public struct ArmedWrite: Sendable {
  /// The id in the store.
  public let id: DisconnectWriteID
  /// The id of the first write of its group in the store. See `DisconnectWrite.group`.
  let group: DisconnectWriteID
  /// The write without the exceptions.
  package private(set) var write: Write
  /// The locations at which it no longer applies, because a later request replaced or cancelled it there.
  private(set) var exceptions: [Location]
  /// The user who armed it; nil for the administrator.
  let caller: RuleCaller?
  /// The session in which it was armed; nil without a session, and for a write of the last process.
  let session: ArmedSession?
  /// The login by a pass in which the administrator armed it; nil without one, and for a write of the last process.
  let login: AdministratorLogin?
  /// The bytes of the request.
  public let bytes: Int

  /// An estimate of its memory in bytes when it was armed.
  let memoryBytes: Int

  /// The bytes of a write besides its text and values. A write of 250 bytes took 5 KiB (growth of RSS).
  private static let baseBytes = 3 * 1024

  /// Creates a write with the text of its request.
  init(
    id: DisconnectWriteID, group: DisconnectWriteID? = nil, write: Write,
    exceptions: [Location] = [], caller: RuleCaller?, session: ArmedSession? = nil,
    login: AdministratorLogin? = nil, text: String
  ) {
    self.id = id
    self.group = group ?? id
    self.write = write
    self.caller = caller
    self.session = session
    self.login = login
    var text = text
    bytes = text.utf8.count
    let nodes =
      ArmedWrite.baseBytes
      + text.withUTF8 { Request.memoryBytes(text: UnsafeRawBufferPointer($0)) }
    memoryBytes = write.items.reduce(nodes) { $0 + $1.location.memoryBytes + $1.value.pathBytes }
    self.exceptions = self.write.removeItems(coveredBy: LocationCover(exceptions))
  }

  /// Decodes a write that the last process left in the store.
  ///
  /// - Throws: `WireError` or `TreeError` if it cannot be decoded.
  package init(_ kept: DisconnectWrite) throws {
    var text = "ONDISCONNECT " + kept.request
    let request = try text.withUTF8 { bytes in
      try Request(line: UnsafeRawBufferPointer(bytes), limits: .none)
    }
    guard case .connection(.onDisconnect(let request, _)) = request else {
      throw WireError(.internalError, "not an on-disconnect write: \(kept.request)")
    }
    self.init(
      id: kept.id, group: kept.group, write: try request.write() ?? Write([]),
      exceptions: try kept.exceptions.map { text throws(TreeError) in try Location(text) },
      caller: try KeptCaller(kept.identity).caller, text: kept.request)
  }

  /// Whether the login in which it was armed has been revoked, so that it must not be made.
  var isRevoked: Bool { login?.isRevoked == true || session?.session.mayFinish == false }

  /// Removes the items that some locations cover. Returns the new exceptions; empty if there were no such items.
  ///
  /// Only locations that remove an item become exceptions, so a write never has more exceptions than it
  /// had items.
  mutating func except(_ locations: LocationCover) -> [Location] {
    let found = write.removeItems(coveredBy: locations)
    exceptions += found
    return found
  }
}

extension Sequence<ArmedWrite> {
  /// The first locations of the writes, cut short, and the number of the others, for the log.
  var placesForLog: String {
    var count = 0
    var first: [String] = []
    for write in self {
      count += write.write.items.count
      for item in write.write.items.prefix(10 - first.count) {
        first.append(item.location.textForLog)
      }
    }
    let more = count > first.count ? " and \(count - first.count) more" : ""
    return first.joined(separator: " ") + more
  }
}

extension DisconnectRequest {
  /// The number of locations that the request writes.
  var locationCount: Int {
    switch self {
    case .set: 1
    case .update(_, let changes): changes.count
    case .cancel: 0
    }
  }

  /// Returns the write, or nil for a cancellation.
  ///
  /// - Throws: `TreeError` when the write is invalid.
  func write() throws(TreeError) -> Write? {
    switch self {
    case .set(let location, let value): try Write.set(location, value)
    case .update(let path, let changes):
      try Write.update(path, changes.map { ($0.location, $0.value) })
    case .cancel: nil
    }
  }

  /// Returns the locations whose earlier on-disconnect writes the request replaces.
  func locations(of write: Write?) -> [Location] {
    if case .cancel(let path) = self { return [Location(path)] }
    return write?.items.map(\.location) ?? []
  }
}
