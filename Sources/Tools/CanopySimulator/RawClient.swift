import CanopyTree
import CanopyWire
import DequeModule
import NIOCore

/// A client that speaks the line protocol itself, and checks each line of the server.
///
/// It sends a write again until it is answered, with the same number.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class RawClient: @unchecked Sendable {
  /// A write that has no answer.
  private struct Write {
    let number: Int64
    /// The request behind ONCE and its arguments.
    let text: String
    /// The last commit that anybody had seen when the write was sent first; nil before.
    var known: Int64?
    var sendings = 0
  }

  /// A request that was sent on the present connection.
  private enum Sent {
    case write(Int64)
    case read(Path, known: Int64)
    case listen(Int)
    case unlisten
    case arm(String)
    case logIn
    case blog(BlogUser.Action, known: Int64)
  }

  let name: String
  private let user: BlogUser
  private let network: Network
  private let history: History
  private var replicas: [LineReplica]
  private var writes: Deque<Write> = []
  private var lastNumber: Int64 = 0
  private var sent: Deque<Sent> = []
  private var channel: (any Channel)?
  private var generation = 0
  private var isWanted = true
  private var decoder = LineDecoder(lineBytesMax: 16 * 1024 * 1024)
  /// The texts of on-disconnect writes that the server has confirmed, and those that it may have.
  private(set) var armed: [String] = []
  private(set) var perhapsArmed: [String] = []

  init(_ number: Int, _ network: Network, _ history: History, paths: [Path]) {
    name = "raw-client-\(number)-simulated"
    self.network = network
    self.history = history
    user = BlogUser(name, history)
    replicas = paths.map { LineReplica($0, history) }
  }

  /// Whether every write is answered and every copy is that of the last commit.
  var isDone: Bool {
    writes.isEmpty && sent.isEmpty
      && replicas.allSatisfy { $0.isCurrent && $0.root == history.root.at($0.path) }
  }

  var subscriptionCount: Int { replicas.count }

  /// The state for a report.
  var state: String {
    let copies = replicas.map { "\($0.path) at \($0.sequence ?? -1), current: \($0.isCurrent)" }
    return
      "\(name): \(writes.count) writes, \(sent.count) sent, connected: \(channel != nil), \(copies)"
  }

  // MARK: The connection

  func connect() {
    guard isWanted, channel == nil else { return }
    generation += 1
    let generation = generation
    network.connect(to: "server", port: 7070, timeoutMilliseconds: 2_000) { [self] channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(Receiver(self, generation))
      }
    }.whenComplete { [self] result in
      guard generation == self.generation else {
        if case .success(let channel) = result { channel.close(promise: nil) }
        return
      }
      switch result {
      case .success(let channel): begin(channel)
      case .failure: reconnect()
      }
    }
  }

  private func begin(_ channel: any Channel) {
    Scheduler.shared.note("\(name) is connected")
    self.channel = channel
    decoder = LineDecoder(lineBytesMax: 16 * 1024 * 1024)
    if network.random(below: 3) > 0 { send(.logIn, user.login) }
    let listensFirst = network.random(below: 2) == 0
    if listensFirst { listen() }
    for write in writes { send(write.number) }
    if !listensFirst { listen() }
  }

  private func listen() {
    for index in replicas.indices { send(.listen(index), replicas[index].request) }
  }

  fileprivate func ended(_ generation: Int) {
    guard generation == self.generation else { return }
    Scheduler.shared.note("\(name) has lost its connection")
    self.generation += 1
    channel = nil
    user.leave()
    sent = []
    for index in replicas.indices { replicas[index].disconnect() }
    reconnect()
  }

  private func reconnect() {
    let generation = generation
    Scheduler.shared.after(milliseconds: Scheduler.shared.random(10...800)) { [self] in
      if generation == self.generation { connect() }
    }
  }

  /// Breaks the connection as the network does.
  func breakConnection() {
    if let channel = channel as? SimulatedChannel { network.breakConnection(channel) }
  }

  /// Ends the connection, and makes no other.
  func leave() {
    isWanted = false
    channel?.close(promise: nil)
  }

  // MARK: Requests

  /// Makes a write.
  func write(_ text: String) {
    lastNumber += 1
    writes.append(Write(number: lastNumber, text: text))
    send(lastNumber)
  }

  /// Reads a location.
  func read(_ path: Path) {
    send(.read(path, known: history.seen), "GET \(path)")
  }

  /// Arms an on-disconnect write of a text.
  func arm(_ path: Path, _ text: String) {
    guard channel != nil else { return }
    perhapsArmed.append(text)
    send(.arm(text), "ONDISCONNECT SET \(path) \"\(text)\"")
  }

  private func listenLater(_ index: Int) {
    let generation = generation
    Scheduler.shared.after(milliseconds: Scheduler.shared.random(50...500)) { [self] in
      if generation == self.generation { send(.listen(index), replicas[index].request) }
    }
  }

  /// Ends a subscription, and begins it again.
  func listenAgain() {
    guard let index = replicas.indices.randomElement(using: &choice),
      let number = replicas[index].number
    else { return }
    replicas[index].disconnect()
    send(.unlisten, "UNLISTEN \(number)")
    send(.listen(index), replicas[index].request)
  }

  /// Sends a request of the blog, if the user is logged in. It has no number, so it is sent once, and without a reply
  /// its outcome is unknown.
  func request(_ kind: BlogUser.Kind, _ text: String = "") {
    guard channel != nil, let (action, line) = user.request(kind, text) else { return }
    send(.blog(action, known: history.seen), line)
  }

  private var choice = Choice()

  private func send(_ number: Int64) {
    guard let index = writes.firstIndex(where: { $0.number == number }), let first = writes.first,
      channel != nil
    else { return }
    if writes[index].known == nil { writes[index].known = history.seen }
    writes[index].sendings += 1
    send(.write(number), "ONCE \(name) \(number) \(first.number - 1) \(writes[index].text)")
  }

  private func send(_ request: Sent, _ line: String) {
    guard let channel else { return }
    sent.append(request)
    Scheduler.shared.note("\(name) > \(line.prefix(200))")
    channel.eventLoop.execute {
      channel.writeAndFlush(ByteBuffer(string: line + "\n"), promise: nil)
    }
  }

  // MARK: Replies

  fileprivate func receive(_ buffer: ByteBuffer, _ generation: Int) {
    guard generation == self.generation else { return }
    _ = buffer.withUnsafeReadableBytes { bytes in
      decoder.feed(bytes) { line in
        Scheduler.shared.note("\(name) < \(String(decoding: line.prefix(200), as: UTF8.self))")
        do { take(try ServerLine(line)) } catch {
          history.fail("\(name) cannot read a line: \(error)")
        }
        return true
      }
    }
  }

  private func take(_ line: ServerLine) {
    switch line {
    case .event(let event):
      // An event of a subscription that has just ended belongs to none.
      guard let index = replicas.firstIndex(where: { $0.number == event.subscription }) else {
        return
      }
      replicas[index].take(event)
    case .success(let json): answer(.success(json))
    case .failure(let error): answer(.failure(error))
    }
  }

  private func answer(_ answer: Result<[UInt8], WireError>) {
    guard let request = sent.popFirst() else { return history.fail("\(name) got a reply too many") }
    do {
      try take(answer, to: request)
    } catch {
      history.fail("\(name) got the wrong reply to \(request): \(error)")
    }
  }

  private func take(_ answer: Result<[UInt8], WireError>, to request: Sent) throws {
    switch request {
    case .write(let number): try take(answer, toWrite: number)
    case .read(let path, let known):
      let value = try answer.get().withUnsafeBytes { try WriteValue(json: $0, limits: .none).node }
      history.check(read: value, at: path, since: known, name)
      for replica in replicas where replica.isCurrent {
        guard let below = path.relative(to: replica.path) else { continue }
        if replica.root.at(below) != value {
          history.fail(
            "\(name) has read \(value.shown) at \(path), and the events before have \(replica.root.at(below).shown)"
          )
        }
      }
    case .listen(let index):
      if case .failure(let error) = answer, [.unavailable, .overloaded].contains(error.code) {
        return listenLater(index)
      }
      let members = try answer.get().withUnsafeBytes { bytes in
        let members = try JSONMembers(bytes)
        return (members.integer("sub"), members.integer("seq"), members.integer("initial"))
      }
      guard let number = members.0, let sequence = members.1, let initial = members.2 else {
        throw Finding("no subscription")
      }
      replicas[index].begin(number, sequence: sequence, initial: initial)
    case .unlisten: _ = try answer.get()
    case .arm(let text):
      if case .success = answer { armed.append(text) }
    case .logIn:
      if try user.take(login: answer) { send(.logIn, user.login) }
    case .blog(let action, let known): try user.take(answer, to: action, since: known)
    }
  }

  private func take(_ answer: Result<[UInt8], WireError>, toWrite number: Int64) throws {
    guard let index = writes.firstIndex(where: { $0.number == number }) else { return }
    switch answer {
    case .success(let json):
      let found = try json.withUnsafeBytes { try JSONMembers($0).integer("seq") }
      guard let sequence = found else { throw Finding("no commit") }
      let write = writes.remove(at: index)
      history.note(seen: sequence, "\(name)'s write \(number)")
      let made = history.sequence(of: name, number)
      if made != sequence {
        history.fail(
          "\(name)'s write \(number) was acknowledged as commit \(sequence); it is \(made.map { "\($0)" } ?? "none")"
        )
      }
      if let known = write.known, sequence <= known {
        history.fail(
          "\(name)'s write \(number) is commit \(sequence), and was sent after commit \(known) was seen"
        )
      }
      for replica in replicas { replica.check(reply: sequence) }
    case .failure(let error) where [.unavailable, .overloaded].contains(error.code):
      if error.sentence.contains("was not made"), writes[index].sendings == 1,
        let made = history.sequence(of: name, number)
      {
        history.fail("\(name)'s write \(number) was said not to be made; it is commit \(made)")
      }
      // The write may have been made or not. It is sent again with its number.
      let generation = generation
      Scheduler.shared.after(milliseconds: Scheduler.shared.random(50...500)) { [self] in
        if generation == self.generation { send(number) }
      }
    case .failure(let error): throw error
    }
  }
}

/// Random choices of the seed.
struct Choice: RandomNumberGenerator {
  mutating func next() -> UInt64 { Scheduler.shared.word() }
}

/// Hands the input of a connection to its client.
private final class Receiver: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let client: RawClient
  private let generation: Int

  init(_ client: RawClient, _ generation: Int) {
    self.client = client
    self.generation = generation
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    client.receive(unwrapInboundIn(data), generation)
  }

  func channelInactive(context: ChannelHandlerContext) {
    client.ended(generation)
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {}
}
