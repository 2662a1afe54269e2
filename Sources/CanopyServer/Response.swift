internal import CanopyTree
internal import CanopyWire

/// What became of a request that was under way: its line, and what it changes on its connection.
struct Response: Sendable {
  /// The reply with its line end.
  var line: [UInt8]
  /// Who the connection is from now on; nil for no change.
  var identity: Identity?
  /// The on-disconnect writes that the connection has from now on; nil for no change.
  var armed: [ArmedWrite]?
  /// Whether the connection closes after the reply.
  var closes = false

  /// A success.
  init(identity: Identity? = nil, _ body: (inout JSONOutput) -> Void) {
    var output = JSONOutput()
    Reply.success(to: &output, body)
    line = output.bytes
    self.identity = identity
  }

  /// A line that is written already.
  init(line: [UInt8]) {
    self.line = line
  }

  /// A failure.
  init(_ error: WireError) {
    var output = JSONOutput()
    Reply.failure(error, to: &output)
    line = output.bytes
  }

  /// `+null`
  static var null: Response { Response { $0.append("null") } }
}
