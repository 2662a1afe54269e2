public import CanopyTree

/// The server's lines about a subscription:
/// `>{"sub":3,"event":"child_added","key":"-O…",…,"seq":41}`.
///
/// Many subscribers receive the same event. A line therefore has two parts: the number of the
/// subscription (`begin`), and the rest, which is encoded once and shared.
public enum EventLine {
  /// Appends the first part of a line.
  @inline(__always)
  public static func begin(_ subscription: Int64, to output: inout JSONOutput) {
    output.append(">{\"sub\":")
    output.append(subscription)
  }

  /// Appends the rest of a line about a child.
  ///
  /// - Parameter isMore: whether further events of the same commit follow on this subscription.
  ///   Only the last one completes the commit, so that a client may resume from it.
  public static func child(
    _ change: ChildChange, _ sequence: Int64, isMore: Bool, to output: inout JSONOutput
  ) {
    child(change, sequence, isMore: isMore, to: &output) { $0.append(change.node) }
  }

  /// Appends the rest of a line about a child, whose data `body` appends.
  @inline(__always)
  public static func child(
    _ change: ChildChange, _ sequence: Int64, isMore: Bool, to output: inout JSONOutput,
    _ body: (inout JSONOutput) -> Void
  ) {
    let name: StaticString =
      switch change.kind {
      case .added: "child_added"
      case .changed: "child_changed"
      case .moved: "child_moved"
      case .removed: "child_removed"
      }
    begin(name, to: &output)
    output.append(",\"key\":")
    output.append(key: change.key)
    if change.kind != .removed {
      output.append(",\"prev\":")
      if let previous = change.previous {
        output.append(key: previous)
      } else {
        output.append("null")
      }
    }
    output.append(",\"data\":")
    body(&output)
    if isMore { output.append(",\"more\":true") }
    end(sequence, to: &output)
  }

  /// Appends the rest of a line with a whole value. `body` appends the data.
  public static func value(
    _ sequence: Int64, to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    begin("value", to: &output)
    output.append(",\"data\":")
    body(&output)
    end(sequence, to: &output)
  }

  /// Appends the rest of a line with the new value of a location, relative to the subscription's
  /// path. `body` appends the data.
  ///
  /// - Parameter isMore: whether further events of the same commit follow on this subscription.
  public static func put(
    _ location: Location, _ sequence: Int64, isMore: Bool = false, to output: inout JSONOutput,
    _ body: (inout JSONOutput) -> Void
  ) {
    begin("put", to: &output)
    output.append(",\"path\":")
    output.append(string: "/" + location.text)
    output.append(",\"data\":")
    body(&output)
    if isMore { output.append(",\"more\":true") }
    end(sequence, to: &output)
  }

  /// Appends the rest of a line with the new values of several locations, with priorities.
  public static func patch(
    _ assignments: [Assignment], _ sequence: Int64, to output: inout JSONOutput
  ) {
    patch(sequence, to: &output) { output in
      for (index, assignment) in assignments.enumerated() {
        member(of: assignment, isFirst: index == 0, to: &output)
        output.append(assignment.value, style: .export)
      }
    }
  }

  /// Appends the rest of a line with the present values of several locations, whose members `body` appends.
  @inline(__always)
  public static func patch(
    _ sequence: Int64, to output: inout JSONOutput, _ body: (inout JSONOutput) -> Void
  ) {
    begin("patch", to: &output)
    output.append(",\"path\":\"/\",\"data\":{")
    body(&output)
    output.append("}")
    end(sequence, to: &output)
  }

  /// Appends the name of the member of a `patch` for a location. Its value is to follow.
  public static func member(
    of assignment: Assignment, isFirst: Bool, to output: inout JSONOutput
  ) {
    if !isFirst { output.append(UInt8(ascii: ",")) }
    output.append(string: assignment.location.text)
    output.append(UInt8(ascii: ":"))
  }

  /// Appends the rest of a line that ends the subscription.
  public static func cancel(_ code: WireError.Code, to output: inout JSONOutput) {
    begin("cancel", to: &output)
    output.append(",\"code\":")
    output.append(string: code.rawValue)
    output.append("}\r\n")
  }

  private static func begin(_ name: StaticString, to output: inout JSONOutput) {
    output.append(",\"event\":\"")
    output.append(name)
    output.append("\"")
  }

  private static func end(_ sequence: Int64, to output: inout JSONOutput) {
    output.append(",\"seq\":")
    output.append(sequence)
    output.append("}\r\n")
  }
}
