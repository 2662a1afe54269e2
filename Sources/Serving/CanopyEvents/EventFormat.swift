package import CanopyTree

// CanopyEvents owns the delivery of events to the connections of an event loop, whatever their protocol is: the
// inbox of the loop, the subscriptions on it, and the text of events. It must not know requests or sockets.

/// The protocol in which a subscription receives its events.
package enum EventFormat: Hashable, Sendable, CaseIterable {
  /// Lines of the line protocol.
  case line
  /// Events of an HTTP event stream. The form of the events is `sync`.
  case stream
  /// Messages of the realtime protocol, in WebSocket frames. The form of the events is `sync`.
  case realtime

  /// Numbers of something in each format, without memory of their own: there may be very many views.
  struct Counts {
    private var lines = 0
    private var streams = 0
    private var realtime = 0

    /// The number of one format.
    subscript(format: EventFormat) -> Int {
      get {
        switch format {
        case .line: lines
        case .stream: streams
        case .realtime: realtime
        }
      }
      set {
        switch format {
        case .line: lines = newValue
        case .stream: streams = newValue
        case .realtime: realtime = newValue
        }
      }
    }

    /// Whether more than one format has a number that is not 0.
    var areSeveral: Bool { EventFormat.allCases.count { self[$0] != 0 } > 1 }
  }
}

/// The events of an HTTP event stream: a line with the name, a line with the data, and an empty line.
///
/// Values are plain, without priorities. So the new value of a priority makes no event.
package enum StreamEvent {
  /// Appends the event for some new values.
  ///
  /// - Returns: whether there is any to show.
  static func append(_ puts: [Assignment], to output: inout JSONOutput) -> Bool {
    let parts = parts(puts)
    for part in parts {
      switch part {
      case .text(let bytes): bytes.withUnsafeBytes { output.append($0) }
      case .node(let node, let style): output.append(node, style: style)
      // The parts of no event of a stream.
      case .members, .rest, .puts: continue
      }
    }
    return !parts.isEmpty
  }

  /// Returns the parts of the event for some new values; none if all are priorities.
  static func parts(_ puts: [Assignment]) -> [LinePieces.Part] {
    let shown = puts.filter { !$0.location.isPriority }
    guard let first = shown.first else { return [] }
    guard shown.count > 1 else {
      return [
        .text { begin("put", first.location.path, to: &$0) }, .node(first.value, .plain), end,
      ]
    }
    let base = shown.dropFirst().reduce(first.location.path.parent ?? .root) { base, put in
      base.commonPrefix(with: put.location.path.parent ?? .root)
    }
    var parts: [LinePieces.Part] = []
    for put in shown {
      parts.append(
        .text { output in
          if parts.isEmpty {
            begin("patch", base, to: &output)
            output.append("{")
          } else {
            output.append(",")
          }
          output.append(string: put.location.path.relative(to: base)?.text ?? "")
          output.append(":")
        })
      parts.append(.node(put.value, .plain))
    }
    parts.append(.text { $0.append("}") })
    parts.append(end)
    return parts
  }

  /// Appends the event with the whole value of a location, which `body` appends.
  package static func put(to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void) {
    begin("put", .root, to: &output)
    body(&output)
    output.append("}\n\n")
  }

  /// Returns the event with the whole value of a location, which is encoded in pieces.
  ///
  /// - Parameter bytes: the bytes of the value.
  package static func pieces(_ node: Node, bytes: ValueBytes) -> LinePieces {
    LinePieces(
      bytes: bytes, parts: [.text { begin("put", .root, to: &$0) }, .node(node, .plain), end])
  }

  private static let end = LinePieces.Part.text { $0.append("}\n\n") }

  /// Appends the beginning of an event. The value of `data` may be encoded in pieces, so the object ends elsewhere.
  private static func begin(_ name: StaticString, _ path: Path, to output: inout JSONOutput) {
    output.append("event: ")
    output.append(name)
    output.append("\ndata: {\"path\":")
    output.append(string: path.description)
    output.append(",\"data\":")
  }
}

extension Path {
  /// Returns the path of the first keys that both paths have.
  fileprivate func commonPrefix(with other: Path) -> Path {
    prefix(zip(keys, other.keys).prefix { $0 == $1 }.count)
  }
}
