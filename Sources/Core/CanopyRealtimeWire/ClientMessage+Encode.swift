public import CanopyTree
public import CanopyWire

extension JSONOutput {
  /// Appends a message of a client, as `ClientMessage.init(_:limits:)` reads it. For clients and tests.
  public mutating func append(_ message: ClientMessage) {
    switch message {
    case .ping: append("{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}")
    case .otherControl: append("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":{}}}")
    case .request(let number, let request):
      append("{\"t\":\"d\",\"d\":{\"r\":")
      append(number)
      append(",\"a\":")
      append(string: request.action.rawValue)
      append(",\"b\":")
      object { $0.appendMembers(of: request) }
      append("}}")
    }
  }

  private mutating func appendMembers(of request: RealtimeRequest) {
    switch request {
    case .listen(let body):
      append(body.target, queryText: body.queryText)
      if let hash = body.hash { member("h", hash) }
    case .unlisten(let target): append(target, queryText: nil)
    case .get(let path, let query):
      member("p", path.description)
      member("q")
      append(wire: query)
    case .put(let body):
      append(body.location, body.value)
      if let hash = body.hash { member("h", hash) }
    case .merge(let body):
      append(body.path, body.changes)
      if let hash = body.hash { member("h", hash) }
    case .disconnectPut(let location, let value): append(location, value)
    case .disconnectMerge(let path, let changes): append(path, changes)
    case .disconnectCancel(let path):
      member("p", path.description)
      member("d")
      append("null")
    case .authenticate(let body): member("cred", body.token)
    case .unauthenticate, .statistics, .appCheck: break
    }
  }

  private mutating func append(_ target: ListenTarget, queryText: String?) {
    member("p", target.path.description)
    if let queryText {
      member("q")
      append(raw: queryText)
    } else if target.query != .all {
      member("q")
      append(wire: target.query)
    }
    if let tag = target.tag { member("t", tag) }
  }

  private mutating func append(_ location: Location, _ value: WriteValue) {
    member("p", "/" + location.text)
    member("d")
    append(value)
  }

  private mutating func append(_ path: Path, _ changes: [Request.Update]) {
    member("p", path.description)
    member("d")
    append(changes)
  }

  /// Appends the steps of an update as an object of values by path.
  public mutating func append(_ changes: [Request.Update]) {
    append("{")
    for (index, change) in changes.enumerated() {
      if index > 0 { append(",") }
      append(string: change.location.text)
      append(":")
      append(change.value)
    }
    append("}")
  }
}
