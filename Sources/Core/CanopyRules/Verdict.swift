public import CanopyTree

/// The verdict of the rules on a request.
public enum Verdict: Equatable, Sendable {
  /// The rules allow the request.
  case allowed
  /// The rules refuse the request, for a reason.
  case denied(Denial)

  /// Whether the rules allow the request.
  public var isAllowed: Bool { self == .allowed }
}

/// The reason of a refusal, for logs and authors of rules. A client learns only that it may not:
/// the reason could reveal data that it may not read.
public enum Denial: Equatable, Sendable {
  /// No rule on the path to a location grants it.
  case notGranted(RuleKind, at: Path)
  /// The `.validate` rule of this path does not hold at a location.
  case invalid(rule: String, at: Path)
  /// The applicable rules use more steps than one request may.
  case tooManySteps

  /// A sentence that says why.
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
