public import CanopyEngine
internal import CanopyRules
internal import CanopyTree
internal import CanopyWire

/// A write that waits for its connection to end.
public struct ArmedWrite: Sendable {
  /// The number that the store gave it.
  public let id: DisconnectWriteID
  /// The write without the exceptions.
  private(set) var write: Write
  /// The locations where it no longer applies, because a later request replaced or cancelled it there.
  private(set) var exceptions: [Location]
  /// The user who armed it; nil for the administrator.
  let caller: RuleCaller?
  /// The session in which it was armed; nil without a session, and for a write that was kept when the
  /// process ended.
  let session: ArmedSession?
  /// The bytes of the request.
  public let bytes: Int

  init(
    id: DisconnectWriteID, write: Write, exceptions: [Location] = [], caller: RuleCaller?,
    session: ArmedSession? = nil, bytes: Int
  ) {
    self.id = id
    self.write = write
    self.caller = caller
    self.session = session
    self.exceptions = exceptions
    self.bytes = bytes
    for location in exceptions { remove(location) }
  }

  /// Decodes a write that the store kept when the process ended.
  ///
  /// - Throws: `WireError` or `TreeError` when it cannot be read.
  init(_ kept: DisconnectWrite) throws {
    var text = "ONDISCONNECT " + kept.request
    let request = try text.withUTF8 { bytes in
      try Request(line: UnsafeRawBufferPointer(bytes), limits: .none)
    }
    guard case .connection(.onDisconnect(let request, _)) = request else {
      throw WireError(.internalError, "not an on-disconnect write: \(kept.request)")
    }
    self.init(
      id: kept.id, write: try request.write() ?? Write([]),
      exceptions: try kept.exceptions.map { text throws(TreeError) in try Location(text) },
      caller: try KeptCaller(kept.identity).caller, bytes: kept.request.utf8.count)
  }

  /// The locations that it writes, for the log.
  var places: [String] { write.items.map { "/" + $0.location.text } }

  /// Removes everything at and below some locations. Returns whether there was anything.
  mutating func except(_ locations: [Location]) -> Bool {
    let count = write.items.count
    for location in locations { remove(location) }
    guard write.items.count < count else { return false }
    exceptions += locations
    return true
  }

  private mutating func remove(_ location: Location) {
    write.removeItems { item in
      item.location == location
        || (!location.isPriority && item.location.path.hasPrefix(location.path))
    }
  }
}

extension DisconnectRequest {
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
