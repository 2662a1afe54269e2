public import CanopyTree

/// What rules say of a request.
public enum Verdict: Equatable, Sendable {
  /// It may be done.
  case allowed
  /// It may not, and why.
  case denied(Denial)

  /// Whether it may be done.
  public var isAllowed: Bool { self == .allowed }
}

/// Why rules do not allow a request. For logs and whoever writes rules; a client is told only that it
/// may not, lest it learn what it may not read.
public enum Denial: Equatable, Sendable {
  /// No rule on the way to a location grants it.
  case notGranted(RuleKind, at: Path)
  /// The `.validate` rule of this path does not hold at a location.
  case invalid(rule: String, at: Path)
  /// The rules that apply take more steps than one request may.
  case tooManySteps

  /// One sentence.
  public var sentence: String {
    switch self {
    case .notGranted(let kind, let path):
      "no \(kind.rawValue) rule from the root down to \(path) holds"
    case .invalid(let rule, let path):
      "the rule \(rule) does not hold at \(path)"
    case .tooManySteps:
      "the rules of this request would take too long; make several smaller ones of it"
    }
  }
}
