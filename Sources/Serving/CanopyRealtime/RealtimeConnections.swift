package import CanopyEvents
internal import CanopyLineServer
public import CanopySession
internal import CanopyTree
public import NIOCore
internal import NIOWebSocket

// CanopyRealtime owns connections over WebSockets: the realtime protocol of official clients, and the line protocol
// for web pages. It translates; requests are carried out by CanopySession, and events are delivered by CanopyEvents.
// It must not know HTTP or SQL: a listener upgrades a connection, and then adds the handlers.

/// The connections over WebSockets on channels that a listener has accepted and upgraded. Safe to use from any
/// thread.
///
/// A listener upgrades a request for `/.ws` or `/line`, and then calls `addRealtime` or `addLine` on the event loop of
/// the channel. Its decoder must accept frames of `frameBytesMax` bytes. The channel must allow half-closure by the
/// client, and must count as a connection of its client.
public final class RealtimeConnections: Sendable {
  /// The settings of the connections.
  public struct Configuration: Sendable {
    /// Whether the credential `owner` stands for the administrator, as in the emulators that official libraries know.
    /// For a server that only programs on this machine reach.
    public var isEmulator = false
    /// The origins, such as `https://example.com`, whose web pages may use the line protocol and an emulator, besides
    /// that of the server itself.
    public var allowedOrigins: Set<String> = []
    /// The clock by which the turns of connections end.
    var now: @Sendable () -> NIODeadline = { .now() }

    /// Creates the default settings.
    public init() {}
  }

  private let operations: Operations
  private let configuration: Configuration
  private let loops: LoopLocals<NIOLoopBoundBox<RealtimeLoop>>
  private let lines: LineConnections
  let sessions = RealtimeSessions()
  /// The texts of large branches that the protocols on an event loop share.
  package let encoded: LoopLocals<EncodedNodes>

  /// Creates the connections of a server.
  public init(_ operations: Operations, configuration: Configuration = Configuration()) {
    self.operations = operations
    self.configuration = configuration
    let encoded = LoopLocals { EncodedNodes(loop: $0) }
    self.encoded = encoded
    lines = LineConnections(operations, encoded: encoded)
    let sessions = sessions
    loops = LoopLocals { loop in
      .makeBoxSendingValue(
        RealtimeLoop(
          operations, configuration, sessions, loop: loop, encoded: encoded.value(of: loop)),
        eventLoop: loop)
    }
  }

  /// The most bytes of a frame of a client.
  public var frameBytesMax: Int { operations.limits.lineBytesMax }

  /// Adds the handlers of the realtime protocol, and sends the first message.
  ///
  /// Official clients run on pages of any origin. The rights of a page depend on a token that only the page itself can
  /// have. In an emulator everybody has such tokens, so the listener must have asked `isForeign` before the upgrade.
  ///
  /// - Parameters:
  ///   - host: the name and port by which the client has reached the server: the field `Host` of its request.
  ///     Official clients connect to it from then on. A text that cannot be a host is replaced by the local address.
  ///   - namespace: the namespace of the connection, which is released at its end; nil for the default one.
  /// - Throws: the error of the pipeline.
  public func addRealtime(
    to channel: any Channel, host: String?, isOfForeignPage: Bool = false,
    _ namespace: NamespaceLease? = nil
  ) throws {
    channel.eventLoop.assertInEventLoop()
    let home = loops.value(of: channel.eventLoop).value
    if let namespace { channel.closeFuture.whenComplete { _ in namespace.release() } }
    let output = RawOutput()
    _ = try output.add(to: channel, operations)
    let handler = RealtimeHandler(
      shared: namespace.map { home.loop(of: $0.operations) } ?? home, output: output,
      host: host.flatMap { RealtimeConnections.host($0) } ?? RealtimeConnections.localHost(channel),
      isOfForeignPage: isOfForeignPage, namespace: namespace)
    try channel.pipeline.syncOperations.addHandler(handler)
  }

  /// Ends the earlier connection of a client that connects again. Ask for it before the upgrade.
  ///
  /// - Parameters:
  ///   - session: the ID of the earlier connection, from its first message; nil if the client names none.
  ///   - loop: the event loop of the new connection.
  /// - Returns: succeeds when the requests of the earlier connection that had begun and its on-disconnect writes have an
  ///   outcome, at the latest after five seconds. The others are dropped.
  public func endEarlier(
    session: String?, on loop: any EventLoop
  ) -> EventLoopFuture<Void> {
    guard let id = session.flatMap({ RealtimeSessionID($0) }) else {
      return loop.makeSucceededVoidFuture()
    }
    return sessions.end(id, on: loop)
  }

  /// Adds the handlers of the line protocol: each message of the client is a line, and each line of the server a
  /// message.
  ///
  /// The listener must have asked `mayOpenLine` before the upgrade.
  ///
  /// - Throws: the error of the pipeline.
  public func addLine(to channel: any Channel) throws {
    channel.eventLoop.assertInEventLoop()
    let output = RawOutput()
    let frames = try output.add(to: channel, operations)
    try channel.pipeline.syncOperations.addHandler(
      WebSocketLines(output, frames, lineBytesMax: operations.limits.lineBytesMax))
    try lines.addHandler(to: channel)
  }

