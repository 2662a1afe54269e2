internal import CanopyEngine
internal import CanopyMetrics
internal import CanopyRules
internal import CanopyTree

extension ReplyJSON {
  /// The bytes of a string above which `members(ofShort:)` cuts it off.
  private static let shortBytes = 200

  /// Returns the members that describe a node without its content: the number of children, or a value of bounded length.
  static func members(ofShort node: Node) -> [(String, ReplyJSON)] {
    var members: [(String, ReplyJSON)] = []
    if node.isBranch {
      members.append(("children", .number(Int64(node.childCount))))
    } else if let text = node.stringValue, text.utf8.count > shortBytes {
      members.append(("value", .text(text.cut(toBytes: shortBytes))))
      members.append(("bytes", .number(Int64(text.utf8.count))))
    } else {
      members.append(("value", ReplyJSON(leaf: node)))
    }
    let priority = node.priority
    if let text = priority.stringValue {
      members.append(("priority", .text(text.cut(toBytes: shortBytes))))
    } else if !priority.isAbsent {
      members.append(("priority", ReplyJSON(leaf: priority)))
    }
    return members
  }

  /// Creates the JSON of a leaf, or null for another node.
  private init(leaf node: Node) {
    switch node.value {
    case .absent, .branch: self = .null
    case .bool(let value): self = .bool(value)
    case .integer(let value): self = .number(value)
    case .double(let value): self = .double(value)
    case .string(let value): self = .text(value)
    }
  }

  /// Creates the reply to a check of rules; nil for valid ones.
  init(_ error: RulesError?) {
    let problems = (error?.problems ?? []).map { problem -> ReplyJSON in
      [
        "line": .number(Int64(problem.line)), "column": .number(Int64(problem.column)),
        "rule": problem.rule.map { .text($0) } ?? .null, "message": .text(problem.message),
      ]
    }
    self = [
      "valid": .bool(error == nil), "problems": .array(problems),
      "omitted": .number(Int64(error?.omitted ?? 0)),
    ]
  }

  /// Creates the description of a subscription.
  init(_ listen: ClientState.Listen) {
    let form = listen.listening?.form ?? .value
    self = [
      "sub": .number(listen.number),
      "path": listen.listening.map { .text("/\($0.path.text)") } ?? .null,
      "query": .object(listen.listening.map { ReplyJSON.options(of: $0.query) } ?? []),
      "events": .text(form.rawValue),
    ]
  }
}

/// Queries as the options of a request.
extension ReplyJSON {
  fileprivate static func options(of query: Query) -> [(String, ReplyJSON)] {
    var options: [(String, ReplyJSON)] = []
    if query.order != .priority { options.append(("orderBy", .text(query.order.optionText))) }
    if let lower = query.lower, lower == query.upper, lower.isInclusive {
      options.append(("equalTo", json(of: lower, query.order)))
    } else {
      if let lower = query.lower {
        let name = lower.isInclusive ? "startAt" : "startAfter"
        options.append((name, json(of: lower, query.order)))
      }
      if let upper = query.upper {
        options.append((upper.isInclusive ? "endAt" : "endBefore", json(of: upper, query.order)))
      }
    }
    switch query.limit {
    case .first(let count)?: options.append(("limitToFirst", .number(Int64(count))))
    case .last(let count)?: options.append(("limitToLast", .number(Int64(count))))
    case nil: break
    }
    return options
  }

  private static func json(of bound: Query.Bound, _ order: Order) -> ReplyJSON {
    if order == .key { return bound.key.map { .key($0) } ?? .null }
    let value: ReplyJSON =
      switch bound.value {
      case .absent: .null
      case .bool(let value): .bool(value)
      case .integer(let value): .number(value)
      case .double(let value): .double(value)
      case .string(let bytes): .text(String(decoding: bytes, as: UTF8.self))
      }
    return bound.key.map { .array([value, .key($0)]) } ?? value
  }
}

extension Order {
  /// The order as the option `orderBy` has it.
  var optionText: String {
    switch self {
    case .key: "$key"
    case .value: "$value"
    case .priority: "$priority"
    case .child(let path): path.text
    }
  }
}

/// Metrics.
extension ReplyJSON {
  /// Creates the JSON of metrics: an object with a member for each.
  init(_ metrics: MetricsText) {
    let families = metrics.families.sorted {
      $0.key.utf8.lexicographicallyPrecedes($1.key.utf8)
    }
    self = .object(families.map { ($0.key, ReplyJSON($0.value)) })
  }

  private init(_ family: MetricsText.Family) {
    var members: [(String, ReplyJSON)] = [("type", .text(family.kind.rawValue))]
    let isHistogram = family.kind == .histogram
    if isHistogram { members.append(("bounds", .array(family.bounds.map { .double($0) }))) }
    let series = family.series.map { series -> ReplyJSON in
      let labels = ReplyJSON.object(series.labels.map { ($0.name, .text($0.value)) })
      guard isHistogram else { return ["labels": labels, "value": .double(series.value)] }
      return [
        "labels": labels, "counts": .array(series.counts.map { .number($0) }),
        "sum": .double(series.value), "count": .number(series.counts.reduce(0, +)),
      ]
    }
    members.append(("series", .array(series)))
    self = .object(members)
  }
}
