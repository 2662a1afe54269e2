internal import CanopyEvents
internal import CanopySession
internal import CanopyTree
internal import DequeModule
internal import HTTPTypes
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTPTypes

/// Answers short requests on the event loop, and hands all others on to the task of the connection.
///
/// A task takes a request over from the loop and gives the response back to it, and waits in between: that costs more
/// than a short request. So a request that came whole in one read, with none behind it, and that `Responder` can carry
/// out on the loop, does not reach the task. Responses have the order of the requests: while a short request is under
/// way, everything behind it waits; while the task has a request, all that follow are for the task.
///
/// Use it on the channel's event loop only.
final class ShortRequests: ChannelDuplexHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// A request that may be a short one.
  private struct Candidate {
    var head: HTTPRequest
    var body: ByteBuffer?
    var isWhole = false
  }

  /// A request that is under way.
  private struct Pending {
    var answer: (Reply) -> HTTPAnswer
    /// The fields of the request.
    var fields: HTTPFields
  }

  /// A thing that waits behind a request under way.
  private enum Waiting {
    case part(HTTPRequestPart)
    case event(Any)
    case error(any Error)
  }

  /// Carries out or begins a request, with its body. The closure takes the reply to a write, on any thread.
  typealias Begin = (
    HTTPRequest, ByteBuffer, @escaping @Sendable (Reply) -> Void
  ) -> Responder.ShortRequest

  private let flushes: FlushQueue
  private let begin: Begin
  /// Whether further input waits behind the present read.
  private let hasMore: () -> Bool
  private var context: ChannelHandlerContext?
  /// Whether the connection is in the queue of those to flush.
  var waitsForFlush = false
  /// The request of the present read.
  private var candidate: Candidate?
  private var pending: Pending?
  /// The things behind the pending request. `RequestInput` bounds them.
  private var waiting: Deque<Waiting> = []
  /// The requests of the task that are not answered.
  private var taskRequests = 0
  /// Whether the rest of a request is for the task.
  private var isTaskRequest = false
  /// Whether the task ends the connection, so that it is to get everything.
  private var isEnding = false

  /// - Parameters:
  ///   - flushes: the connections of the loop that have something to send. A response waits for those to the other
  ///     requests that have come, as each flush may wake a client.
  ///   - hasMore: whether further input waits behind the present read.
  ///   - begin: carries out or begins a request, with its body. The closure takes the reply to a write, on any thread.
  init(flushes: FlushQueue, hasMore: @escaping () -> Bool, begin: @escaping Begin) {
    self.flushes = flushes
    self.hasMore = hasMore
    self.begin = begin
  }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  // MARK: Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let part = unwrapInboundIn(data)
    if pending != nil { return waiting.append(.part(part)) }
    receive(context, part)
  }

  private func receive(_ context: ChannelHandlerContext, _ part: HTTPRequestPart) {
    guard !isTaskRequest, taskRequests == 0, !isEnding else { return handOn(context, part) }
    switch part {
    case .head(let head) where candidate == nil:
      candidate = Candidate(head: head)
      return
    case .body(let bytes) where candidate?.body == nil && candidate?.isWhole == false:
      guard bytes.readableBytes < Operations.longTextBytes else { break }
      candidate?.body = bytes
      return
    case .end(nil) where candidate?.isWhole == false:
      candidate?.isWhole = true
      return
    default: break
    }
    handOnCandidate(context)
    handOn(context, part)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    guard pending == nil else { return }
    completeRead(context)
  }

  /// Begins the request of the read, or hands it on.
  private func completeRead(_ context: ChannelHandlerContext) {
    if let candidate {
      self.candidate = nil
      // With another request behind it the loop would answer one after the other, and look for no other input.
      let mayBeShort =
        candidate.isWhole && !hasMore() && context.channel.isWritable && context.channel.isActive
      if !mayBeShort || !begin(context, candidate) { handOn(context, candidate) }
    }
    // The rest of an earlier request may have been handed on in the same read.
    context.fireChannelReadComplete()
  }

  /// Returns false, without an effect, if the request is for the task.
  private func begin(_ context: ChannelHandlerContext, _ candidate: Candidate) -> Bool {
    let fields = candidate.head.headerFields
    guard !ShortRequests.endsConnection(fields) else { return false }
    let loop = context.eventLoop
    let bound = NIOLoopBound(self, eventLoop: loop)
    let request = begin(candidate.head, candidate.body ?? ByteBuffer()) { reply in
      // Later, even on the loop: the request is not yet noted as pending.
      loop.execute { bound.value.finish(reply) }
    }
    switch request {
    case .needsTask: return false
    case .answered(let answer): send(context, answer, fields)
    case .writes(let answer):
      pending = Pending(answer: answer, fields: fields)
    }
    return true
  }

  /// Sends the response to the pending request, and goes on with everything that waits behind it.
  private func finish(_ reply: Reply) {
    guard let request = pending.take() else { return }
    // The answer is made in any case, as it ends the charge and is counted.
    let answer = request.answer(reply)
    guard let context, context.channel.isActive else { return waiting.removeAll() }
    send(context, answer, request.fields)
    guard !waiting.isEmpty else { return }
    while let next = waiting.popFirst() {
      switch next {
      case .part(let part): receive(context, part)
      case .event(let event): handOnEvent(context, event)
      case .error(let error): handOnError(context, error)
      }
    }
    completeRead(context)
  }

  private func send(
    _ context: ChannelHandlerContext, _ answer: HTTPAnswer, _ fields: HTTPFields
  ) {
    let (head, body) = answer.whole(acceptsGzip: Responder.acceptsGzip(fields))
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    if let body { context.write(wrapOutboundOut(.body(body)), promise: nil) }
    context.write(wrapOutboundOut(.end(nil)), promise: nil)
    flushes.append(self)
  }

  // MARK: The task

  private func handOnCandidate(_ context: ChannelHandlerContext) {
    if let candidate = candidate.take() { handOn(context, candidate) }
  }

  private func handOn(_ context: ChannelHandlerContext, _ candidate: Candidate) {
    handOn(context, .head(candidate.head))
    if let body = candidate.body { handOn(context, .body(body)) }
    if candidate.isWhole { handOn(context, .end(nil)) }
  }

  private func handOn(_ context: ChannelHandlerContext, _ part: HTTPRequestPart) {
    switch part {
    case .head(let head):
      taskRequests += 1
      isTaskRequest = true
      if ShortRequests.endsConnection(head.headerFields) { isEnding = true }
    case .body: break
    case .end: isTaskRequest = false
    }
    context.fireChannelRead(wrapInboundOut(part))
  }

  /// Whether the connection may end after a request.
  private static func endsConnection(_ fields: HTTPFields) -> Bool {
    fields[.connection].map { $0.asciiLowercased != "keep-alive" } ?? false
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(let head): if head.headerFields[.connection] == "close" { isEnding = true }
    case .body: break
    // Input that is not a request gets a response as well.
    case .end: taskRequests = max(0, taskRequests - 1)
    }
    context.write(data, promise: promise)
  }

  // MARK: Other events

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if pending != nil { return waiting.append(.event(event)) }
    handOnEvent(context, event)
  }

  private func handOnEvent(_ context: ChannelHandlerContext, _ event: Any) {
    handOnCandidate(context)
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if pending != nil { return waiting.append(.error(error)) }
    handOnError(context, error)
  }

  private func handOnError(_ context: ChannelHandlerContext, _ error: any Error) {
    isEnding = true
    handOnCandidate(context)
    context.fireErrorCaught(error)
  }

  func channelInactive(context: ChannelHandlerContext) {
    candidate = nil
    waiting.removeAll()
    context.fireChannelInactive()
  }
}

extension ShortRequests: Flushable {
  func flush() {
    context?.flush()
  }
}
