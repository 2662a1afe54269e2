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
      self = .failure(WireError(line: rest))
    case UInt8(ascii: ">"): self = .event(try SyncEvent(rest))
    default: throw .invalidJSON("expected a line that begins with +, - or >", offset: 0)
    }
  }
}

extension WireError {
  /// Decodes the reply to a failed request, without its first character: `CODE sentence`, `CODE [REASON] sentence` or
  /// `CODE [1250 ms] sentence`.
  ///
  /// An unknown code, perhaps of a later server, is a failure too. An unknown reason is left out.
  fileprivate init(line: UnsafeRawBufferPointer) {
    let code = line.prefix { $0 != UInt8(ascii: " ") }
    var sentence = line.dropFirst(code.count + 1)
    var reason: Reason?
    if let name = WireError.reasonName(in: sentence) {
      reason = Reason(rawValue: String(decoding: name, as: UTF8.self))
      sentence = sentence.dropFirst(name.count + 3)
    }
    self.init(
      Code(rawValue: String(decoding: code, as: UTF8.self)) ?? .internalError, reason: reason,
      text: String(decoding: sentence, as: UTF8.self))
  }

  /// Returns the name in `[NAME] `, with which a sentence begins; nil if it does not begin so.
  private static func reasonName(
    in sentence: UnsafeRawBufferPointer.SubSequence
  ) -> UnsafeRawBufferPointer.SubSequence? {
    guard sentence.first == UInt8(ascii: "[") else { return nil }
    let name = sentence.dropFirst().prefix {
      $0 >= UInt8(ascii: "A") && $0 <= UInt8(ascii: "Z") || $0 == UInt8(ascii: "_")
    }
    guard !name.isEmpty, sentence.dropFirst(name.count + 1).starts(with: "] ".utf8) else {
      return nil
    }
    return name
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

  /// Appends the reply to a failed request: `-CODE sentence`, with the reason or the time to wait before the sentence, as
  /// in `-CODE [REASON] sentence` and `-CODE [1250 ms] sentence`.
  public static func failure(_ error: WireError, to output: inout JSONOutput) {
    output.append(UInt8(ascii: "-"))
    output.append(raw: error.code.rawValue)
    output.append(UInt8(ascii: " "))
    if let reason = error.reason {
      output.append(UInt8(ascii: "["))
      output.append(raw: reason.rawValue)
      output.append("] ")
    }
    output.append(raw: error.text)
    output.append("\r\n")
  }
}
