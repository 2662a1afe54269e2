internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// A request to the server that both protocols can express.
enum ServerRequest {
  /// Takes on the identity of a token.
  case authenticate(token: String)
  /// Drops the identity.
  case unauthenticate
  /// Listens to a query.
  case listen(ServerListen)
  /// Stops listening. The line protocol names the subscription by its number, the realtime protocol by its target.
  case unlisten(subscription: Int64, QuerySpec?)
  case get(QuerySpec)
  case write(Write, OnceID)
  /// Sets a value if the location still has the value `base`.
  case compareAndSet(Path, base: Node, WriteValue, OnceID)
  case disconnect(DisconnectOperation)
}

/// The identity of a write, by which a server applies it once. The realtime protocol has no place for it.
struct OnceID {
  var client: String
  var number: Int64
  /// The number up to which the client has seen the replies to its writes.
  var seen: Int64
}

/// An encoded request with a line feed at its end.
struct EncodedRequest {
  var line: ByteBuffer
  /// The number of the request in the realtime protocol, unique in this process; 0 in the line protocol.
  var number: Int64
}

extension JSONOutput {
  /// Appends a request in the line protocol, without its terminator.
  mutating func append(line request: ServerRequest) {
    switch request {
    case .authenticate(let token):
      append("AUTH ")
      append(string: token)
    case .unauthenticate: append("LOGOUT")
    case .listen(let listen): append(listen: listen.spec, since: listen.since)
    case .unlisten(let number, _):
      append("UNLISTEN ")
      append(number)
    case .get(let spec): append(get: spec)
    case .write(let write, let id):
      append(once: id.client, id.number, seen: id.seen)
      append(write: write)
    case .compareAndSet(let path, let base, let value, let id):
      append(once: id.client, id.number, seen: id.seen)
      append("CAS ")
      append(path: path)
      append(" ")
      append(string: base.isAbsent ? "null_etag" : base.hash)
      append(" ")
      append(value)
    case .disconnect(let operation): append(line: operation)
    }
  }

  private mutating func append(line operation: DisconnectOperation) {
    append("ONDISCONNECT ")
    switch operation.kind {
    case .set(let value):
      append("SET ")
      append(path: operation.path)
      append(" ")
      append(value)
    case .update(let changes):
      append("UPDATE ")
      append(path: operation.path)
      append(" {")
      for (index, (location, value)) in changes.enumerated() {
        if index > 0 { append(",") }
        append(string: location.text)
        append(":")
        append(value)
      }
      append("}")
    case .cancel:
      append("CANCEL ")
      append(path: operation.path)
    }
  }
}

extension JSONValue {
  /// Reads JSON from bytes; nil if they are not JSON.
  init?(reading bytes: [UInt8]) {
    guard let value = bytes.withUnsafeBytes({ try? JSONValue(json: $0) }) else { return nil }
    self = value
  }
}
