public import CanopyTree

/// A line of the server as its client reads it: what `Reply` and `EventLine` write.
public enum ServerLine: Sendable {
  /// The request succeeded; the bytes are JSON.
  case success([UInt8])
  /// The request failed.
  case failure(WireError)
  /// Something happened to a subscription in the `sync` form.
  case event(SyncEvent)

  /// Reads a line, without its end.
  ///
  /// - Throws: `TreeError` when it is none of a server of this protocol.
  public init(_ line: UnsafeRawBufferPointer) throws(TreeError) {
    let rest = UnsafeRawBufferPointer(rebasing: line.dropFirst())
    switch line.first {
    case UInt8(ascii: "+"): self = .success([UInt8](rest))
    case UInt8(ascii: "-"):
      let code = rest.prefix { $0 != UInt8(ascii: " ") }
      let sentence = rest.dropFirst(code.count + 1)
      // A code that a later server may have is a failure all the same.
      self = .failure(
        WireError(
          WireError.Code(rawValue: String(decoding: code, as: UTF8.self)) ?? .internalError,
          String(decoding: sentence, as: UTF8.self)))
    case UInt8(ascii: ">"): self = .event(try SyncEvent(rest))
    default: throw .invalidJSON("expected a line that begins with +, - or >", offset: 0)
    }
  }
}

/// An event of a subscription in the `sync` form.
public struct SyncEvent: Sendable {
  /// What happened.
  public enum Change: Sendable {
    /// These places below the listener's have these values now.
    case put([Assignment])
    /// The subscription has ended.
    case cancel(WireError.Code)
  }

  /// The number of the subscription.
  public var subscription: Int64
  /// What happened.
  public var change: Change
  /// The number of the commit; 0 for a cancellation.
  public var sequence: Int64
  /// Whether this adds to what is known of the location; else it is all there is now.
  public var isPatch: Bool

  /// Reads the JSON of an event.
  init(_ json: UnsafeRawBufferPointer) throws(TreeError) {
    let members = try JSONMembers(json)
    guard let subscription = members.integer("sub"), let name = members.text("event") else {
      throw .invalidData("an event must have sub and event")
    }
    self.subscription = subscription
    if name == "cancel" {
      sequence = 0
      isPatch = false
      change = .cancel(members.text("code").flatMap(WireError.Code.init) ?? .internalError)
      return
    }
    guard let sequence = members.integer("seq"), let data = members["data"] else {
      throw .invalidData("an event must have seq and data")
    }
    self.sequence = sequence
    switch name {
    case "put":
      let location = try Location(members.text("path") ?? "/")
      change = .put([Assignment(location, try WriteValue(json: data, limits: .none).node)])
      isPatch = location != Location(.root)
    case "patch":
      let puts = try JSONReader.readUpdate(json: data, limits: .none)
      change = .put(puts.map { Assignment($0, $1.node) })
      isPatch = true
    default: throw .invalidData("the event is not one of the sync form: \(name)")
    }
  }
}
