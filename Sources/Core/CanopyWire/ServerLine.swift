public import CanopyTree

/// A decoded line of the server, in the client: a line that `ReplyLine` or `EventLine` wrote.
public enum ServerLine: Sendable {
  /// The reply to a successful request; the bytes are JSON.
  case success([UInt8])
  /// The reply to a failed request.
  case failure(WireError)
  /// An event of a subscription in the `sync` form.
  case event(SyncEvent)

  /// Decodes a line without its terminator.
  ///
  /// - Throws: `TreeError` if the line is not valid in this protocol.
  public init(_ line: UnsafeRawBufferPointer) throws(TreeError) {
    let rest = UnsafeRawBufferPointer(rebasing: line.dropFirst())
    switch line.first {
    case UInt8(ascii: "+"): self = .success([UInt8](rest))
    case UInt8(ascii: "-"):
      let code = rest.prefix { $0 != UInt8(ascii: " ") }
      let sentence = rest.dropFirst(code.count + 1)
      // Treat an unknown code, perhaps of a later server, as a failure too.
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
  /// The change that an event reports.
  public enum Change: Sendable {
    /// These locations, relative to the subscription's path, have new values.
    case put([Assignment])
    /// The subscription has ended.
    case cancel(WireError.Code)
  }

  /// The number of the subscription.
  public var subscription: Int64
  /// The change.
  public var change: Change
  /// The sequence number of the commit; 0 for a cancellation.
  public var sequence: Int64
  /// Whether the change is partial; otherwise it replaces the whole value.
  public var isPatch: Bool

  /// Decodes the JSON of an event.
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

/// The form of the server's replies.
public enum ReplyLine {
  /// Appends the reply to a successful request: `+`, JSON, line end.
  ///
  /// - Parameter body: appends one JSON value without line breaks.
  @inline(__always)
  public static func success(
    to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    output.append(UInt8(ascii: "+"))
    body(&output)
    output.append("\r\n")
  }

  /// Appends the reply to a failed request: `-CODE sentence`.
  public static func failure(_ error: WireError, to output: inout JSONOutput) {
    output.append(UInt8(ascii: "-"))
    output.append(raw: error.code.rawValue)
    output.append(UInt8(ascii: " "))
    output.append(raw: error.sentence)
    output.append("\r\n")
  }
}
