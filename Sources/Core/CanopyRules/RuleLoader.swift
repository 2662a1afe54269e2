internal import CanopyTree

/// Loads a rules file into a program, a rule tree and an index plan.
///
/// Continues after a mistake in one rule, so that it reports all of them.
struct RuleLoader {
  private let source: SourceText
  private(set) var program = Program()
  private(set) var tree = RuleTree()
  private(set) var indexPlan = IndexPlan()
  private(set) var tokens = 0
  /// The regular expressions of all rules so far.
  private(set) var patterns = PatternTable()
  private var problems: [RulesError.Problem] = []
  private var omitted = 0

  /// The path of the rule node that is being loaded.
  private var labels: [String] = []
  private var pattern: [Key?] = []
  private var wildcards: [String: Int] = [:]

  init(_ source: SourceText) {
    self.source = source
  }

  mutating func load() throws(RulesError) {
    guard source.bytes.count <= RuleLimits.fileBytesMax else {
      throw RulesError(problems: [
        source.problem(
          at: 0, rule: nil, "expected a file of at most \(RuleLimits.fileBytesMax) bytes")
      ])
    }
    do throws(UTF8.ValidationError) { _ = try UTF8Span(validating: source.bytes.span) } catch {
      let offset = error.byteOffsets.lowerBound
      throw RulesError(problems: [source.problem(at: offset, rule: nil, "expected UTF-8")])
    }
    var reader = RulesDocumentReader(source.bytes)
    do throws(TextProblem) {
      let (document, offset) = try reader.readAll()
      tokens += reader.tokens
      loadFile(document, offset)
      let levels = indexPlan.levelCount
      if levels > RuleLimits.indexLevelsMax {
        report(
          "expected .indexOn at places with at most \(RuleLimits.indexLevelsMax) keys and wildcards on "
            + "the ways there; found \(levels)", at: offset)
      }
    } catch {
      problems.append(source.problem(at: error.offset, rule: nil, error.message))
    }
    guard problems.isEmpty else { throw RulesError(problems: problems, omitted: omitted) }
  }

  private mutating func report(_ message: String, at offset: Int, of rule: String? = nil) {
    guard problems.count < RuleLimits.problemsMax else {
      omitted += 1
      return
    }
    var path = "/" + labels.joined(separator: "/")
    if let rule { path += (labels.isEmpty ? "" : "/") + rule }
    problems.append(source.problem(at: offset, rule: path, message))
  }

  private mutating func loadFile(_ document: RulesDocument, _ offset: Int) {
    guard case .object(let members) = document, members.count == 1, members[0].name == "rules"
    else {
      return report("expected one object with one member, \"rules\"", at: offset)
    }
    guard case .object(let rules) = members[0].value else {
      return report(
        "expected an object; found \(members[0].value.kind)", at: members[0].valueOffset)
    }
    _ = loadNode(rules, label: "", parent: -1)
  }

  /// Loads a rule node and all nodes below it. Returns its index.
  private mutating func loadNode(
    _ members: [RulesDocument.Member], label: String, parent: Int32
  ) -> Int32 {
    let index = Int32(tree.nodes.count)
    tree.nodes.append(.init(parent: parent))
    tree.labels.append(label)
    var seen: Set<[UInt8]> = []
    var children: [(key: Key, node: Int32)] = []
    for member in members {
      guard seen.insert(Array(member.name.utf8)).inserted else {
        report("expected \(member.name) only once here", at: member.nameOffset)
        continue
      }
      if member.name.utf8.first == UInt8(ascii: ".") {
        loadRule(member, at: index)
      } else if let (key, child) = loadChild(member, of: index) {
        if let key {
          children.append((key, child))
        } else {
          tree.nodes[Int(index)].wildcard = child
        }
        let below = tree.nodes[Int(child)]
        if below.validate >= 0 || below.validatesBelow {
          tree.nodes[Int(index)].validatesBelow = true
        }
      }
    }
    children.sort { $0.key < $1.key }
    tree.nodes[Int(index)].firstChild = Int32(tree.children.count)
    tree.nodes[Int(index)].childCount = Int32(children.count)
    tree.children.append(contentsOf: children)
    return index
  }

