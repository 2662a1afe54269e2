import CanopyEngine
import CanopyEvents
import CanopySession
import CanopySystem
import Foundation
import Logging
import ServiceLifecycle

/// The service that notifies the service manager when the server is ready, and when it begins to stop.
struct ReadinessService: Service {
  let manager: ServiceManager
  /// Has an element for each listener that is ready.
  let ready: AsyncStream<Void>
  /// The number of listeners.
  let listeners: Int
  let logger: Logger

  func run() async {
    var waiting = listeners
    for await _ in ready.cancelOnGracefulShutdown() {
      waiting -= 1
      if waiting == 0 { break }
    }
    if waiting == 0 {
      await notify("READY=1")
      try? await gracefulShutdown()
    }
    await notify("STOPPING=1")
  }

  /// Notifies the manager of a state. Waits a few seconds for a manager that is behind with reading.
  private func notify(_ state: String) async {
    for _ in 0..<50 {
      do throws(FileError) {
        return try manager.notify(state)
      } catch {
        guard error.code == EAGAIN else {
          return logger.warning(
            "the service manager cannot be notified",
            metadata: ["state": "\(state)", "error": "\(error.reason)"])
        }
        try? await Composition.clock.sleep(for: .milliseconds(100))
      }
    }
    logger.warning("the service manager does not read", metadata: ["state": "\(state)"])
  }
}

/// The service that reports to the service manager that the server works, as long as it does.
///
/// It shuts down after the listeners, because a client may keep them waiting for some seconds.
struct WatchdogService: Service {
  let watchdog: Watchdog
  let operations: Operations
  /// The event loops of all ports.
  let loops: [RunningLoops]

  func run() async {
    await cancelWhenGracefulShutdown {
      await watchdog.run(clock: Composition.clock) {
        for engine in [operations.engine] + operations.namespaces.engines {
          await engine.answer()
        }
        for loops in loops { await loops.answer() }
      }
    }
  }
}

extension ServiceManager {
  /// Returns the watchdog that the manager asks for; nil if it asks for none.
  func watchdog(logger: Logger) -> Watchdog? {
    watchdogTimeout.map { timeout in
      Watchdog(timeout: timeout) { [self] in
        // A report that is lost is followed by another one in time.
        do throws(FileError) {
          try notify("WATCHDOG=1")
        } catch {
          logger.warning(
            "the service manager cannot be notified",
            metadata: ["state": "WATCHDOG=1", "error": "\(error.reason)"])
        }
      }
    }
  }
}
