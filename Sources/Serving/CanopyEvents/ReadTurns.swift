package import CanopyEngine
package import CanopySession
package import Logging
package import NIOCore

/// Lets the connections of an event loop that send much be read, and their input be decoded, in turns.
///
/// A loop that finds three hundred sockets readable would read 64 KiB of each before it answers any client, and decode
/// thousands of short requests or frames of each. So a connection that has just sent much is read again when its turn
/// comes. The input of a read is handed on in small slices, until the time for the connection is over; the rest waits for
/// the next turn, and is charged to the memory budget. A connection that sends little is read and served at once. While
/// the server is short of memory, only those are; the others wait in a `ShortageQueue`.
///
/// The handler stands behind TLS and before all others, and is used on the loop of its turns only.
package final class ReadTurns: ChannelInboundHandler, ChannelOutboundHandler {
  package typealias InboundIn = ByteBuffer
  package typealias InboundOut = ByteBuffer
  package typealias OutboundIn = ByteBuffer
  package typealias OutboundOut = ByteBuffer

  /// The bytes of one read from which on the next read waits for a turn.
  package static let bulkBytes = 16 * 1024
  /// The bytes that are handed on between two looks at the clock.
  package static let sliceBytes = 2 * 1024
  private let turns: LoopTurns
  private let work: WorkBudget
  private let memory: MemoryBudget
  private let logger: Logger
  @exclusivity(unchecked) private var context: ChannelHandlerContext?
  private var group: TurnGroup?
  private var turn = WorkBudget.Turn()
  /// The bytes of the last read.
  @exclusivity(unchecked) private var bytes = 0
  /// Whether the bytes that come belong to the last read of which this handler knows. The channel also reads when its
  /// option `autoRead` is set, without a call of `read`.
  @exclusivity(unchecked) private var knowsRead = false
  /// The bytes that wait to be handed on.
  #if !DEBUG
    @exclusivity(unchecked)
  #endif
  private var kept = ByteBuffer()
  /// The events that came behind these bytes.
  private var events: [Any] = []
  private var share: MemoryBudget.Share?
  @exclusivity(unchecked) private var isHandingOn = false
  @exclusivity(unchecked) private var takesTurn = false
  /// Whether the pipeline waits to read.
  @exclusivity(unchecked) private var wantsRead = false

  /// - Parameters:
  ///   - work: the time for all connections of the loop.
  ///   - memory: the budget to which the bytes that wait are charged.
  package init(
    _ turns: LoopTurns, _ work: WorkBudget, _ memory: MemoryBudget, _ logger: Logger
  ) {
    self.turns = turns
    self.work = work
    self.memory = memory
    self.logger = logger
  }

  package func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
  }

  package func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
  }

  /// The place in the pipeline from which output reaches the handlers before this one, as this one does nothing with it;
  /// nil if the handler is in no pipeline.
  package var place: ChannelHandlerContext? { context }

  package func channelInactive(context: ChannelHandlerContext) {
    drop()
    if turns.shortage.remove(self) { takesTurn = false }
    context.fireChannelInactive()
  }

  private func drop() {
    kept = ByteBuffer()
    events = []
    share = nil
  }

  // MARK: Handing on

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var buffer = unwrapInboundIn(data)
    if !knowsRead {
      knowsRead = true
      bytes = 0
    }
    bytes += buffer.readableBytes
    if kept.readableBytes > 0 || isHandingOn {
      kept.writeBuffer(&buffer)
    } else if buffer.readableBytes <= Self.sliceBytes {
      context.fireChannelRead(data)
    } else {
      kept = buffer
      handOn(context)
    }
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    knowsRead = false
    context.fireChannelReadComplete()
  }

  /// Hands on slices until the turn of the connection is over.
  private func handOn(_ context: ChannelHandlerContext) {
    isHandingOn = true
    while let slice = kept.readSlice(length: min(Self.sliceBytes, kept.readableBytes)),
      slice.readableBytes > 0
    {
      context.fireChannelRead(wrapInboundOut(slice))
      guard kept.readableBytes > 0 else { break }
      if work.count(&turn, bytes: slice.readableBytes) {
        takeTurnLater()
        break
      }
    }
    isHandingOn = false
    if kept.readableBytes == 0 { kept = ByteBuffer() }
    charge(context.channel)
  }

  private func charge(_ channel: any Channel) {
    let bytes = kept.storageCapacity
    if share == nil {
      guard bytes >= MemoryBudget.reportBytes, channel.isActive else { return }
      share = memory.open(of: channel, logger)
    }
    share?.report(bytes)
  }

  package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    // The event may be the end of the input. It is handed on after the bytes that came before it.
    if kept.readableBytes > 0 { return events.append(event) }
    context.fireUserInboundEventTriggered(event)
  }

  // MARK: Reading

  package func read(context: ChannelHandlerContext) {
    guard !takesTurn, kept.readableBytes == 0 else {
      wantsRead = true
      return
    }
    let isLarge = bytes > ReadBuffers.keptBytesMax
    guard bytes >= Self.bulkBytes || isLarge && memory.isShort else {
      bytes = 0
      knowsRead = true
      return context.read()
    }
    wantsRead = true
    takeTurnLater()
  }

  private func takeTurnLater() {
    guard !takesTurn else { return }
    takesTurn = true
    turns.append(self)
  }

  /// Reads if a read was held back, and no bytes wait to be handed on.
  private func readOn(_ context: ChannelHandlerContext) {
    guard wantsRead else { return }
    if memory.isShort {
      takesTurn = true
      return turns.shortage.append(self, until: memory)
    }
    bytes = 0
    wantsRead = false
    knowsRead = true
    // The connection may have stopped reading in the meantime. When it starts again, it asks for a read.
    let isReading = try? context.channel.syncOptions?.getOption(.autoRead)
    if isReading == true { context.read() }
  }
}

extension ReadTurns: TurnTaker {
  package var turnGroup: TurnGroup? { group ?? makeGroup() }

  private func makeGroup() -> TurnGroup {
    let made = Operations.turns(
      of: ObjectIdentifier(self), at: context?.remoteAddress?.ipAddress ?? "")
    group = made
    return made
  }

  package func takeTurn(bytes: Int) -> Int {
    takesTurn = false
    guard let context, context.channel.isActive else { return 0 }
    guard kept.readableBytes > 0 else {
      readOn(context)
      return LoopTurns.turnBytes
    }
    turn = work.nextTurn()
    handOn(context)
    context.fireChannelReadComplete()
    guard kept.readableBytes == 0 else { return LoopTurns.turnBytes }
    var due: [Any] = []
    swap(&due, &events)
    for event in due { context.fireUserInboundEventTriggered(event) }
    // The next read is another turn.
    if wantsRead { takeTurnLater() }
    return LoopTurns.turnBytes
  }
}
