internal import CanopyTree

extension Arguments {
  /// Consumes the text of rules: a JSON string or a JSON object; nil for the word that stands for
  /// the built-in ones.
  mutating func rulesText(_ verb: String) throws(WireError) -> String? {
    if nextIsObject { return try takeText() }
    let isString = nextIsString
    let text = try text("text")
    if isString { return text }
    guard text.asciiLowercased == "built-in" else {
      throw WireError(
        .badRequest,
        "usage: \(verb) \"{\\\"rules\\\":{…}}\" (a JSON string, which may hold comments), "
          + "\(verb) {\"rules\":{…}}, or \(verb) built-in")
    }
    return nil
  }

  mutating func explainRequest() throws(WireError) -> ExplainRequest {
    let caller = try explainCaller()
    let kind = try text("what to do").asciiUppercased
    let hasValue = count == 4
    switch kind {
    case "READ":
      return ExplainRequest(
        caller: caller, operation: .read(try path(), try Options.query(&self, "EXPLAIN … READ")))
    case "SET" where hasValue:
      return ExplainRequest(
        caller: caller, operation: .set(try location(), try value("EXPLAIN … SET")))
    case "UPDATE" where hasValue:
      return ExplainRequest(
        caller: caller, operation: .update(try path(), try updates("EXPLAIN … UPDATE")))
    case "REMOVE" where !hasValue:
      return ExplainRequest(caller: caller, operation: .set(try location(), WriteValue(.absent)))
    default:
      throw WireError(
        .badRequest,
        "usage: EXPLAIN who READ path [options], EXPLAIN who SET path json, EXPLAIN who UPDATE path "
          + "{…}, or EXPLAIN who REMOVE path")
    }
  }

  private mutating func explainCaller() throws(WireError) -> ExplainRequest.Caller {
    if nextIsObject {
      let auth = try value("EXPLAIN")
      guard auth.serverValues.isEmpty else {
        throw WireError(.invalidData, "an auth may hold no .sv")
      }
      return auth.node.isAbsent ? .anonymous : .auth(auth.node)
    }
    let isString = nextIsString
    let text = try text("who")
    return text == "null" && !isString ? .anonymous : .user(UserReference(text))
  }
}

extension Arguments {
  /// Consumes the next argument if it is a path below `/.info`, and returns that path; else returns
  /// nil.
  mutating func infoPath() throws(WireError) -> Path? {
    guard mayBeInfoPath else { return nil }
    var rest = self
    let path = try rest.text("path")
    let text = path.hasBytePrefix("/") ? path.droppingBytes(1) : path
    guard text == ".info" || text.hasBytePrefix(".info/") else { return nil }
    self = rest
    do throws(TreeError) {
      return try Path(text.droppingBytes(".info".utf8.count))
    } catch {
      throw WireError(error)
    }
  }

  /// Consumes the identity of the write in a ONCE.
  mutating func origin() throws(WireError) -> WriteOrigin {
    let client = try text("client")
    guard let number = Int64(try text("number")), let seen = Int64(try text("seen")) else {
      throw WireError(.badRequest, "number and seen must be integers")
    }
    do throws(TreeError) {
      return try WriteOrigin(client: client, number: number, seen: seen)
    } catch {
      throw WireError(error)
    }
  }

  /// Consumes the write of a ONCE.
  mutating func write() throws(WireError) -> TreeWrite {
    let verb = try text("the write").asciiUppercased
    // Check the number of arguments as for the verb itself.
    func checkCount() throws(WireError) { try Request.command(verb)?.checkCount(count - 4) }
    switch verb {
    case "SET":
      try checkCount()
      return try set()
    case "UPDATE":
      try checkCount()
      return try update()
    case "REMOVE":
      try checkCount()
      return try remove()
    case "CAS":
      try checkCount()
      return try compareAndSet()
    default:
      throw WireError(.badRequest, "ONCE takes SET, UPDATE, REMOVE or CAS")
    }
  }

  mutating func set() throws(WireError) -> TreeWrite {
    .set(try location(), try value("SET"))
  }

  mutating func update() throws(WireError) -> TreeWrite {
    .update(try path(), try updates("UPDATE"))
  }

  mutating func remove() throws(WireError) -> TreeWrite {
    .set(try location(), WriteValue(.absent))
  }

  mutating func compareAndSet() throws(WireError) -> TreeWrite {
    .compareAndSet(try location(), etag: try text("etag"), try value("CAS"))
  }

  /// Consumes the request of an ONDISCONNECT.
  mutating func disconnectRequest() throws(WireError) -> DisconnectRequest {
    let kind = try text("what to do").asciiUppercased
    let needsValue = kind == "SET" || kind == "UPDATE"
    guard needsValue == (count == 3), needsValue || kind == "REMOVE" || kind == "CANCEL" else {
      throw WireError(
        .badRequest,
        "usage: ONDISCONNECT SET path json, ONDISCONNECT UPDATE path {…}, ONDISCONNECT REMOVE path, "
          + "or ONDISCONNECT CANCEL path")
    }
    switch kind {
    case "SET": return .set(try location(), try value("ONDISCONNECT SET"))
    case "UPDATE":
      let path = try path()
      return .update(path, try updates("ONDISCONNECT UPDATE"))
    case "REMOVE": return .set(try location(), WriteValue(.absent))
    default: return .cancel(try path())
    }
  }
}

extension Arguments {
  mutating func id(_ name: String) throws(WireError) -> Key {
    guard let word = asciiWord() else { return try Options.key(try text(name), name) }
    return try Options.key(name) { () throws(TreeError) in try Key(utf8: word) }
  }

  mutating func path() throws(WireError) -> Path {
    guard let word = asciiWord() else {
      let text = try text("path")
      do throws(TreeError) { return try Path(text) } catch { throw WireError(error) }
    }
    do throws(TreeError) { return try Path(utf8: word) } catch { throw WireError(error) }
  }

  mutating func location() throws(WireError) -> Location {
    guard let word = asciiWord() else {
      let text = try text("path")
      do throws(TreeError) { return try Location(text) } catch { throw WireError(error) }
    }
    do throws(TreeError) { return try Location(utf8: word) } catch { throw WireError(error) }
  }

  mutating func value(_ verb: String) throws(WireError) -> WriteValue {
    let pause = pause
    return try json(verb) { bytes, limits throws(TreeError) in
      try WriteValue(json: bytes, limits: limits, pausing: pause)
    }
  }

  mutating func updates(_ verb: String) throws(WireError) -> [Request.Update] {
    let pause = pause
    let changes = try json(verb) { bytes, limits throws(TreeError) in
      try JSONReader.readUpdate(json: bytes, limits: limits, pausing: pause)
    }
    return changes.map { Request.Update(location: $0, value: $1) }
  }
}
