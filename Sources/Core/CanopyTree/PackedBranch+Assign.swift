extension PackedBranch {
  /// Returns the branch after assignments of leaves below it, in one pass over its text. Removed leaves are absent.
  ///
  /// The result is that of one `replacing` for each assignment, without the branches between them.
  ///
  /// - Parameters:
  ///   - assignments: all assignments of a commit, ordered by location.
  ///   - group: the indices of those that are below the branch.
  ///   - depth: the number of keys that lead to the branch.
  /// - Returns: nil if another value than a leaf or a priority is assigned, or if the result does not fit in a packed
  ///   branch.
  /// - Complexity: O(bytes).
  func assigning(_ assignments: [Assignment], _ group: Range<Int>, depth: Int) -> Node? {
    for index in group where !PackedBranch.isLeaf(assignments[index]) { return nil }
    WorkCounter.touch()
    return withMembers { members in
      withUnsafeTemporaryAllocation(
        byteCount: (members.count + group.count) * OffsetTable.stride, alignment: 2
      ) { memory -> Node? in
        guard let base = memory.baseAddress else { return nil }
        var edit = Edit(
          members: members, table: OffsetTable(base: base, count: members.count + group.count))
        var rest = group
        while let first = rest.first {
          let end = assignments.endOfKey(at: depth, in: rest)
          guard edit.apply(assignments, first..<end, depth: depth) else { return nil }
          rest = end..<rest.upperBound
        }
        return edit.finish(self)
      }
    }
  }

  /// Whether an assignment is one of a leaf without a priority, or a removal.
  private static func isLeaf(_ assignment: Assignment) -> Bool {
    guard !assignment.location.isPriority else { return false }
    switch assignment.value.storage {
    case .absent, .bool, .integer, .double, .string: return true
    case .branch, .packed, .indexed, .prioritized: return false
    }
  }

  /// The text of a packed branch that is being changed, and the offsets of its members so far.
  private struct Edit: ~Copyable {
    let members: Members
    let table: OffsetTable
    private var output: JSONOutput
    /// The number of members in the output.
    private var count = 0
    /// The first member that was neither copied nor replaced.
    private var next = 0

    init(members: Members, table: OffsetTable) {
      self.members = members
      self.table = table
      output = JSONOutput(capacity: members.text.count + 64)
      output.append(UInt8(ascii: "{"))
    }

    /// Applies the assignments at and below one key. Returns false if the branch cannot be packed then.
    mutating func apply(_ assignments: [Assignment], _ group: Range<Int>, depth: Int) -> Bool {
      let key = assignments[group.lowerBound].location.path.keys[depth]
      guard PackedBranch.isPlain(key) else { return false }
      let (i, isFound) = key.withUTF8(members.search)
      copy(upTo: i)
      let start = output.count
      if count > 0 { output.append(UInt8(ascii: ",")) }
      let keyStart = output.count + 1
      output.append(key: key)
      output.append(UInt8(ascii: ":"))
      let valueStart = output.count
      let old = isFound ? members.value(i) : nil
      guard
        let isPresent = PackedBranch.writeValue(
          old, after: assignments, group, depth: depth + 1, under: key, to: &output)
      else { return false }
      let isFine = output.withBytes { text in
        let new = UnsafeRawBufferPointer(rebasing: text[valueStart...])
        return PackedBranch.mayReplace(old, with: new, in: members.text.count)
      }
      guard isFine else { return false }
      next = isFound ? i + 1 : i
      if isPresent {
        table[count] = MemberOffsets(
          key: UInt16(truncatingIfNeeded: keyStart), value: UInt16(truncatingIfNeeded: valueStart))
        count += 1
      } else {
        output.truncate(to: start)
      }
      return true
    }

    /// Copies the members before an index.
    private mutating func copy(upTo end: Int) {
      guard next < end else { return }
      if count > 0 { output.append(UInt8(ascii: ",")) }
      let start = Int(members.table[next].key) - 1
      let shift = output.count - start
      output.append(UnsafeRawBufferPointer(rebasing: members.text[start..<members.end(end - 1)]))
      while next < end {
        let offset = members.table[next]
        table[count] = MemberOffsets(
          key: UInt16(truncatingIfNeeded: Int(offset.key) + shift),
          value: UInt16(truncatingIfNeeded: Int(offset.value) + shift))
        count += 1
        next += 1
      }
    }

    /// Returns the branch; nil if its text is too long.
    consuming func finish(_ branch: PackedBranch) -> Node? {
      copy(upTo: members.count)
      guard count > 0 else { return .absent }
      output.append(UInt8(ascii: "}"))
      guard output.count <= PackedBranch.bytesMax else { return nil }
      let (count, table) = (count, table)
      return output.withBytes { text in
        if text.hasSameBytes(as: members.text) { return Node(storage: .packed(branch)) }
        return Node(
          storage: .packed(
            PackedBranch(childCount: count, byteCount: text.count) { offsets, copy in
              for i in 0..<count { offsets[i] = table[i] }
              copy.copyMemory(from: text)
            }))
      }
    }
  }

  /// Appends the text of a value after assignments at or below it.
  ///
  /// - Parameters:
  ///   - old: its text before them; nil if it is absent.
  ///   - depth: the number of keys that lead to the value.
  ///   - key: the last of them.
  /// - Returns: whether it is present; then nothing was appended. Nil if a packed branch cannot hold it.
  private static func writeValue(
    _ old: UnsafeRawBufferPointer?, after assignments: [Assignment], _ group: Range<Int>,
    depth: Int, under key: Key, to output: inout JSONOutput
  ) -> Bool? {
    let first = assignments[group.lowerBound]
    if first.location.path.count == depth {
      if first.value.isAbsent { return false }
      output.append(first.value, style: .export)
      return true
    }
    // A branch under a push id is not packed.
    if case .push = key.form { return nil }
    let object = old.flatMap { $0.first == UInt8(ascii: "{") ? $0 : nil }
    guard
      let isPresent = writeObject(object, after: assignments, group, depth: depth, to: &output)
    else { return nil }
    if isPresent { return true }
    // The removal of a child leaves a leaf as it is.
    guard let old, object == nil else { return false }
    output.append(old)
    return true
  }

  /// Appends the text of an object after assignments below it, as `writeValue` does.
  ///
  /// - Parameter object: its text before them; nil if there is no object.
  private static func writeObject(
    _ object: UnsafeRawBufferPointer?, after assignments: [Assignment], _ group: Range<Int>,
    depth: Int, to output: inout JSONOutput
  ) -> Bool? {
    let start = output.count
    output.append(UInt8(ascii: "{"))
    var iterator = object.map { MemberIterator($0) }
    var member = iterator?.next()
    // The end of the last member before `member`, and the start of those of them that were not copied yet.
    var (copyStart, copyEnd) = (1, 1)
    func copyMembers(to output: inout JSONOutput) {
      guard let object, copyStart < copyEnd else { return }
      if output.count > start + 1 { output.append(UInt8(ascii: ",")) }
      output.append(UnsafeRawBufferPointer(rebasing: object[copyStart..<copyEnd]))
    }
    var rest = group
    while let first = rest.first {
      let end = assignments.endOfKey(at: depth, in: rest)
      rest = end..<rest.upperBound
      let key = assignments[first].location.path.keys[depth]
      guard isPlain(key) else { return nil }
      var old: UnsafeRawBufferPointer?
      key.withUTF8 { key in
        while let offset = member, let object, let valueEnd = iterator?.lastEnd {
          let order = TextOrder.compare(
            UnsafeRawBufferPointer(rebasing: object[Int(offset.key)..<Int(offset.value) - 2]), key)
          if order > 0 { return }
          if order == 0 {
            old = UnsafeRawBufferPointer(rebasing: object[Int(offset.value)..<valueEnd])
            return
          }
          copyEnd = valueEnd
          member = iterator?.next()
        }
      }
      copyMembers(to: &output)
      let memberStart = output.count
      if memberStart > start + 1 { output.append(UInt8(ascii: ",")) }
      output.append(key: key)
      output.append(UInt8(ascii: ":"))
      guard
        let isPresent = writeValue(
          old, after: assignments, first..<end, depth: depth + 1, under: key, to: &output)
      else { return nil }
      if !isPresent { output.truncate(to: memberStart) }
      if old != nil { member = iterator?.next() }
      copyStart = member.map { Int($0.key) - 1 } ?? .max
      copyEnd = copyStart
    }
    if member != nil, let object { copyEnd = object.count - 1 }
    copyMembers(to: &output)
    guard output.count > start + 1 else {
      output.truncate(to: start)
      return false
    }
    output.append(UInt8(ascii: "}"))
    return true
  }
}

extension [Assignment] {
  /// Returns the index after the assignments with the same key at a depth as the first of a range.
  ///
  /// - Precondition: the range is not empty, and all its paths have more keys than the depth.
  func endOfKey(at depth: Int, in range: Range<Int>) -> Int {
    assert(!range.isEmpty, "there is no first assignment")
    let key = self[range.lowerBound].location.path.keys[depth]
    var end = range.lowerBound + 1
    while end < range.upperBound, self[end].location.path.keys[depth] == key { end += 1 }
    return end
  }
}
