import CanopyAccounts
import CanopyEngine
import CanopySession
import Logging
import ServiceLifecycle

/// The engine's place among the services: it runs until everything that uses it has stopped.
struct EngineService: Service {
  let parts: Composition

  func run() async throws {
    // Cancelled when another service fails: then the engine also answers what it has accepted.
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

/// Continues renamings and removals that take more than one commit. Those that are not complete when the
/// server shuts down are continued at the next start.
struct UnfinishedWorkService: Service {
  let operations: Operations

  func run() async {
    await cancelWhenGracefulShutdown {
      await operations.unfinishedWork.run(clock: Composition.clock)
    }
  }
}

/// Removes expired tokens, at the start and once an hour.
struct TokenPurge: Service {
  let parts: Composition
  let logger: Logger

  func run() async {
    await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        do {
          while try await parts.accounts.purgeExpiredTokens() > 0 {}
        } catch {
          logger.error("expired tokens could not be removed", metadata: ["error": "\(error)"])
        }
        try? await Task.sleep(for: .seconds(3600))
      }
    }
  }
}
