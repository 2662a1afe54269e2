import CanopyClient
import NIOCore

/// The network between the clients and the server.
///
/// The bytes of one direction of a connection keep their order; those of different connections do not. A partition
/// delays everything until it is over, as TCP does, and new connections fail.
///
/// `@unchecked Sendable`: the simulation has one thread.
final class Network: Connector, @unchecked Sendable {
  /// The unread bytes that a connection holds.
  let windowBytes: Int
  private let delayMax: Int64
  private var partitionEnd: Int64 = 0
  /// The loops of the clients.
  private let clientLoops: [SimulatedLoop]
  private var nextLoop = 0
  private var connections = 0
  /// Accepts a connection; nil while the server is down.
  var accept: (@Sendable (SimulatedChannel) throws -> Void)?
  /// Returns the loop of the server for the next connection.
  var serverLoop: (@Sendable () -> SimulatedLoop)?
  /// The ends of the server, by number of the connection.
  private(set) var serverEnds: [SimulatedChannel] = []

  private let scheduler = Scheduler.shared

  init() {
    windowBytes = [256, 4_096, 65_536][scheduler.random(below: 3)]
    delayMax = [1_000_000, 10_000_000, 200_000_000][scheduler.random(below: 3)]
    clientLoops = (1...2).map { SimulatedLoop("client loop \($0)") }
  }

  func random(below bound: Int) -> Int { scheduler.random(below: bound) }

  /// Whether a piece of input is to be split.
  func splits() -> Bool { scheduler.random(below: 3) == 0 }

  private func delay() -> Int64 {
    // Most are fast, some are late.
    scheduler.random(below: 4) == 0 ? scheduler.random(50_000...delayMax) : 100_000
  }

  /// Sends something to the other end of a connection.
  func send(_ arrival: SimulatedChannel.Arrival, from channel: SimulatedChannel) {
    guard !channel.isSevered else { return }
    let peer = channel.peer
    if peer == nil, case .bytes = arrival {
      // The other end is closed and gone.
      scheduler.after(nanoseconds: delay()) { channel.arrive(.reset) }
    }
    let due = max(scheduler.now, partitionEnd) + delay()
    channel.lastArrival = max(channel.lastArrival, due)
    scheduler.after(nanoseconds: channel.lastArrival - scheduler.now) { peer?.arrive(arrival) }
  }

  /// Ends the traffic for a time.
  func partition(milliseconds: Int64) {
    partitionEnd = max(partitionEnd, scheduler.now + milliseconds * 1_000_000)
  }

  /// Breaks a connection. Each end notices it in its own time.
  func breakConnection(_ channel: SimulatedChannel) {
    let ends = [channel, channel.peer].compactMap { $0 }
    for end in ends {
      scheduler.after(nanoseconds: scheduler.random(0...2_000_000_000)) { end.arrive(.reset) }
    }
  }

  /// The connections that the server still has, for a report.
  var open: String {
    serverEnds.filter(\.isActive).map { "\($0.name): \($0.state)" }.joined(separator: ", ")
  }

  /// Breaks one of the open connections.
  func breakAny(_ number: Int) {
    let open = serverEnds.filter(\.isActive)
    if !open.isEmpty { breakConnection(open[number % open.count]) }
  }

  /// Ends all connections of the server's process.
  func endServer() {
    accept = nil
    for channel in serverEnds where !channel.isSevered {
      // The system closes the sockets of a process that is gone.
      channel.sever()
      if let peer = channel.peer {
        scheduler.after(nanoseconds: scheduler.random(0...500_000_000)) { peer.arrive(.reset) }
      }
    }
    serverEnds = []
  }

  func connect(
    to host: String, port: Int, timeoutMilliseconds: Int64,
    initializer: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>
  ) -> EventLoopFuture<any Channel> {
    nextLoop += 1
    let loop = clientLoops[nextLoop % clientLoops.count]
    let promise = loop.makePromise(of: (any Channel).self)
    connections += 1
    let number = connections
    let isCut = partitionEnd > scheduler.now
    let wait = isCut ? timeoutMilliseconds * 1_000_000 : delay()
    scheduler.after(nanoseconds: wait) { [self] in
      guard !isCut, let accept, let serverLoop else {
        loop.execute {
          promise.fail(IOError(errnoCode: 111, reason: "the connection was refused"))
        }
        return
      }
      let client = SimulatedChannel(
        "client \(number)", on: loop, of: self, from: nil, allowsHalfClosure: false)
      let address = try? SocketAddress(ipAddress: "192.0.2.\(1 + number % 4)", port: number)
      let own = serverLoop()
      let server = SimulatedChannel(
        "server \(number)", on: own, of: self, from: address, allowsHalfClosure: true)
      (client.peer, server.peer) = (server, client)
      serverEnds.append(server)
      own.execute {
        do {
          try accept(server)
          server.activate()
        } catch {
          server.close(promise: nil)
        }
      }
      loop.execute {
        initializer(client).whenComplete { result in
          switch result {
          case .success:
            promise.succeed(client)
            client.activate()
          case .failure(let error): promise.fail(error)
          }
        }
      }
    }
    return promise.futureResult
  }
}
