internal import CanopyRealtimeWire
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// Requests, from their meaning to bytes of the connection's protocol.
extension RepositoryState {
  /// Adds a request to those that are sent at the end of the step. Returns false if it is too long.
  @discardableResult
  func send(_ sent: SentRequest, _ request: ServerRequest) -> Bool {
    guard let encoded = encode(request) else { return false }
    add(encoded)
    sentRequests.append(sent)
    return true
  }

  /// Adds a line of the line protocol. Returns false if it is too long.
  @discardableResult
  func send(_ request: SentRequest, _ write: (inout JSONOutput) -> Void) -> Bool {
    assert(!endpoint.isRealtime, "the realtime protocol has no such line")
    guard lines.add(bytesMax: serverLimits.lineBytes, write) else { return false }
    sentRequests.append(request)
    return true
  }

  /// Adds an encoded request. The caller records it among the sent ones.
  func add(_ request: EncodedRequest) {
    lines.add(request.line)
    if endpoint.isRealtime { link.expect(request.number) }
  }

  /// Returns a request in the connection's protocol; nil if it is too long.
  func encode(_ request: ServerRequest) -> EncodedRequest? {
    guard endpoint.isRealtime else {
      let line = RequestLines.line(bytesMax: serverLimits.lineBytes) { $0.append(line: request) }
      return line.map { EncodedRequest(line: $0, number: 0) }
    }
    let number = link.nextNumber()
    let message = ClientMessage.request(number, RealtimeRequest(request, hash: hash(for: request)))
    let line = RequestLines.line(bytesMax: serverLimits.lineBytes) { $0.append(message) }
    return line.map { EncodedRequest(line: $0, number: number) }
  }

  /// Returns the hash of the data that a new listener has; nil if it has none, or they may be incomplete.
  private func hash(for request: ServerRequest) -> String? {
    guard case .listen(let listen) = request, listen.since != nil,
      let node = tree.heldData(of: listen.spec)
    else { return nil }
    return node.isAbsent ? "" : node.hash
  }

  /// Sends the collected requests.
  func flush() {
    guard !lines.isEmpty else { return }
    guard let transport = phase.transport else {
      _ = lines.take()
      return
    }
    transport.send(lines.take())
  }

  /// Asks for a sign of life.
  func sendPing() {
    guard endpoint.isRealtime else {
      send(.nothing) { $0.append("PING") }
      return
    }
    _ = lines.add(bytesMax: serverLimits.lineBytes) { $0.append(ClientMessage.ping) }
  }
}

extension SyncTree {
  /// Returns the server's data of a listen; nil if they are not complete.
  func heldData(of spec: QuerySpec) -> Node? {
    if spec.query.isUnbounded { return serverValue(at: spec.path) }
    guard let id = viewOfSpec[spec], let view = views[id], view.server.isReady else { return nil }
    return spec.query.value(of: view.server.root)
  }
}
