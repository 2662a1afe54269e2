public import CanopyTree
public import CanopyWire

/// The reason why a message is refused, and the request that gets it as its answer.
public struct RealtimeRefusal: Error, Sendable {
  /// The number of the request; nil if the message has none, and the connection cannot go on.
  public var number: Int64?
  /// The reason.
  public var error: WireError

  /// Creates a refusal.
  public init(_ number: Int64?, _ error: WireError) {
    self.number = number
    self.error = error
  }
}

extension ClientMessage {
  /// Decodes a message.
  ///
  /// - Parameter pause: called often while the message is long.
  /// - Throws: `RealtimeRefusal` if the message is malformed, or a limit is exceeded.
  /// - Complexity: O(bytes).
  public init(
    _ bytes: UnsafeRawBufferPointer, limits: Limits, pausing pause: DecodingPause = .none
  ) throws(RealtimeRefusal) {
    func malformed(_ sentence: String) -> RealtimeRefusal {
      RealtimeRefusal(nil, WireError(.badRequest, sentence))
    }
    let envelope: JSONMembers
    let content: JSONMembers
    do throws(TreeError) {
      envelope = try JSONMembers(bytes)
      guard let data = envelope["d"] else { throw .invalidData("the message has no d") }
      content = try JSONMembers(data)
    } catch {
      throw malformed("a message must be a JSON object with t and d: \(error.sentence)")
    }
    switch envelope.text("t") {
    case "c": self = content.text("t") == "p" ? .ping : .otherControl
    case "d":
      guard let number = content.integer("r") else {
        throw malformed("a request must have a number r")
      }
      do throws(WireError) {
        self = .request(number, try RealtimeRequest(content, limits, pause))
      } catch {
        throw RealtimeRefusal(number, error)
      }
    default: throw malformed("the t of a message must be \"c\" or \"d\"")
    }
  }

  /// Finds the number of a request in the beginning of its message, of which the rest was dropped.
  ///
  /// Official clients write the number first.
  ///
  /// - Complexity: O(1): looks at the first 256 bytes.
  public static func number(inBeginning bytes: some Collection<UInt8>) -> Int64? {
    let head = Array(bytes.prefix(256))
    let mark = Array("\"r\":".utf8)
    guard head.count > mark.count,
      let start = (0...(head.count - mark.count)).first(where: {
        head[$0..<($0 + mark.count)].elementsEqual(mark)
      })
    else { return nil }
    let digits = head[(start + mark.count)...].prefix { (0x30...0x39).contains($0) }
    // The number must have ended.
    guard digits.endIndex < head.endIndex else { return nil }
    return Int64(String(decoding: digits, as: UTF8.self))
  }
}

extension RealtimeRequest {
  fileprivate init(
    _ request: JSONMembers, _ limits: Limits, _ pause: DecodingPause
  ) throws(WireError) {
    guard let name = request.text("a") else {
      throw WireError(.badRequest, "a request must have an action a")
    }
    guard let action = RealtimeAction(rawValue: name) else {
      let names = RealtimeAction.allCases.map(\.rawValue).joined(separator: ", ")
      throw WireError(.unknownVerb, "there is no action \(name); the actions are \(names)")
    }
    switch action {
    // Their bodies are ignored.
    case .unauthenticate: self = .unauthenticate
    case .statistics: self = .statistics
    case .appCheck: self = .appCheck
    default: try self.init(action, try RequestBody(request, limits, pause))
    }
  }

  private init(_ action: RealtimeAction, _ body: RequestBody) throws(WireError) {
    switch action {
    case .listen:
      let target = try body.target()
      self = .listen(
        ListenBody(target, queryText: try body.queryText(), hash: try body.listenHash()))
    case .unlisten: self = .unlisten(try body.target())
    case .get: self = .get(try body.path(), try body.query())
    case .put:
      let hash = try body.optionalText("h")
      self = .put(PutBody(try body.location(), try body.value(), hash: hash))
    case .merge:
      let hash = try body.optionalText("h")
      self = .merge(MergeBody(try body.path(), try body.changes(), hash: hash))
    case .disconnectPut: self = .disconnectPut(try body.location(), try body.value())
    case .disconnectMerge: self = .disconnectMerge(try body.path(), try body.changes())
    case .disconnectCancel: self = .disconnectCancel(try body.path())
    case .authenticate, .authenticateAdministrator:
      let isAdministrator = action == .authenticateAdministrator
      try body.refuseOverride()
      self = .authenticate(
        AuthenticationBody(token: try body.text("cred"), isAdministrator: isAdministrator))
    case .unauthenticate: self = .unauthenticate
    case .statistics: self = .statistics
    case .appCheck: self = .appCheck
    }
  }
}

