internal import CanopyEvents
internal import NIOCore

/// Holds back the close of a connection until the socket has taken all output before it.
///
/// A channel that closes drops the output that it still has, and a client that reads slowly would get a part of the
/// last response. The handler does not wait for a client that reads nothing for some time, nor for a connection that is
/// cut off. It stands before all others that write, and is removed when the connection becomes a WebSocket. Use it on
/// the channel's event loop only.
final class HeldClose: ChannelOutboundHandler, RemovableChannelHandler {
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// A close that waits.
  private struct Close {
    var mode: CloseMode
    let promise: EventLoopPromise<Void>
  }

  private let unreadSeconds: Int64
  private let unsentBytes: (ChannelHandlerContext) -> Int
  private var held: Close?
  private var timer: Scheduled<Void>?
  private var isCutOff = false

  /// - Parameters:
  ///   - unreadSeconds: the seconds for which a client may read nothing.
  ///   - unsentBytes: returns the bytes that the socket has not taken.
  init(
    unreadSeconds: Int64,
    unsentBytes: @escaping (ChannelHandlerContext) -> Int = { HeldClose.bufferedBytes($0) }
  ) {
    self.unreadSeconds = unreadSeconds
    self.unsentBytes = unsentBytes
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    release(context)
  }

  func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    if event is CutOff { isCutOff = true }
    context.triggerUserOutboundEvent(event, promise: promise)
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    guard mode != .input, !isCutOff, context.channel.isActive else {
      context.close(mode: mode, promise: promise)
      return release(context)
    }
    if let held {
      if mode == .all { self.held?.mode = .all }
      held.promise.futureResult.cascade(to: promise)
      return
    }
    held = Close(mode: mode, promise: promise ?? context.eventLoop.makePromise(of: Void.self))
    // The bytes are sent in their order. If the socket takes them now, the promise succeeds before the call returns.
    let sent = context.eventLoop.makePromise(of: Void.self)
    sent.futureResult.assumeIsolated().whenComplete { [self] _ in release(context) }
    context.writeAndFlush(wrapOutboundOut(ByteBuffer()), promise: sent)
    if held != nil { expectProgress(context, after: unsentBytes(context)) }
  }

  /// Closes the connection if a close waits.
  private func release(_ context: ChannelHandlerContext) {
    timer?.cancel()
    timer = nil
    guard let close = held.take() else { return }
    context.close(mode: close.mode, promise: close.promise)
  }

  /// Closes the connection if the socket takes nothing for some time.
  private func expectProgress(_ context: ChannelHandlerContext, after bytes: Int) {
    timer = context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(unreadSeconds)) {
      [self] in
      let now = unsentBytes(context)
      guard now < bytes else { return release(context) }
      expectProgress(context, after: now)
    }
  }

  /// Returns the bytes that wait in the channel.
  static func bufferedBytes(_ context: ChannelHandlerContext) -> Int {
    let bytes = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
    return bytes ?? 0
  }
}