  /// Whether a client may use the line protocol over a WebSocket.
  ///
  /// A browser says of which origin the web page is. A page of another origin could make the browser of a person in a
  /// private network send requests to this server, so it must be allowed by name. A name on the Internet may resolve to
  /// this machine; then the page has the origin of the server. So for a client on this machine, which has fewer limits,
  /// the server's own origin must have an address, `localhost`, or a name without a dot.
  ///
  /// - Parameters:
  ///   - origin: the field `Origin` of the request; nil for a program other than a browser.
  ///   - host: the field `Host` of the request.
  ///   - address: the address of the client.
  public func mayOpenLine(origin: String?, host: String?, from address: String) -> Bool {
    guard let origin else { return true }
    return isOwn(origin: origin, host: host, ofThisMachine: Operations.isThisMachine(address))
  }

  /// Whether an origin is allowed by name, or is that of the server itself.
  ///
  /// - Parameter isOfThisMachine: whether the client is on this machine.
  private func isOwn(origin: String, host: String?, ofThisMachine isOfThisMachine: Bool) -> Bool {
    if configuration.allowedOrigins.contains(origin) { return true }
    guard let host, let own = RealtimeConnections.host(ofOrigin: origin) else { return false }
    guard own.asciiLowercased.hasSameBytes(as: host.asciiLowercased) else { return false }
    return !isOfThisMachine || !RealtimeConnections.mayBeForeign(host)
  }

  /// Whether a host, with or without a port, is a name that may belong to somebody else on the Internet: it has a dot,
  /// and is neither an address nor below `localhost`.
  public static func mayBeForeign(_ host: String) -> Bool {
    var name = Array(host.asciiLowercased.utf8)[...]
    // An address of IPv6.
    if name.first == UInt8(ascii: "[") { return false }
    name = name.prefix { $0 != UInt8(ascii: ":") }
    let labels = name.split(separator: UInt8(ascii: "."))
    guard name.contains(UInt8(ascii: ".")), let last = labels.last else { return false }
    let isAddress = last.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    return !isAddress && !last.elementsEqual("localhost".utf8)
  }

  /// Whether a request to an emulator may come from a web page of a site on the Internet, which a person on this machine
  /// has open. An emulator has rules that allow everything and accepts credentials that everybody knows, so it must refuse
  /// such a page.
  ///
  /// A page of a server on this machine is not foreign, on any port, so that developers can serve their pages from there.
  /// Neither are pages of the origins that are allowed by name.
  ///
  /// - Parameters:
  ///   - origin: the field `Origin` of the request; nil for a program other than a browser, or for a page that reads from
  ///     its own origin.
  ///   - site: the field `Sec-Fetch-Site` of the request. A browser sends it with requests that have no origin, such as
  ///     that for an image.
  ///   - host: the field `Host` of the request. A page reaches this server as its own origin if the name of its site
  ///     resolves to this machine.
  public func isForeign(origin: String?, site: String?, host: String?) -> Bool {
    guard configuration.isEmulator else { return false }
    if isOfForeignPage(origin: origin, site: site, host: host) { return true }
    guard let host, RealtimeConnections.mayBeForeign(host) else { return false }
    return !["http://", "https://"].contains { configuration.allowedOrigins.contains($0 + host) }
  }

  /// Whether a page of a foreign site has made a request of a client on this machine to any server. Unlike `isForeign`,
  /// this does not count a request without an origin because of the name in its field `Host`.
  public func isOfForeignPage(origin: String?, site: String?, host: String?) -> Bool {
    guard let origin else { return site?.hasSameBytes(as: "cross-site") == true }
    return !RealtimeConnections.isOfThisMachine(origin: origin)
      && !isOwn(origin: origin, host: host, ofThisMachine: true)
  }

  /// Whether an origin has a host name or an address of the loopback interface.
  private static func isOfThisMachine(origin: String) -> Bool {
    guard let host = host(ofOrigin: origin)?.asciiLowercased else { return false }
    if host.hasSameBytes(as: "[::1]") || host.hasBytePrefix("[::1]:") { return true }
    let name = host.utf8.prefix { $0 != UInt8(ascii: ":") }
    let labels = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    if labels.last?.elementsEqual("localhost".utf8) == true { return true }
    return labels.count == 4 && labels.first?.elementsEqual("127".utf8) == true
      && labels.allSatisfy { label in
        (1...3).contains(label.count)
          && label.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      }
  }

  /// The response to a client that asks for long polling at `/.lp`: it makes official clients take a WebSocket.
  public static let longPollingRefusal = (
    status: 400, body: "{\"error\":\"this server has no long polling; use a WebSocket at /.ws\"}"
  )

  /// Returns the host and port of an origin, which follow its scheme.
  private static func host(ofOrigin origin: String) -> String? {
    let mark = Array("://".utf8)
    let bytes = Array(origin.utf8)
    guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
      bytes[colon...].prefix(mark.count).elementsEqual(mark)
    else { return nil }
    return origin.droppingBytes(colon + mark.count)
  }

  /// Returns the host if it can be one.
  private static func host(_ text: String) -> String? {
    let isHost =
      (1...255).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"),
          UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "_"):
          true
        default: false
        }
      }
    return isHost ? text : nil
  }

  private static func localHost(_ channel: any Channel) -> String {
    guard let address = channel.localAddress, let ip = address.ipAddress, let port = address.port
    else { return "localhost" }
    return ip.utf8.contains(UInt8(ascii: ":")) ? "[\(ip)]:\(port)" : "\(ip):\(port)"
  }
}
