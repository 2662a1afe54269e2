import CanopyTree

@testable import CanopyClient

/// A replica that applies a listener's events and checks each of them.
struct EventReplica {
  private let query: Query
  private var children: [(key: Key, node: Node)] = []
  private var value: Node?

  init(_ query: Query) {
    self.query = query
  }

  /// Applies the events of one step.
  ///
  /// - Parameters:
  ///   - root: the known data after the step.
  ///   - wanted: the value after the step; nil if it is not known.
  /// - Returns: a description of the first wrong event; nil if all are correct.
  mutating func take(_ events: [DataEvent], children root: Node, value wanted: Node?) -> String? {
    if zip(events, events.dropFirst()).contains(where: { $0.kind.rawValue > $1.kind.rawValue }) {
      return "the kinds are out of order"
    }
    var arriving: [DataEvent] = []
    for event in events {
      let index = children.firstIndex { $0.key == event.key }
      switch event.kind {
      case .childRemoved:
        guard let index, children[index].node == event.node else { return "removed wrongly" }
        children.remove(at: index)
      case .childAdded:
        guard index == nil, !arriving.contains(where: { $0.key == event.key }) else {
          return "added twice"
        }
        arriving.append(event)
      case .childMoved:
        guard let index else { return "moved without being there" }
        children.remove(at: index)
        arriving.append(event)
      case .childChanged:
        if let index {
          guard children[index].node != event.node else { return "changed to the same" }
          guard event.previous == (index > 0 ? children[index - 1].key : nil) || !arriving.isEmpty
          else { return "changed with the wrong neighbour" }
          children[index].node = event.node
        } else if !arriving.contains(where: { $0.key == event.key }) {
          return "changed without being there"
        }
      case .value: break
      }
    }
    while !arriving.isEmpty {
      let ready = arriving.firstIndex { event in
        event.previous.map { key in children.contains { $0.key == key } } ?? true
      }
      guard let ready, let key = arriving[ready].key else { return "a neighbour is not there" }
      let event = arriving.remove(at: ready)
      let index = event.previous.flatMap { key in children.firstIndex { $0.key == key } }
      children.insert((key, event.node), at: index.map { $0 + 1 } ?? 0)
    }
    let right = query.children(of: root)
    guard children.elementsEqual(right, by: { $0.key == $1.key && $0.node == $1.node }) else {
      return "the children are \(children.map(\.key)) instead of \(right.map(\.key))"
    }
    return takeValue(events.filter { $0.kind == .value }, wanted)
  }

  private mutating func takeValue(_ events: [DataEvent], _ wanted: Node?) -> String? {
    guard events.count <= 1 else { return "two values" }
    if let event = events.first {
      guard event.node == wanted else { return "the value is wrong" }
      guard value != event.node else { return "the value is reported again" }
      value = event.node
    } else if let wanted, value != wanted {
      return "the value is not reported"
    }
    // Once the value is known again, an event for it follows, even if it is the same.
    if wanted == nil { value = nil }
    return nil
  }
}
