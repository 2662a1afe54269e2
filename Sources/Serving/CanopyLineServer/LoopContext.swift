internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// The state that the connections of one event loop share. Use it on that loop only.
final class LoopContext: LoopServices {
  /// The encoded lists since the last commit.
  let lists = ListCache()
  /// Encodes replies.
  let codec: LineCodec
  /// The state for the other namespaces.
  private let others: NamespaceLocals<LoopContext>

  /// - Parameters:
  ///   - turns: the queue for turns; nil for one that looks for input between them.
  ///   - encoded: the texts that this shares with other protocols on the loop; nil for its own.
  ///   - now: the clock by which turns end.
  init(
    _ operations: Operations, loop: any EventLoop, turns: LoopTurns? = nil,
    encoded: EncodedNodes? = nil, now: @escaping () -> NIODeadline = { .now() }
  ) {
    let encoded = encoded ?? EncodedNodes(loop: loop)
    codec = LineCodec(operations.limits, encoded)
    others = NamespaceLocals(loop: loop)
    super.init(
      operations, protocolName: "line", loop: loop, turns: turns, encoded: encoded, now: now)
  }

  private init(_ operations: Operations, of home: LoopContext) {
    codec = LineCodec(operations.limits, home.encoded)
    others = NamespaceLocals(loop: home.loop)
    super.init(operations, sharing: home)
  }

  /// Returns the state for a namespace. This must be the state for the default one.
  ///
  /// - Parameter operations: the operations on the namespace, of which the caller has a lease.
  func context(of operations: Operations) -> LoopContext {
    if operations === self.operations { return self }
    return others.value(of: operations) { LoopContext(operations, of: self) }
  }

  /// Returns the handlers of a new connection, behind TLS.
  func handlers() -> [any ChannelHandler] {
    let reading = ReadTurns(turns, work, operations.memory, operations.logger)
    return [reading, LineHandler(shared: self, behind: reading)]
  }

  /// Carries out a read that does not take long, and appends the line of its reply. All requests for the same list
  /// share one buffer.
  ///
  /// - Parameter inbox: has the snapshot of the read. A PING needs none.
  /// - Returns: whether it was carried out.
  func read(
    _ request: ReadRequest, as identity: Identity, in inbox: LoopInbox,
    to output: inout LineOutput
  ) -> Bool {
    if case .ping = request {
      return codec.encode(Operations.pong, to: &output, counting: metrics)
    }
    let snapshot = inbox.snapshot
    guard let list = SharedList(request) else {
      guard let reply = operations.read(request, as: identity, in: snapshot.root) else {
        return false
      }
      codec.encode(reply, to: &output, counting: metrics)
      return true
    }
    if let line = lists.find(list, at: snapshot.sequence) {
      output.append(shared: line)
      return true
    }
    guard let reply = operations.read(request, as: identity, in: snapshot.root) else {
      return false
    }
    let start = output.text.count
    codec.encode(reply, to: &output, counting: metrics)
    // A list with a part that is not encoded yet cannot be shared.
    if !output.hasPieces { output.text.withBytes { lists.keep($0[start...], of: list) } }
    return true
  }
}

extension LineCodec {
  /// Creates the codec for the replies of one namespace on one event loop.
  fileprivate init(_ limits: Limits, _ encoded: EncodedNodes) {
    self.init(
      replyBytesMax: limits.replyBytesMax, wholeBytesMax: limits.wholeReplyBytesMax,
      encoded: encoded)
  }
}