  /// Loads a child of a rule node. Returns its key (nil for a wildcard) and its index.
  private mutating func loadChild(
    _ member: RulesDocument.Member, of parent: Int32
  ) -> (key: Key?, node: Int32)? {
    let name = member.name
    var key: Key?
    if name.utf8.first == UInt8(ascii: "$") {
      guard Self.isWildcardName(name) else {
        report(
          "expected letters, digits and _ after the $ of a wildcard; found \(name)",
          at: member.nameOffset)
        return nil
      }
      guard wildcards[name] == nil else {
        report("expected another name: \(name) stands for a key above", at: member.nameOffset)
        return nil
      }
      guard tree.nodes[Int(parent)].wildcard < 0 else {
        report("expected one wildcard here; \(name) is another", at: member.nameOffset)
        return nil
      }
    } else {
      do throws(TreeError) { key = try Key(name) } catch {
        report("expected a key, a $wildcard or a rule: \(error.sentence)", at: member.nameOffset)
        return nil
      }
    }
    guard labels.count < Limits.depthMax else {
      report(
        "expected at most \(Limits.depthMax) keys in the path of a rule, as in a path of data",
        at: member.nameOffset)
      return nil
    }
    guard case .object(let members) = member.value else {
      report("expected an object; found \(member.value.kind)", at: member.valueOffset)
      return nil
    }
    if key == nil { wildcards[name] = labels.count }
    labels.append(name)
    pattern.append(key)
    defer {
      labels.removeLast()
      pattern.removeLast()
      if key == nil { wildcards[name] = nil }
    }
    return (key, loadNode(members, label: name, parent: parent))
  }

  private static func isWildcardName(_ name: String) -> Bool {
    let rest = name.utf8.dropFirst()
    return !rest.isEmpty
      && rest.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "_"), UInt8(ascii: "a")...UInt8(ascii: "z"),
          UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: byte >= 0x80
        }
      }
  }

  private mutating func loadRule(_ member: RulesDocument.Member, at node: Int32) {
    if member.name == ".indexOn" { return loadIndex(member) }
    guard let kind = RuleKind(rawValue: member.name) else {
      return report(
        "expected .read, .write, .validate or .indexOn; found \(member.name)",
        at: member.nameOffset)
    }
    let text: RulesDocument.Text
    switch member.value {
    case .bool(let value):
      text = .init(
        bytes: Array((value ? "true" : "false").utf8), runs: [(0, member.valueOffset)])
    case .string(let string): text = string
    default:
      return report(
        "expected a string with an expression, true or false; found \(member.value.kind)",
        at: member.valueOffset, of: member.name)
    }
    guard text.bytes.count <= RuleLimits.expressionBytesMax else {
      return report(
        "expected an expression of at most \(RuleLimits.expressionBytesMax) bytes",
        at: member.valueOffset, of: member.name)
    }
    var parser = ExpressionParser(text.bytes, patterns: patterns)
    // Only one of the two may hold the table, or it would be copied for each rule.
    patterns = PatternTable()
    defer { patterns = parser.patterns }
    do throws(TextProblem) {
      let syntax = try parser.parseAll()
      var compiler = Compiler(program: program, kind: kind, wildcards: wildcards)
      // Only one of the two may reference the arrays; otherwise each rule would copy them.
      program = Program()
      defer { program = compiler.program }
      let operation = try compiler.compileRule(syntax)
      let rule = Int32(compiler.program.rules.count)
      compiler.program.rules.append(
        .init(
          operation: operation, text: text.bytes,
          line: source.line(of: member.valueOffset), kind: kind, node: node))
      tree.nodes[Int(node)].set(rule, kind)
    } catch {
      report(error.message, at: text.source(of: error.offset), of: member.name)
    }
    tokens += parser.tokens
  }

  /// Loads `".indexOn": "a"` or `["a", "b/c", ".value"]`.
  private mutating func loadIndex(_ member: RulesDocument.Member) {
    var names: [(text: RulesDocument.Text, offset: Int)] = []
    switch member.value {
    case .string(let text): names = [(text, member.valueOffset)]
    case .array(let elements):
      for (element, offset) in elements {
        guard case .string(let text) = element else {
          return report(
            "expected a name in quotes; found \(element.kind)", at: offset, of: ".indexOn")
        }
        names.append((text, offset))
      }
    default:
      return report(
        "expected a name or a list of names; found \(member.value.kind)", at: member.valueOffset,
        of: ".indexOn")
    }
    guard names.count <= RuleLimits.indexesMax else {
      return report(
        "expected at most \(RuleLimits.indexesMax) names; found \(names.count)",
        at: member.valueOffset, of: ".indexOn")
    }
    for (text, offset) in names {
      switch String(decoding: text.bytes, as: UTF8.self) {
      case ".value": indexPlan.declare(.value, at: pattern)
      case ".priority": indexPlan.declare(.priority, at: pattern)
      case let name:
        do throws(TreeError) {
          let path = try Path(name)
          if path.isRoot {
            report("expected the name of a child", at: offset, of: ".indexOn")
          } else {
            indexPlan.declare(.child(path), at: pattern)
          }
        } catch {
          report(
            "expected the path of a child or .value: \(error.sentence)", at: offset,
            of: ".indexOn")
        }
      }
    }
  }
}

extension RuleTree.RuleNode {
  fileprivate mutating func set(_ rule: Int32, _ kind: RuleKind) {
    switch kind {
    case .read: read = rule
    case .write: write = rule
    case .validate: validate = rule
    }
  }
}
