package import CanopyEngine
package import CanopySession
package import CanopyTree
internal import CanopyWire

/// Large events, which are encoded piece by piece for each subscription.
extension LinePieces {
  /// Creates the answer to a request for a subscription whose content was measured, and the events of its
  /// content.
  ///
  /// - Parameter eventBytesMax: the most bytes of one event. A client that has an earlier version of a list gets a
  ///   larger state as the removal of all, and then one event for each child.
  package init(_ subscribed: Subscribed, eventBytesMax: Int) {
    let (number, sequence) = (subscribed.number, subscribed.sequence)
    var head = LinePieces.Part.text { _ in }
    func setHead(lines: Int) {
      head = .text { output in
        ReplyLine.success(to: &output) {
          $0.object {
            $0.member("sub", number)
            $0.member("seq", sequence)
            $0.member("initial", Int64(lines))
          }
        }
      }
    }
    let next: (Int) -> [Part]?
    switch subscribed.content {
    case .state(let state, let listening, let isReplacement)
    where listening.form == .child
      && (!isReplacement || (subscribed.bytes.json > eventBytesMax && state.isList)):
      let count = state.children.count
      let first = isReplacement ? 1 : 0
      setHead(lines: first + count)
      next = { line in
        if line < first {
          return [
            .text {
              LinePieces.begin(number, to: &$0)
              EventLine.put(.init(.root), sequence, isMore: count > 0, to: &$0) {
                $0.append("null")
              }
            }
          ]
        }
        let index = line - first
        guard index < count else { return nil }
        return LinePieces.parts(
          .child(state.addition(index)), sequence, listening, isMore: index + 1 < count, number)
      }
    case .state(let state, let listening, _):
      setHead(lines: 1)
      next = { index in
        guard index == 0 else { return nil }
        return LinePieces.parts(of: state, sequence, listening, number)
      }
    case .changes(let events, let listening):
      setHead(lines: events.count)
      next = { LinePieces.parts(of: events, $0, sequence, listening, number) }
    case .constant(let node, _):
      // Always small, and so never measured.
      setHead(lines: 0)
      next = { $0 == 0 ? [.node(node, .plain)] : nil }
    }
    self.init(bytes: subscribed.bytes, of: subscribed.content, head: head, next)
  }

  /// Creates the lines about a commit for a subscription.
  ///
  /// - Parameter state: the state that the events show, if they are a new value.
  package init(
    _ events: [ListenEvent], _ state: ShownState?, _ sequence: Int64, of listening: Listening,
    in format: EventFormat, for number: Int64, bytes: ValueBytes
  ) {
    switch format {
    case .line: break
    case .realtime:
      let puts: [Assignment] = events.flatMap { event -> [Assignment] in
        if case .put(let puts) = event { puts } else { [] }
      }
      self.init(
        message: bytes,
        RealtimeEvent.parts(puts, at: listening.path, tag: RealtimeEvent.tag(number)))
      return
    case .stream:
      self.init(bytes: bytes, of: events, head: nil) { index in
        guard events.indices.contains(index) else { return nil }
        guard case .put(let puts) = events[index] else { return [.text { _ in }] }
        return StreamEvent.parts(puts)
      }
      return
    }
    if let state {
      self.init(bytes: bytes, parts: LinePieces.parts(of: state, sequence, listening, number))
    } else {
      self.init(bytes: bytes, of: events, head: nil) {
        LinePieces.parts(of: events, $0, sequence, listening, number)
      }
    }
  }

  /// Creates lines of which `next` returns the parts, given the number of calls before.
  private init(
    bytes: ValueBytes, of values: any Sendable, head: Part?, _ next: @escaping (Int) -> [Part]?
  ) {
    var head = head
    var index = 0
    self.init(bytes: bytes, of: values) { _ in
      if let first = head.take() { return [first] }
      defer { index += 1 }
      return next(index) ?? []
    }
  }

  private static func parts(
    of events: [ListenEvent], _ index: Int, _ sequence: Int64, _ listening: Listening,
    _ number: Int64
  ) -> [Part]? {
    guard events.indices.contains(index) else { return nil }
    return parts(
      events[index], sequence, listening, isMore: index + 1 < events.count, number)
  }

  /// Returns the parts of the line with the present state.
  private static func parts(
    of state: ShownState, _ sequence: Int64, _ listening: Listening, _ number: Int64
  ) -> [Part] {
    parts(state.part(listening.form == .sync ? .export : .plain)) {
      begin(number, to: &$0)
      if listening.form == .value {
        EventLine.value(sequence, to: &$0, $1)
      } else {
        EventLine.put(.init(.root), sequence, to: &$0, $1)
      }
    }
  }

  /// Returns the parts of the line with an event.
  private static func parts(
    _ event: ListenEvent, _ sequence: Int64, _ listening: Listening, isMore: Bool,
    _ number: Int64
  ) -> [Part] {
    switch event {
    case .child(let change) where change.node.isEncodedAtOnce:
      return [
        .text {
          begin(number, to: &$0)
          EventLine.child(change, sequence, isMore: isMore, to: &$0)
        }
      ]
    case .child(let change):
      return parts(.node(change.node, .plain)) {
        begin(number, to: &$0)
        EventLine.child(change, sequence, isMore: isMore, to: &$0, $1)
      }
    case .value(let node):
      return parts(of: listening.state(of: node), sequence, listening, number)
    case .put(let puts) where puts.count == 1:
      return parts(.node(puts[0].value, .export)) {
        begin(number, to: &$0)
        EventLine.put(puts[0].location, sequence, to: &$0, $1)
      }
    case .put(let puts):
      return patch(puts, sequence, number)
    }
  }

  private static func patch(
    _ puts: [Assignment], _ sequence: Int64, _ number: Int64
  ) -> [Part] {
    var output = JSONOutput(capacity: 128)
    var place = 0
    begin(number, to: &output)
    EventLine.patch(sequence, to: &output) { place = $0.count }
    let text = output.bytes
    return [.text(Array(text[..<place])), .puts(puts[...]), .text(Array(text[place...]))]
  }

  private static func begin(_ number: Int64, to output: inout JSONOutput) {
    EventLine.begin(number, to: &output)
  }
}

extension ShownState {
  fileprivate var isList: Bool {
    if case .children = self { true } else { false }
  }

  /// Returns the state as a part of a line.
  fileprivate func part(_ style: JSONStyle) -> LinePieces.Part {
    switch self {
    case .value(let node): .node(node, style)
    case .children(let children): .members(children[...], style)
    }
  }
}

extension Node {
  /// Whether the text of the node is short enough to be encoded in one go: the node is absent, a packed branch, or a leaf
  /// of at most 4 KiB. O(1)
  var isEncodedAtOnce: Bool { isPacked || !isBranch && fits(bytes: 4 * 1024) }
}
