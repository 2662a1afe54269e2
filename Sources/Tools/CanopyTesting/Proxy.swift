import CanopySystem
import Foundation
import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// A TCP proxy on the loopback address that can cut or hold a connection at any byte.
public final class Proxy: Sendable {
  /// A direction of bytes.
  public enum Direction: Sendable, CaseIterable {
    /// From the client to the server.
    case toServer
    /// From the server to the client.
    case toClient
  }

  private struct State {
    /// The direction in which the next bytes are counted, and the number that still passes.
    var cut: (direction: Direction, left: Int)?
    /// Whether the rest of the bytes to the server waits for `release`, instead of being lost.
    var isHolding = false
    /// The bytes of each direction since `startCounting`.
    var counts: [Direction: Int] = [:]
    var held: [(server: Int32, bytes: [UInt8])] = []
    var isClosed = false
  }

  /// The port at which the proxy listens.
  public let port: UInt16
  private let listener: Int32
  private let target: UInt16
  private let state = Mutex(State())

  /// The system refused a socket or a thread.
  public struct Failure: Error {}

  /// Starts a proxy of a port.
  public init(to target: UInt16) throws {
    self.target = target
    listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = Proxy.address(0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let listener = listener
    let isBound = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, length) == 0 && listen(listener, 16) == 0
          && getsockname(listener, $0, &length) == 0
      }
    }
    guard isBound else { throw Failure() }
    port = UInt16(bigEndian: address.sin_port)
    guard WorkerThread.start({ [self] in accept() }) else { throw Failure() }
  }

  /// Ends the proxy. Connections that exist go on.
  public func close() {
    state.withLock { $0.isClosed = true }
    shutdown(listener, Int32(SHUT_RDWR))
  }

  /// Passes a number of bytes in a direction, then cuts the connection.
  public func cut(after count: Int, _ direction: Direction) {
    state.withLock { $0.cut = (direction, count) }
  }

  /// Passes a number of bytes to the server, then cuts the client off, and keeps its later bytes until `release`.
  public func hold(after count: Int) {
    state.withLock { state in
      state.cut = (.toServer, count)
      state.isHolding = true
    }
  }

  /// Cuts no connection any more.
  public func restore() {
    state.withLock { state in
      state.cut = nil
      state.isHolding = false
    }
  }

  /// Sends the bytes that were held to the server, and waits until it has answered them and closed the connection.
  public func release() {
    let held = state.withLock { state in
      defer { state.held = [] }
      return state.held
    }
    for (server, bytes) in held {
      Proxy.write(bytes[...], to: server)
      shutdown(server, Int32(SHUT_WR))
      var buffer = [UInt8](repeating: 0, count: 65_536)
      while read(server, &buffer, buffer.count) > 0 {}
      _ = Glibc.close(server)
    }
  }

  /// Begins to count the bytes of each direction.
  public func startCounting() { state.withLock { $0.counts = [:] } }

  /// The bytes of each direction since `startCounting`.
  public var counts: [Direction: Int] { state.withLock { $0.counts } }

  private static func address(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return address
  }

  private func accept() {
    while true {
      let client = Glibc.accept(listener, nil, nil)
      guard client >= 0 else {
        if errno == EINTR { continue }
        _ = Glibc.close(listener)
        return
      }
      let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      var address = Proxy.address(target)
      let isConnected = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
      }
      guard isConnected else {
        _ = Glibc.close(client)
        _ = Glibc.close(server)
        continue
      }
      let ends = Ends(client: client, server: server)
      _ = WorkerThread.start { [self] in pump(ends, .toServer) }
      _ = WorkerThread.start { [self] in pump(ends, .toClient) }
    }
  }

  /// The two sockets of a connection, which the last of its threads closes.
  private final class Ends: Sendable {
    let client: Int32
    let server: Int32
    let isServerKept = Mutex(false)

    init(client: Int32, server: Int32) {
      self.client = client
      self.server = server
    }

    func end() {
      shutdown(client, Int32(SHUT_RDWR))
      if !isServerKept.withLock({ $0 }) { shutdown(server, Int32(SHUT_RDWR)) }
    }

    deinit {
      _ = Glibc.close(client)
      if !isServerKept.withLock({ $0 }) { _ = Glibc.close(server) }
    }
  }

  private func pump(_ ends: Ends, _ direction: Direction) {
    let (source, sink) =
      switch direction {
      case .toServer: (ends.client, ends.server)
      case .toClient: (ends.server, ends.client)
      }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = read(source, &buffer, buffer.count)
      guard count > 0 else { return ends.end() }
      let (passed, isCut, isHolding) = state.withLock { state in
        state.counts[direction, default: 0] += count
        guard let cut = state.cut, cut.direction == direction else {
          return (count, false, false)
        }
        guard count >= cut.left else {
          state.cut = (direction, cut.left - count)
          return (count, false, false)
        }
        let isHolding = state.isHolding
        (state.cut, state.isHolding) = (nil, false)
        return (cut.left, true, isHolding)
      }
      if isHolding { ends.isServerKept.withLock { $0 = true } }
      Proxy.write(buffer[..<passed], to: sink)
      guard isCut else { continue }
      if isHolding {
        let rest = Array(buffer[passed..<count])
        state.withLock { $0.held.append((ends.server, rest)) }
      }
      return ends.end()
    }
  }

  private static func write(_ bytes: ArraySlice<UInt8>, to socket: Int32) {
    var left = bytes
    while !left.isEmpty {
      let sent = left.withUnsafeBytes {
        send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard sent > 0 else { return }
      left = left.dropFirst(sent)
    }
  }
}
