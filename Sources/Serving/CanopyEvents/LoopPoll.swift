internal import Foundation
internal import Dispatch
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Runs closures on an event loop after the loop has looked for input.
///
/// A loop runs its tasks until there are none, and only then looks for input. While other threads keep adding tasks, a
/// task that adds itself again would keep the loop from its input for as long as it has work. So a closure waits here
/// for a byte in a pipe, which is input itself: the loop reads it together with the input of all connections that are
/// ready. The pipe is opened at the first use of the loop, and closes with the loop. Use it on the loop only.
final class LoopPoll: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  /// The objects of all loops that have one.
  private static let all = Mutex<[ObjectIdentifier: NIOLoopBound<LoopPoll>]>([:])

  private let loop: any EventLoop
  /// The end of the pipe that is written to; nil once the loop has ended.
  private var output: CInt?
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var due: [() -> Void] = []

  private init(_ loop: any EventLoop, output: CInt) {
    self.loop = loop
    self.output = output
  }

  /// Returns the number of pipes of a loop: 0 or 1.
  static func count(of loop: any EventLoop) -> Int {
    all.withLock { $0[ObjectIdentifier(loop)] == nil ? 0 : 1 }
  }

  /// Runs a closure on the present loop after the loop has looked for input.
  static func run(on loop: any EventLoop, _ body: @escaping () -> Void) {
    loop.assertInEventLoop()
    let known = all.withLock { $0[ObjectIdentifier(loop)] }
    if let poll = known?.value ?? open(loop), poll.run(body) { return }
    runLater(on: loop, body)
  }

  /// Runs a closure when the tasks that wait now are done, for a loop without sockets, or if no file can be opened.
  private static func runLater(on loop: any EventLoop, _ body: @escaping () -> Void) {
    // A task that a task of the loop adds runs before the loop looks for input. So another thread adds it.
    let bound = NIOLoopBound(body, eventLoop: loop)
    loop.execute { DispatchQueue.global().async { loop.execute { bound.value() } } }
  }

  private static func open(_ loop: any EventLoop) -> LoopPoll? {
    guard let bootstrap = NIOPipeBootstrap(validatingGroup: loop) else { return nil }
    var ends: [CInt] = [-1, -1]
    guard pipe(&ends) == 0 else { return nil }
    let (input, output) = (ends[0], ends[1])
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
    let poll = LoopPoll(loop, output: output)
    let bound = NIOLoopBound(poll, eventLoop: loop)
    all.withLock { $0[ObjectIdentifier(loop)] = bound }
    bootstrap.channelOption(.maxMessagesPerRead, value: 1).channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(bound.value)
      }
    }
    .takingOwnershipOfDescriptor(input: input).assumeIsolated().whenFailure { _ in
      _ = Foundation.close(input)
      let due = poll.end()
      for body in due { runLater(on: loop, body) }
    }
    return poll
  }

  /// Returns false if the pipe is closed.
  private func run(_ body: @escaping () -> Void) -> Bool {
    guard let output else { return false }
    if due.isEmpty {
      var byte: UInt8 = 0
      // The pipe is empty, so it takes the byte.
      guard write(output, &byte, 1) == 1 else {
        _ = end()
        return false
      }
    }
    due.append(body)
    return true
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bodies: [() -> Void] = []
    swap(&bodies, &due)
    for body in bodies { body() }
  }

  func channelInactive(context: ChannelHandlerContext) {
    // The loop ends, and with it the connections that wait.
    _ = end()
    context.fireChannelInactive()
  }

  /// Closes the pipe. Returns the closures that wait.
  private func end() -> [() -> Void] {
    guard let output else { return [] }
    self.output = nil
    _ = Foundation.close(output)
    Self.all.withLock { $0[ObjectIdentifier(loop)] = nil }
    defer { due = [] }
    return due
  }
}