/// The body of a request, whose members are decoded by their names.
private struct RequestBody {
  private let members: JSONMembers
  private let limits: Limits
  private let pause: DecodingPause

  init(
    _ request: JSONMembers, _ limits: Limits, _ pause: DecodingPause
  ) throws(WireError) {
    guard let bytes = request["b"] else {
      throw WireError(.badRequest, "the request must have a body b")
    }
    do throws(TreeError) { members = try JSONMembers(bytes) } catch { throw WireError(error) }
    self.limits = limits
    self.pause = pause
  }

  func text(_ name: StaticString) throws(WireError) -> String {
    guard let text = try optionalText(name) else {
      throw WireError(.badRequest, "the body must have a string \(name)")
    }
    return text
  }

  /// Returns a string; nil if it is missing or null. A condition of another type must not be ignored.
  func optionalText(_ name: StaticString) throws(WireError) -> String? {
    guard let bytes = members[name] else { return nil }
    do throws(TreeError) {
      switch try JSONValue(json: bytes, limits: limits) {
      case .null: return nil
      case .leaf(let node):
        if let text = node.stringValue { return text }
      case .array, .object: break
      }
    } catch {
      throw WireError(error)
    }
    throw WireError(.badRequest, "\(name) must be a string")
  }

  /// Returns the hash of a listener, which is kept as long as it begins.
  func listenHash() throws(WireError) -> String? {
    guard let hash = try optionalText("h") else { return nil }
    guard hash.utf8.count <= ListenBody.hashBytesMax else {
      throw WireError(.tooLarge, "a hash may have at most \(ListenBody.hashBytesMax) bytes")
    }
    return hash
  }

  func path() throws(WireError) -> Path {
    let text = try text("p")
    do throws(TreeError) { return try Path(text) } catch { throw WireError(error) }
  }

  func location() throws(WireError) -> Location {
    let text = try text("p")
    do throws(TreeError) { return try Location(text) } catch { throw WireError(error) }
  }

  private func data() throws(WireError) -> UnsafeRawBufferPointer {
    guard let bytes = members["d"] else {
      throw WireError(.badRequest, "the body must have data d; null removes")
    }
    return bytes
  }

  func value() throws(WireError) -> WriteValue {
    let data = try data()
    do throws(TreeError) {
      return try WriteValue(json: data, limits: limits, pausing: pause)
    } catch {
      throw WireError(error)
    }
  }

  func changes() throws(WireError) -> [Request.Update] {
    let data = try data()
    do throws(TreeError) {
      return try JSONReader.readUpdate(json: data, limits: limits, pausing: pause).map {
        Request.Update(location: $0, value: $1)
      }
    } catch {
      throw WireError(error)
    }
  }

  func target() throws(WireError) -> ListenTarget {
    var tag: Int64?
    if let bytes = members["t"], !bytes.elementsEqual("null".utf8) {
      guard let number = members.integer("t"), number >= 0 else {
        throw WireError(.badRequest, "a tag t must be an integer from 0 on")
      }
      tag = number
    }
    return ListenTarget(try path(), try query(), tag: tag)
  }

  func queryText() throws(WireError) -> String? {
    guard let bytes = members["q"], !bytes.elementsEqual("null".utf8) else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  func query() throws(WireError) -> Query {
    guard let bytes = members["q"] else { return .all }
    guard bytes.count <= ListenBody.queryBytesMax else {
      throw WireError(
        .tooLarge, "a query may have at most \(ListenBody.queryBytesMax) bytes of JSON")
    }
    do throws(TreeError) {
      return try Query(wire: try JSONValue(json: bytes, limits: limits))
    } catch {
      throw WireError(error)
    }
  }

  /// - Throws: `WireError` if the administrator asks for the rights of somebody else: to ignore that would give too many.
  func refuseOverride() throws(WireError) {
    guard members["authvar"] == nil, members["noauth"] == nil else {
      throw WireError(
        .badRequest,
        "this server takes no authvar or noauth; log in as the user whose rights are wanted")
    }
  }
}
