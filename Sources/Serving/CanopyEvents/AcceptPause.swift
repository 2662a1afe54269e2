internal import Foundation
package import Logging
package import NIOCore

/// Stops accepting connections for a moment when the system has no more descriptors or memory for
/// them.
///
/// The kernel keeps a connection that cannot be accepted in its queue, and the listener stays readable.
/// Without a pause the event loop would try again at once, for ever. (`AcceptBackoffHandler` of NIO
/// delays the next read, but the failed read is still pending, so the loop goes on.) Each failed attempt ends an idle
/// connection of the network that has the most, so that newcomers do not wait until a client leaves by itself.
///
/// An episode begins with a failed attempt. The handler writes one line to the log at the beginning of
/// an episode and one at its end, no matter how many attempts fail. It is part of a listener's pipeline
/// and runs on the listener's event loop.
package final class AcceptPause: ChannelInboundHandler {
  package typealias InboundIn = any Channel
  package typealias InboundOut = any Channel

  /// The time from a failed attempt to the next one.
  package static let pause = TimeAmount.milliseconds(100)
  /// The time without a failed attempt that ends an episode.
  package static let calm = TimeAmount.seconds(10)

  private let logger: Logger
  private let makeRoom: () -> Void
  private var resumption: Scheduled<Void>?
  /// The scheduled end of the episode; nil outside of episodes.
  private var end: Scheduled<Void>?

  /// - Parameter makeRoom: ends an idle connection.
  package init(logger: Logger, makeRoom: @escaping () -> Void) {
    self.logger = logger
    self.makeRoom = makeRoom
  }

  package func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? IOError, AcceptPause.isTransient(error.errnoCode) else {
      return context.fireErrorCaught(error)
    }
    if end == nil {
      logger.warning(
        "no connection can be accepted for now; close connections, or raise the limit of open files",
        metadata: ["error": "\(String(cString: strerror(error.errnoCode)))"])
    }
    end?.cancel()
    let loop = context.eventLoop.assumeIsolated()
    end = loop.scheduleTask(in: AcceptPause.calm) { [self] in
      end = nil
      logger.notice("connections are accepted again")
    }
    guard resumption == nil else { return }
    makeRoom()
    setReading(context, false)
    resumption = loop.scheduleTask(in: AcceptPause.pause) { [self] in
      resumption = nil
      setReading(context, true)
    }
  }

  package func channelInactive(context: ChannelHandlerContext) {
    resumption?.cancel()
    end?.cancel()
    context.fireChannelInactive()
  }

  private func setReading(_ context: ChannelHandlerContext, _ isReading: Bool) {
    // Fails only when the listener has been closed.
    context.channel.setOption(.autoRead, value: isReading).whenFailure { _ in }
  }

  /// Whether an attempt may succeed when some connections have been closed.
  private static func isTransient(_ code: CInt) -> Bool {
    [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(code)
  }
}
