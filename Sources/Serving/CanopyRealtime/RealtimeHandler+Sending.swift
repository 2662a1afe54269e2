internal import CanopyEngine
internal import CanopyEvents
internal import CanopyMetrics
internal import CanopyRealtimeWire
internal import CanopyRules
internal import CanopySession
internal import CanopyTree
internal import CanopyWire
internal import NIOCore

/// Answers, and the messages with values.
extension RealtimeHandler {
  /// Appends the message that `write` writes.
  func append(_ write: (inout JSONOutput) -> Void) {
    MessageFrames.append(to: &output.text, write)
    context.map(noteUnsent)
  }

  /// Appends the message with a value.
  ///
  /// - Parameter bytes: the bytes of the value.
  func append(_ put: Assignment, at path: Path, tag: Int64?, bytes: ValueBytes) {
    append(RealtimeEvent.parts([put], at: path, tag: tag), bytes: bytes)
  }

  /// Appends a message: encoded at once if it is small.
  private func append(_ parts: [LinePieces.Part], bytes: ValueBytes) {
    guard bytes.json <= operations.limits.wholeReplyBytesMax else {
      output.append(LinePieces(message: bytes, parts))
      context.map(noteUnsent)
      return
    }
    append { shared.encoded.append(parts, to: &$0) }
  }

  // MARK: Answers

  /// Answers the first request that is not answered.
  ///
  /// - Parameter snapshot: the snapshot up to which the events are sent; nil for that of the loop.
  func answer(_ reply: Reply, at snapshot: Snapshot? = nil) {
    guard let (number, kind) = answers.take(), session.isOpen else { return }
    switch reply {
    case .subscribed(let subscribed): begin(subscribed, answering: number)
    case .failure(let error):
      shared.metrics.count(error.code)
      append { output in
        ServerMessage.answer(number, RealtimeStatus(error.code), to: &output) {
          $0.append(string: error.text)
        }
      }
    case .value(let node, let style, _, let bytes):
      answer(number, .node(node, style), bytes: bytes)
    case .members(let members, let style, let bytes):
      answer(number, .members(members[...], style), bytes: bytes)
    case .mismatch(let node, _, _, let bytes):
      if case .transaction(let location) = kind {
        push(location, in: (snapshot ?? hub.inbox.snapshot).root, unlessChanged: node, bytes)
      }
      append { output in
        ServerMessage.answer(number, .dataStale, to: &output) {
          $0.append(string: "the value has changed; compute the new one again")
        }
      }
    case .json, .post, .entries: answer(number, kind)
    }
  }

  /// Answers a request that has succeeded without a value.
  private func answer(_ number: Int64, _ kind: PendingAnswers.Kind) {
    append { output in
      ServerMessage.answer(number, .ok, to: &output) { output in
        guard case .authenticate = kind else { return output.append(string: "") }
        let auth = session.identity.caller(at: operations.now())?.auth ?? .absent
        output.object {
          $0.member("auth", auth, style: .export)
          // In seconds, as in a token.
          if case .user(let login) = session.identity {
            $0.member("expires", login.expiresAt / 1000)
          }
        }
      }
    }
  }

  /// Answers a request with a value.
  private func answer(_ number: Int64, _ value: LinePieces.Part, bytes: ValueBytes) {
    let parts = LinePieces.parts(value) { output, body in
      ServerMessage.answer(number, .ok, to: &output, body)
    }
    append(parts, bytes: bytes)
  }

  /// Sends the present value of a location to a client whose transaction has failed and that has no listener for it.
  ///
  /// It is the value of the snapshot up to which the connection has got the events. If it is large and no longer the one
  /// that was compared, it is not sent, because it was not measured: the client computes once more in vain.
  ///
  /// - Parameter root: the root of that snapshot.
  private func push(
    _ location: Location, in root: Node, unlessChanged node: Node, _ bytes: ValueBytes
  ) {
    let isCovered = listeners.values.contains {
      $0.body.target.tag == nil && location.path.hasPrefix($0.body.target.path)
    }
    guard !isCovered, !location.isPriority else { return }
    let present = root.at(location.path)
    var options = GetOptions()
    options.isExport = true
    if present.isIdentical(to: node) {
      append(Assignment(.root, present), at: location.path, tag: nil, bytes: bytes)
    } else if case .value(let value, _, _, let bytes)? = operations.read(
      .get(location, options), as: session.identity, in: root)
    {
      append(Assignment(.root, value), at: location.path, tag: nil, bytes: bytes)
    }
  }
}
