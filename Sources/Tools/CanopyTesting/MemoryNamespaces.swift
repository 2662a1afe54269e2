import CanopyEngine
public import CanopySession
public import CanopyWire
import Logging
import Synchronization

/// Namespaces that a test keeps in memory. Closing one keeps its journal.
public final class MemoryNamespaces: NamespaceSource {
  /// The journal of a namespace.
  public typealias Journal = FaultyJournal<InMemoryJournal>

  private struct State {
    var journals: [NamespaceName: Journal] = [:]
    var broken: Set<NamespaceName> = []
    var opened: [NamespaceName] = []
    var closed: [NamespaceName] = []
  }

  /// The gate of openings. It is open at first.
  public let gate = Gate(isOpen: true)

  private let state = Mutex(State())
  private let initial: InitialRules
  /// The most namespaces that are created when they are opened.
  private let createdMax: Int?
  private let clock = ManualClock()

  /// Creates namespaces.
  ///
  /// - Parameters:
  ///   - initial: the rules that each one has when it is opened.
  ///   - createdMax: the most namespaces, if those that do not exist are created when they are opened, as by an emulator;
  ///     else nil.
  public init(
    _ names: [String], initial: InitialRules = .open, createdMax: Int? = nil
  ) throws {
    self.initial = initial
    self.createdMax = createdMax
    for name in names { try add(name) }
  }

  /// Creates a namespace.
  public func add(_ name: String) throws {
    let name = try NamespaceName(name)
    state.withLock { $0.journals[name] = FaultyJournal() }
  }

  /// Damages a namespace, or repairs it.
  public func damage(_ name: String, _ isBroken: Bool = true) throws {
    let name = try NamespaceName(name)
    state.withLock { state in
      if isBroken { state.broken.insert(name) } else { state.broken.remove(name) }
    }
  }

  /// The journal of a namespace; nil if it does not exist.
  public func journal(_ name: String) -> Journal? {
    guard let name = try? NamespaceName(name) else { return nil }
    return state.withLock { $0.journals[name] }
  }

  /// The names of the namespaces in the order in which they were opened, with repetitions.
  public var opened: [String] { state.withLock { $0.opened.map(\.text) } }

  /// The names of the namespaces in the order in which they were closed, with repetitions.
  public var closed: [String] { state.withLock { $0.closed.map(\.text) } }

  /// Returns whether a namespace exists, and whether it is created otherwise.
  public func availability(of name: NamespaceName) -> NamespaceAvailability {
    state.withLock { state in
      if state.journals[name] != nil { return .stored }
      guard let createdMax else { return .missing }
      return state.journals.count < createdMax ? .creatable : .full(countMax: createdMax)
    }
  }

  /// The names of the namespaces.
  public func names() -> [NamespaceName] {
    state.withLock { $0.journals.keys.sorted { $0.text < $1.text } }
  }

  /// Opens a namespace.
  public func open(_ name: NamespaceName) async throws -> NamespaceParts {
    await gate.pass()
    let (journal, isBroken) = state.withLock { state in
      state.opened.append(name)
      if createdMax != nil, state.journals[name] == nil { state.journals[name] = FaultyJournal() }
      return (state.journals[name], state.broken.contains(name))
    }
    guard let journal, !isBroken else { throw PlannedFailure() }
    let rules = try RulesKeeper(folder: nil, initial: initial)
    let engine = try await Engine.forTests(journal, clock: clock)
    try await rules.begin(
      at: engine.snapshot.sequence, recordingIn: journal,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    return NamespaceParts(engine: engine, disconnectStore: journal, rules: rules) { [weak self] in
      self?.state.withLock { $0.closed.append(name) }
    }
  }
}
