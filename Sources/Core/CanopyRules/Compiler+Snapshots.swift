internal import CanopyTree

/// The path of a snapshot during compilation.
struct SnapshotPath {
  var base: Program.Snapshot.Base
  var up: Int32 = 0
  var steps: [Step] = []

  enum Step {
    case key(Key)
    case path(Int32)
    case up
    case nowhere
  }

  /// Whether a step to the parent follows a step that is not known yet.
  var mustCollect: Bool {
    steps.contains { if case .up = $0 { true } else { false } }
  }
}

extension Compiler {
  /// Returns the path of a snapshot expression such as `root.child('users').child($uid)`; nil for
  /// any other expression.
  mutating func snapshot(_ syntax: Syntax) throws(TextProblem) -> SnapshotPath? {
    switch syntax.kind {
    case .name("root"): return .init(base: .root)
    case .name("data"): return .init(base: .data)
    case .name("newData"):
      guard kind != .read else {
        throw problem(syntax, "expected no newData: there is none in .read")
      }
      return .init(base: .newData)
    case .call(let receiver, "child", let arguments):
      guard var snapshot = try snapshot(receiver) else { return nil }
      try check(arguments, 1, "child", syntax)
      try go(to: arguments[0], in: &snapshot)
      return snapshot
    case .call(let receiver, "parent", let arguments):
      guard var snapshot = try snapshot(receiver) else { return nil }
      try check(arguments, 0, "parent", syntax)
      goUp(&snapshot)
      return snapshot
    default:
      return nil
    }
  }

  /// Appends the steps of a path. A literal path is split into keys here.
  ///
  /// A literal path without keys is a mistake: a computed one leads to an absent node, because the empty text in the data
  /// is not the name of the node itself.
  mutating func go(
    to syntax: Syntax, in snapshot: inout SnapshotPath
  ) throws(TextProblem) {
    guard case .string(let text) = syntax.kind else {
      snapshot.steps.append(.path(try compile(syntax, as: .string).operation))
      return
    }
    if let path = try? Path(text) {
      guard !path.isRoot else {
        throw problem(syntax, "expected a path with a key, such as 'title' or 'author/name'")
      }
      snapshot.steps.append(contentsOf: path.keys.map { .key($0) })
    } else {
      snapshot.steps.append(.nowhere)
    }
  }

  private func goUp(_ snapshot: inout SnapshotPath) {
    switch snapshot.steps.last {
    case .key: snapshot.steps.removeLast()
    case nil: snapshot.up += 1
    default: snapshot.steps.append(.up)
    }
  }

  private mutating func add(
    _ path: SnapshotPath, _ syntax: Syntax
  ) throws(TextProblem) -> Int32 {
    guard program.steps.count + path.steps.count <= RuleLimits.snapshotStepsMax else {
      throw problem(
        syntax,
        "expected snapshots with at most \(RuleLimits.snapshotStepsMax) steps in the whole file")
    }
    let first = Int32(program.steps.count)
    for step in path.steps {
      switch step {
      case .key(let key):
        program.keys.append(key)
        program.steps.append(.init(kind: .key, index: Int32(program.keys.count - 1)))
      case .path(let operation): program.steps.append(.init(kind: .path, index: operation))
      case .up: program.steps.append(.init(kind: .up))
      case .nowhere: program.steps.append(.init(kind: .nowhere))
      }
    }
    program.snapshots.append(
      .init(
        base: path.base, mustCollect: path.mustCollect, up: path.up, firstStep: first,
        stepCount: Int32(path.steps.count)))
    return Int32(program.snapshots.count - 1)
  }

  mutating func compile(
    _ name: String, of snapshot: SnapshotPath, _ arguments: [Syntax], _ syntax: Syntax
  ) throws(TextProblem) -> Part {
    guard let method = Method.snapshot[name] else {
      let known = Method.snapshot.keys.sorted().joined(separator: ", ")
      throw problem(syntax, "expected a method of a snapshot: \(known); found \(name)")
    }
    switch name {
    case "child", "parent":
      throw problem(syntax, "expected a value; call a method of this, such as .val() or .exists()")
    case "hasChildren":
      return try compileHasChildren(snapshot, arguments, syntax)
    case "hasChild":
      try check(arguments, 1, name, syntax)
      var child = snapshot
      try go(to: arguments[0], in: &child)
      return Part(operation: emit(.exists, try add(child, syntax), for: syntax), types: .bool)
    default:
      try check(arguments, 0, name, syntax)
      return Part(
        operation: emit(method.code, try add(snapshot, syntax), for: syntax), types: method.types)
    }
  }

  private mutating func compileHasChildren(
    _ snapshot: SnapshotPath, _ arguments: [Syntax], _ syntax: Syntax
  ) throws(TextProblem) -> Part {
    guard !arguments.isEmpty else {
      return Part(
        operation: emit(.hasAnyChild, try add(snapshot, syntax), for: syntax), types: .bool)
    }
    guard arguments.count == 1, case .array(let names) = arguments[0].kind, !names.isEmpty else {
      throw problem(syntax, "expected one list of names, as in hasChildren(['title', 'body'])")
    }
    var list: [Int32] = []
    for name in names {
      var child = snapshot
      try go(to: name, in: &child)
      list.append(try add(child, name))
    }
    let start = Int32(program.lists.count)
    program.lists.append(contentsOf: list)
    return Part(operation: emit(.allExist, start, Int32(list.count), for: syntax), types: .bool)
  }
}
