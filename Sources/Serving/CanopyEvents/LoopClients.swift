package import CanopySession
package import CanopyWire
package import NIOCore

/// A connection in the list of its event loop.
package protocol LoopClient: AnyObject {
  /// Returns the state of the connection, with lists of at most `listMax` entries. Called on the loop.
  func clientState(_ id: Int64, listMax: Int) -> ClientState

  /// Ends the connection. Called on the loop.
  func endClient(_ error: WireError)

  /// The namespace in which the connection rests, besides the default one; nil if it does not rest. Called on the loop.
  var restingNamespace: NamespaceName? { get }

  /// Ends the use of the namespace, after the connection has ended. Called on the loop.
  func leaveNamespace()
}

extension LoopClient {
  package var restingNamespace: NamespaceName? { nil }

  package func leaveNamespace() {}
}

/// The open connections of one protocol on one event loop, in the order in which they began.
///
/// A connection is added when it begins and removed when it ends; requests do not touch the list. Use it on that loop only.
package final class LoopClients {
  private let loop: any EventLoop
  private let registry: ClientRegistry
  /// The number of this list in the registry.
  private var source: Int64?
  private var list = ClientList()

  package init(_ registry: ClientRegistry, loop: any EventLoop) {
    self.loop = loop
    self.registry = registry
    source = registry.add(
      Source(loop: loop, clients: NIOLoopBound(Weak(self), eventLoop: loop)))
  }

  deinit {
    if let source { registry.remove(source: source) }
  }

  /// The number of connections.
  package var count: Int { list.count }

  /// Adds a connection, and returns its number. O(1).
  package func add(_ client: any LoopClient) -> Int64 {
    loop.assertInEventLoop()
    let id = registry.nextID()
    list.append(client, id)
    return id
  }

  /// Removes a connection. O(log n) on the average.
  package func remove(_ id: Int64) {
    loop.assertInEventLoop()
    list.remove(id)
  }

  private func answer(to question: ClientQuestion) -> [ClientState] {
    switch question {
    case .page(let after, let limit):
      return list.page(after: after, limit: limit).map { $0.client.clientState($0.id, listMax: 0) }
    case .one(let id, let listMax):
      return list.find(id).map { [$0.clientState(id, listMax: listMax)] } ?? []
    case .end(let id, let error):
      guard let client = list.find(id) else { return [] }
      let state = client.clientState(id, listMax: 0)
      client.endClient(error)
      return [state]
    case .resting:
      return list.all.filter { $0.client.restingNamespace != nil }
        .map { $0.client.clientState($0.id, listMax: 0) }
    case .endResting(let namespace, let error):
      return list.all.filter { $0.client.restingNamespace == namespace }.map { id, client in
        let state = client.clientState(id, listMax: 0)
        client.endClient(error)
        client.leaveNamespace()
        return state
      }
    }
  }

  /// Asks the connections from other threads. It does not keep them.
  private struct Source: ClientSource {
    let loop: any EventLoop
    let clients: NIOLoopBound<Weak<LoopClients>>

    func ask(
      _ question: ClientQuestion, _ answer: @escaping @Sendable ([ClientState]) -> Void
    ) {
      loop.execute { answer(clients.value.object?.answer(to: question) ?? []) }
    }
  }
}

/// Connections with ascending numbers. Removed ones leave gaps, which are closed when they are half of the list.
struct ClientList {
  private var entries: [(id: Int64, client: (any LoopClient)?)] = []
  private(set) var count = 0

  /// Adds a connection. Precondition: its number is above all others.
  mutating func append(_ client: any LoopClient, _ id: Int64) {
    assert(entries.last.map { $0.id < id } ?? true, "the numbers of connections do not ascend")
    entries.append((id, client))
    count += 1
  }

  /// Removes a connection if it is in the list. O(log n) on the average.
  mutating func remove(_ id: Int64) {
    let index = firstIndex(atLeast: id)
    guard index < entries.count, entries[index].id == id, entries[index].client != nil else {
      return
    }
    entries[index].client = nil
    count -= 1
    if 2 * count < entries.count { entries.removeAll { $0.client == nil } }
  }

  /// The connections, in the order of their numbers. O(n).
  var all: [(id: Int64, client: any LoopClient)] {
    entries.compactMap { entry in entry.client.map { (entry.id, $0) } }
  }

  /// Returns the connection with a number. O(log n).
  func find(_ id: Int64) -> (any LoopClient)? {
    let index = firstIndex(atLeast: id)
    return index < entries.count && entries[index].id == id ? entries[index].client : nil
  }

  /// Returns the first connections after the one with a number. O(log n + limit + gaps).
  func page(after id: Int64, limit: Int) -> [(id: Int64, client: any LoopClient)] {
    guard id < .max else { return [] }
    var page: [(id: Int64, client: any LoopClient)] = []
    for (id, client) in entries[firstIndex(atLeast: id + 1)...] {
      guard page.count < limit else { break }
      if let client { page.append((id, client)) }
    }
    return page
  }

  private func firstIndex(atLeast id: Int64) -> Int {
    var range = 0..<entries.count
    while !range.isEmpty {
      let middle = range.lowerBound + range.count / 2
      range =
        entries[middle].id < id
        ? middle + 1..<range.upperBound : range.lowerBound..<middle
    }
    return range.lowerBound
  }
}
