import CanopyAccounts
import CanopyBackup
import CanopyEngine
import CanopyEvents
import CanopySession
import CanopySystem
import Logging
import ServiceLifecycle
import UnixSignals

/// The engine as a service. It runs until all services that use it have stopped.
struct EngineService: Service {
  let parts: Composition

  func run() async throws {
    // If another service fails, the task is cancelled. Then, too, the engine answers all accepted requests.
    await withTaskCancellationHandler {
      await withGracefulShutdownHandler {
        await parts.engine.run()
      } onGracefulShutdown: {
        parts.engine.stop()
      }
    } onCancel: {
      parts.engine.stop()
    }
  }
}

/// The listeners of all ports as one service.
///
/// Services shut down one after the other. The ports shut down together, so that a client of one port that does not read
/// delays the end of the server no longer than one of another port.
struct ListenerService: Service {
  let operations: Operations
  let listeners: [any Service]
  /// The event loops of the listeners.
  let loops: [RunningLoops]

  /// Makes the on-disconnect writes of the last run, and then listens.
  ///
  /// - Throws: the error of the store when these writes cannot be read; the error of a listener.
  func run() async throws {
    // Before any port is open, because they must not follow a write of a client that has connected again. If the
    // journal fails, they are made later.
    try await operations.carryOutAbandoned()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      for listener in listeners { tasks.addTask { try await listener.run() } }
      // The first failure ends the others.
      for try await _ in tasks {}
    }
    // The engine stops next.
    await operations.endedWritesSubmitted()
  }
}

/// The service that continues renamings and removals of more than one commit. The next start continues those that
/// the server did not complete before it shut down.
struct UnfinishedWorkService: Service {
  let operations: Operations

  func run() async {
    await cancelWhenGracefulShutdown {
      await operations.unfinishedWork.run(clock: Composition.clock)
    }
  }
}

/// The service that renews the lease of a node, and makes the on-disconnect writes of nodes that are gone.
struct LeaseService: Service {
  let operations: Operations

  func run() async {
    await cancelWhenGracefulShutdown { await operations.keepLease() }
  }
}

/// The service that closes idle namespaces, and all of them when the listeners have stopped.
struct NamespaceService: Service {
  let operations: Operations

  func run() async {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        try? await Task.sleep(for: .seconds(60))
        await operations.namespaces.closeIdle()
      }
    }
    await operations.namespaces.closeAll()
  }
}

/// The service that makes the backups of the schedule. At the shutdown it ends the backup that is being made.
struct BackupService: Service {
  let backups: Backups

  func run() async {
    await withGracefulShutdownHandler {
      await cancelWhenGracefulShutdown {
        await backups.run(clock: Composition.clock)
        // A service that ends would end the server.
        try? await gracefulShutdown()
      }
    } onGracefulShutdown: {
      backups.stop()
    }
  }
}

/// The service that reads all stored rows again and again, to find damage of the disk.
struct ScrubService: Service {
  let scrubber: Scrubber

  func run() async {
    await cancelWhenGracefulShutdown {
      await scrubber.run(clock: Composition.clock)
      // A service that ends would end the server.
      try? await gracefulShutdown()
    }
  }
}

/// The service that removes expired tokens and resolves interrupted sign-ups, once an hour.
///
/// It begins an hour after the start. So a start with a wrong clock removes nothing if somebody notices it soon.
struct TokenPurge: Service {
  let parts: Composition
  let logger: Logger

  func run() async {
    await cancelWhenGracefulShutdown {
      while (try? await Composition.clock.sleep(for: .seconds(3600))) != nil {
        do {
          while try await parts.accounts.purgeExpiredTokens() > 0 {}
          try await parts.recover(isStart: false)
        } catch {
          logger.error("expired tokens could not be removed", metadata: ["error": "\(error)"])
        }
      }
    }
  }
}

/// The service that returns memory to the system after connections have released much of it.
///
/// The buffers of a flood stand between those of other connections, so the allocator alone would keep the memory.
struct MemoryReturn: Service {
  /// The bytes of connections whose release is worth the work.
  private static let releasedBytesMin = 4 * 1024 * 1024

  let memory: MemoryBudget

  func run() async {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        try? await Task.sleep(for: .seconds(1))
        guard memory.takeRelease(of: MemoryReturn.releasedBytesMin) else { continue }
        // Tasks share a few threads, so this work must not block one of them.
        _ = WorkerThread.start(niceness: 5) { Allocator.returnFreeMemory() }
      }
    }
  }
}

/// The service that reads the certificate of the ports again at SIGHUP.
///
/// A service manager sends SIGHUP for a reload, and a terminal sends it when it is closed. Without this service it would
/// end the process at once.
struct CertificateReload: Service {
  /// The certificate; nil for ports without TLS.
  private let certificate: TLSCertificate?
  private let signals: UnixSignalsSequence
  private let logger: Logger

  /// Takes SIGHUP from now on, also if it was ignored.
  init(_ certificate: TLSCertificate?, logger: Logger) async {
    self.certificate = certificate
    self.logger = logger
    signals = await UnixSignalsSequence(trapping: .sighup)
  }

  func run() async {
    for await _ in signals.cancelOnGracefulShutdown() {
      guard let certificate else {
        logger.notice("SIGHUP has nothing to read again, because the ports have no certificate")
        continue
      }
      do throws(TLSCertificateError) {
        try certificate.reload()
        logger.notice("the certificate was read again; new connections use it")
      } catch {
        logger.error(
          "the certificate could not be read again; new connections use the old one",
          metadata: ["error": "\(error.sentence)"])
      }
    }
  }
}
