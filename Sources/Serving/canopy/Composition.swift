import ArgumentParser
import CanopyAccounts
import CanopyEngine
import CanopyRules
import CanopyLineServer
import CanopySession
import CanopySocial
import CanopySQLite
import CanopyTree
import Foundation
import Logging

/// The parts of a database put together: store, engine, accounts.
///
/// The one place that knows which implementation stands behind each protocol.
struct Composition: Sendable {
  let store: SQLiteStore
  let engine: Engine
  let accounts: AccountService

  /// Opens a data folder.
  ///
  /// - Parameters:
  ///   - hasher: bounds the hashing of passwords.
  ///   - now: milliseconds since 1970, for everything that is timed.
  init(
    folder: String, store configuration: SQLiteStore.Configuration = .init(),
    engine: Engine.Configuration = Composition.unwatched, settings: AccountSettings = .init(),
    hasher: PasswordHasher = PasswordHasher(),
    now: @escaping @Sendable () -> Int64 = Composition.now, logger: Logger
  ) async throws {
    var configuration = configuration
    configuration.logger = logger
    configuration.currentTime = now()
    store = try SQLiteStore(folder: folder, configuration: configuration)
    if configuration.acceptsLoss { try await store.acceptLosses() }
    var engineConfiguration = engine
    engineConfiguration.indexPlan.formUnion(Layout.indexPlan)
    self.engine = try await Engine(
      journal: store, configuration: engineConfiguration, now: now,
      clock: Composition.clock, random: { UInt64.random(in: .min ... .max) }, logger: logger)
    accounts = AccountService(
      store: store, hasher: hasher, settings: settings,
      environment: AccountEnvironment(now: now, random: AccountEnvironment.live.random))
  }

  /// Ends what sign-ups left undone when the process last ended. To be called before there are new
  /// ones.
  func recover() async throws {
    try await accounts.recoverPending { [engine] uid in
      guard let key = try? Key(uid) else { return false }
      return Users.username(of: key, in: engine.root) != nil
    }
  }

  /// Runs the engine while `body` uses it, and closes the folder.
  func use<R: Sendable>(_ body: @Sendable (Composition) async throws -> R) async throws -> R {
    let result = await withTaskGroup(of: Void.self) { group in
      group.addTask { await engine.run() }
      let result: Result<R, any Error>
      do {
        try await recover()
        result = .success(try await body(self))
      } catch {
        result = .failure(error)
      }
      engine.stop()
      await group.waitForAll()
      return result
    }
    try store.close()
    return try result.get()
  }

  /// The configuration of a command that works on a folder. Nobody waits for its writer, so the log does not name
  /// what holds it.
  static var unwatched: Engine.Configuration {
    var configuration = Engine.Configuration()
    configuration.elapsed = { .zero }
    return configuration
  }

  /// The clock by which background work waits and rests.
  static let clock = ContinuousClock()

  /// The system's clock.
  static let now: @Sendable () -> Int64 = AccountEnvironment.live.now
}

/// How commands end when something is wrong: one sentence on stderr, exit code 1.
struct Failure: Error, CustomStringConvertible {
  let description: String

  init(_ sentence: String) {
    description = sentence
  }

  /// The sentence of an error that has one.
  init(_ error: any Error) {
    switch error {
    case let error as Failure: self = error
    case let error as StoreError: description = error.sentence
    case let error as AccountError: description = error.sentence
    case let error as SocialError: description = error.sentence
    case let error as TreeError: description = error.sentence
    case let error as EngineError: description = error.sentence
    case let error as ListenError: description = error.sentence
    case let error as OpenFilesError: description = error.sentence
    case let error as LocalSocketError: description = error.sentence
    case let error as RulesError: description = error.description
    case let error as RulesFileError: description = error.sentence
    default: description = "\(error)"
    }
  }

  /// Runs `body` and gives every error its sentence; those of the parser have theirs.
  static func explaining<R>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> R
  ) async throws -> R {
    do {
      return try await body()
    } catch let error as ValidationError {
      throw error
    } catch {
      throw Failure(error)
    }
  }
}
